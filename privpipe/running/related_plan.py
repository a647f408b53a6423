"""Plans of related tables: every stage decided, of each table and of the set, and nothing judged or published."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from privpipe.engines.base.frames import at_hand
from privpipe.engines.readers.files import require_stamps
from privpipe.errors import DataError
from privpipe.policy import Policy
from privpipe.progress import watched
from privpipe.running.frames import with_frames
from privpipe.running.plan import Plan
from privpipe.running.related_staging import StagedSet
from privpipe.running.run_context import OpenedEngine, RunContext, seed_of
from privpipe.running.tables_read import pinned_tables, source_of

__all__ = ["plan_related"]


def plan_related(
    policy: Policy, data: Any, *, engine: Any = None, progress: Callable[[str], None] | None = None
) -> Plan:
    """Decide every stage of a policy about related tables.

    Parameters
    ----------
    data : mapping of str to frame, or None
        None: the sources of the policy.

    Raises
    ------
    NoSolutionError
        Nothing within the limits meets the guarantees.
    DataError
        A table has no records to learn from; keys that are missing or repeated, rows that belong to no person.
    """
    if policy.related is None:
        raise TypeError("the policy is about one table")
    own = policy if data is None else with_frames(policy, data)
    if own.related is None:
        raise TypeError("the policy is about one table")
    tables = {name: pinned_tables(each) for name, each in own.related.tables.items()}
    own = own.replaced(related=replace(own.related, tables=tables))
    first = own if data is None else at_hand(next(iter(data.values())), "plan")
    with OpenedEngine(engine, first, own) as running, watched(progress) as step:
        context = RunContext(running, own, seed_of(own), step)
        staged = StagedSet(context, secrets.token_hex(16)).stage(lambda name: source_of(tables[name]))
        for name, member in staged.members.items():
            if member.staged.empty:
                raise DataError(f"table {name!r} has no records: there is nothing to learn a plan from")
        require_stamps(staged.stamps)
        return staged.whole().plan

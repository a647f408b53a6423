"""`plan_cost`: what a release will cost, before it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.engines import Engine, Source
from privpipe.engines.base.frames import at_hand
from privpipe.engines.readers.source_facts import MOST_ROWS
from privpipe.errors import DataError, UsageError
from privpipe.policy import Policy
from privpipe.running.attached_source import require_declared
from privpipe.running.cost.model import Cost, predict
from privpipe.running.cost.source_facts import looked_at, work_of
from privpipe.running.engine_choice import OpenedEngine
from privpipe.running.judged_rows import source_of
from privpipe.running.tables_read import pinned_tables, read_as_source, scanned, without_others

__all__ = ["plan_cost"]


@bordered
def plan_cost(
    policy: Policy | str | PurePath | Mapping[str, Any],
    data: Any = None,
    *,
    engine: str | Engine | None = None,
    rows: int | None = None,
    combinations: int | None = None,
    workers: int | None = None,
) -> Cost:
    """What a release of a policy will read, shuffle, spill, write and hold, predicted from one look at its source.

    The look reads every row once, hashes the cells and keeps the smallest hashes: distinct values and combinations are
    estimates with a standard error of 3 %. No stage runs and nothing is written.

    Parameters
    ----------
    policy : Policy, path or mapping
    data : path or frame, optional
        Default: the policy's source.
    engine : str or Engine, optional
        Default: the policy's.
    rows : int, optional
        Predict for so many rows of the same kind.
    combinations : int, optional
        Distinct combinations of quasi-identifiers among them. Default: in proportion where most rows have their own.
    workers : int, optional
        Processors. Default: those that the engine has, as far as it reports them.

    Returns
    -------
    Cost
        Bytes by resource and seconds of processors, what each is made of, and what cannot be known.

    Raises
    ------
    UnsupportedError
        An engine that was not measured.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.running.cost.verb import plan_cost
    >>> columns = {"age": {"role": "quasi_identifier"}, "ill": {"role": "insensitive"}}
    >>> policy = {"columns": columns, "guarantees": [{"k_anonymity": {"k": 2}}]}
    >>> cost = plan_cost(policy, pd.DataFrame({"age": [30, 30, 40], "ill": ["a", "b", "a"]}))
    >>> cost.rows, cost.combinations, cost["cpu_s"] > 0
    (3, 2, True)
    """
    for name, given in (("rows", rows), ("combinations", combinations), ("workers", workers)):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise UsageError(f"plan_cost: {name} must be a whole number of at least 1, got {given!r}")
    if not isinstance(policy, Policy):
        policy = Policy.from_dict(policy) if isinstance(policy, Mapping) else Policy.load(policy)
    policy = pinned_tables(policy)
    data = at_hand(data, "plan_cost")
    with OpenedEngine(engine, data if data is not None else policy, policy) as running:
        source = source_of(policy) if data is None else read_as_source(data, policy)
        return _predicted(running, source, policy, (rows, combinations, workers))


def _predicted(
    engine: Engine, source: Source, policy: Policy, asked: tuple[int | None, int | None, int | None]
) -> Cost:
    rows, combinations, workers = asked
    table = without_others(engine, scanned(engine, source), policy)
    require_declared(table, policy)
    seen = looked_at(engine, table, source, policy)
    if not seen.rows:
        raise DataError("the source has no records: there is nothing to predict from")
    if rows is not None or combinations is not None:
        seen = seen.of_rows(rows or seen.rows, combinations)
    processors = workers or _workers(engine, policy)
    here = engine.known(table).is_local and (rows is None or rows <= MOST_ROWS)
    processes = 0 if here else engine.resources.processes
    return predict(engine.name, seen, work_of(policy), engine.resources.memory, processors, processes, here=here)


def _workers(engine: Engine, policy: Policy) -> int | None:
    """Processors that an engine on this machine works with; a cluster's are not asked for."""
    options = policy.engines.get(engine.name, {})
    for name in ("threads", "workers"):
        if isinstance(options.get(name), int):
            return int(options[name])
    return os.cpu_count() if engine.name == "embedded" else None

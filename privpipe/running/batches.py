"""Batches of scheduled jobs: each published once under its key, with the rows of its own partitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from privpipe.engines import Engine
from privpipe.engines.base.partition_files import partitions_of
from privpipe.errors import DataError, UsageError
from privpipe.judging import Assessment
from privpipe.running.plan import Plan
from privpipe.running.release_result import ReleaseResult
from privpipe.running.staging import Staged

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["already_published", "require_batch", "require_own_partitions"]

KEY = re.compile(r"[A-Za-z0-9_.:T+-]{1,64}")


def require_batch(batch: str | None) -> None:
    """Refuse a batch key that could hold more than the name of a run: it is public.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> require_batch("2026-01-31T00:00:00+00:00")
    >>> require_batch("visits of Ann")
    Traceback (most recent call last):
    privpipe.errors.UsageError: batch: a key has 1 to 64 letters (A to Z), digits and - _ : . +, as in 2026-01-31
    """
    if batch is not None and not (isinstance(batch, str) and KEY.fullmatch(batch)):
        raise UsageError("batch: a key has 1 to 64 letters (A to Z), digits and - _ : . +, as in 2026-01-31")


def already_published(batch: str | None, run_id: str, path: str, target: str) -> ReleaseResult:
    """The answer to a batch that an earlier run published: nothing was read, judged or changed for it."""
    note = f"the batch {batch!r} was published by run {run_id}; nothing was judged or published again"
    return ReleaseResult(
        path=path,
        run_id=run_id,
        assessment=Assessment(verdicts=(), records=0, notes=(note,)),
        plan=Plan(policy_digest="", records=0, stages=()),
        manifest={},
        target=target,
        repeated=True,
    )


def require_own_partitions(engine: Engine, policy: Policy, staged: Staged) -> None:
    """Refuse released rows in other partitions than those of the source, where partitions are replaced.

    A partition is replaced by the rows of the batch that are released in it. Were rows moved to another one, or were
    none left of one, rows that others published would go, or rows of people would be published twice.

    Raises
    ------
    DataError
    """
    sink = policy.sink
    if sink is None or sink.mode != "replace_partition":
        return
    columns = list(sink.partition)
    before, after = (
        frozenset(partitions_of(engine.distinct(table, columns), columns)[0])
        for table in (staged.original, staged.table)
    )
    if before != after:
        raise DataError(
            f"sink.partition: {', '.join(map(repr, columns))}: {len(after - before):,} partitions of the released rows "
            f"are not in the source, and {len(before - after):,} of the source have no released row: stages must not "
            "change partition columns, nor suppress all rows of a partition; name columns that no stage changes"
        )

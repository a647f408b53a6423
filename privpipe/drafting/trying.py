"""Try the methods that may meet a draft's guarantees on a sample, and choose the one that keeps most."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.drafting.surviving import Paired
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import DataError, HierarchyError, NoSolutionError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.transforms.base import StagePlan

__all__ = ["MOST_LOSS", "MOST_RECORDS", "SECONDS", "Clock", "Trial", "loaded", "sample_of", "tried"]

MOST_LOSS = 0.9
"""Loss of a column from which on it tells nothing worth a place in the table."""
MOST_RECORDS = 20_000
SECONDS = 60.0
SEARCHES = ("generalize", "mondrian", "local_recoding")


@dataclass
class Clock:
    """The time that is left.

    Parameters
    ----------
    seconds : float
    tell : callable, optional
        Called with what is tried next.
    """

    seconds: float = SECONDS
    tell: Callable[[str], None] = lambda step: None
    _start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until the end; below 0 when it is over."""
        return self.seconds - (time.monotonic() - self._start)


@dataclass(frozen=True)
class Trial:
    """What a method made of the sample.

    Parameters
    ----------
    stages : tuple of str
    columns : mapping of column to float
        Loss of each quasi-identifier, from 0 to 1; empty where the guarantees do not hold.
    suppressed : float
        Share of the records that were suppressed.
    seconds : float
    records : int
        It was tried on.
    paired : Paired, optional
        What came out beside what went in.
    """

    stages: tuple[str, ...]
    columns: Mapping[str, float] = field(default_factory=dict)
    suppressed: float = 0.0
    seconds: float = 0.0
    records: int = 0
    paired: Paired | None = field(default=None, repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether it meets the guarantees."""
        return self.paired is not None

    @property
    def loss(self) -> float:
        """Mean loss of the quasi-identifiers, a suppressed record all of it."""
        kept = sum(self.columns.values()) / len(self.columns) if self.columns else 0.0
        return self.suppressed + (1 - self.suppressed) * kept

    @property
    def blanked(self) -> list[str]:
        """Columns of which next to nothing is left."""
        return [name for name, loss in self.columns.items() if loss > MOST_LOSS]


def loaded(text: str, home: Path) -> Policy:
    """The policy of a draft; a draft that does not load would be our mistake, raised at once."""
    from privpipe.policy import Policy
    from privpipe.policy.plain_values import from_yaml

    document, report = from_yaml(text, "draft")
    report.raise_if_wrong()
    return Policy.from_dict(document, home)


def sample_of(engine: Engine, policy: Policy, frame: Any = None, most: int = MOST_RECORDS) -> Any:
    """All records, or about as many as the limit says."""
    from privpipe.running.judging_rows import source_of
    from privpipe.running.reading import read_as_source, scanned, without_others

    source = source_of(policy) if frame is None else read_as_source(frame, policy)
    table = without_others(engine, scanned(engine, source), policy)
    records = engine.count(table)
    if records > most:
        named = engine.with_record_ids(table, None, Seed.of(secrets.token_bytes(32)))
        table = engine.thinned(named, most / records)
    return engine.collect(table)


def tried(stages: tuple[str, ...], policy: Policy, rows: Any, engine: Engine) -> Trial:
    """Stage a sample by a policy, judge it, and tell what its quasi-identifiers lost."""
    import pyarrow as pa

    from privpipe.policy.specs import FrameSpec
    from privpipe.running.attaching import attach
    from privpipe.running.judging_rows import judge_staged
    from privpipe.running.losing import lost_columns
    from privpipe.running.losing import sample_of as both_of
    from privpipe.running.reading import read_as_source
    from privpipe.running.run_context import RunContext, seed_of
    from privpipe.running.staging import run_stages

    began = time.monotonic()
    policy = policy.replaced(source=FrameSpec(frame=rows))
    try:
        context = RunContext(engine, policy, seed_of(policy))
        original = attach(context, read_as_source(rows, policy))
        staged = run_stages(context, original)
        judged = judge_staged(context, staged, staged.table)
        sample = both_of(context, staged)
        lost = lost_columns(context, staged, sample)
    except (NoSolutionError, DataError, HierarchyError, UnsupportedError, UsageError):
        return Trial(stages, seconds=time.monotonic() - began)
    spent = time.monotonic() - began
    if not judged.holds or sample is None:
        return Trial(stages, seconds=spent)
    share = judged.suppressed_records / max(len(rows), 1)
    first, second = sample.pairs
    before, after = (
        pa.Table.from_batches([block.to_batch()])
        for block in (sample.original.take(first), sample.released.take(second))
    )
    paired = Paired(before, after)
    shares = _shares(staged.plan.stages)
    columns = {
        row.column: 1.0 if row.alarm is not None else shares.get(row.column, paired.covered(row.column))
        for row in lost.columns
        if row.column in policy.roles.quasi_identifiers
    }
    return Trial(stages, columns, share, spent, len(rows), paired)


def _shares(stages: Sequence[StagePlan]) -> dict[str, float]:
    """What a search says that its columns lost, where it is the last stage that touches them."""
    searched = [stage for stage in stages if stage.name in SEARCHES]
    others = [stage for stage in stages if stage.name not in (*SEARCHES, "suppress_records")]
    return dict(searched[-1].detail.get("column_losses", {})) if searched and not others else {}

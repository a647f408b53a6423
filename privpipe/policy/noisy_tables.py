"""What policies of tables with noise must observe: a kept seed, or differential privacy as the only guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.policy.entries import ReadEntry
from privpipe.policy.plain_values import Report
from privpipe.tables.entries import CellGuarantee, TableStage
from privpipe.tables.private_noise import of_tables
from privpipe.tables.private_tables import PrivateTable
from privpipe.tables.stages import Aggregate
from privpipe.transforms.sampling.safepub import HARMLESS_BEFORE

__all__ = ["asked_of_tables", "check_counting", "check_private"]


def asked_of_tables(item: ReadEntry) -> ReadEntry:
    """A guarantee on how the data were made, as it is asked of tables."""
    if item.kind is None:
        return item
    return replace(item, kind=of_tables(item.kind), entry=None if item.entry is None else of_tables(item.entry))


def check_private(
    report: Report, before: Sequence[ReadEntry], after: Sequence[ReadEntry], asked: Sequence[ReadEntry]
) -> bool:
    """Whether tables are under differential privacy: then nothing is learnt from true figures, before or after."""
    private = [item for item in after if isinstance(item.entry, PrivateTable)]
    if not private:
        return False
    for item in before:
        if item.name not in HARMLESS_BEFORE:
            report.wrong(
                item.place,
                "looks at all records together, and private_table covers only what treats each by itself; leave it out",
            )
    if len(after) > 1:
        other = next((item for item in after if item is not private[0]), private[-1])
        report.wrong(other.place, "private_table is the only stage after aggregate: others go by true figures")
    for item in asked:
        if isinstance(item.entry, CellGuarantee) and not item.entry.of_process:
            report.wrong(
                item.place,
                f"{item.name} does not apply to tables with noise of private_table: it would reveal what true figures "
                "are; ask `differential_privacy` instead",
            )
    return True


def check_counting(report: Report, after: Sequence[ReadEntry], aggregate: Aggregate, *, kept_seed: bool) -> None:
    """What stages on cells need of the tables, and of the seed."""
    specs = aggregate.specs()
    for item in after:
        stage = item.entry
        if not isinstance(stage, TableStage):
            continue
        if stage.needs_seed and not kept_seed:
            report.wrong(
                item.place,
                "draws what must be the same in every release: give `seed:` with its place, as in {from_env: SEED}; "
                "under another seed each time the average of several releases shows the true figures",
            )
        names = getattr(stage, "tables", None) or tuple(specs)
        try:
            for name in names:
                if name in specs:
                    specs[name] = stage.counting(specs[name], Seed.public("policy"))
        except UsageError as error:
            report.wrong(item.place, str(error))

"""The frequency rule on finished tables of which nothing but the published figures is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privpipe.blocks.arrays import Bools
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import DataError
from privpipe.tables.aggregates import pattern_mask
from privpipe.tables.finished_tables import FinishedTable
from privpipe.tables.guarantees import MinimumFrequency

__all__ = ["frequency_verdict"]


def frequency_verdict(
    guarantee: MinimumFrequency, counts: Mapping[str, FinishedTable], sums: Mapping[str, Sequence[FinishedTable]]
) -> Verdict:
    """The verdict by published counts; an error where a sum is published and the count of its cell is not.

    Parameters
    ----------
    counts : mapping of table name to FinishedTable
    sums : mapping of table name to sequence of FinishedTable
        Figures other than counts that the guarantee judges, of tables with and without counts.
    """
    uncounted = sum(_uncounted(counts.get(name), own) for name, own in sums.items())
    shown = np.concatenate([each.values[~each.blank] for each in counts.values()])
    judged = shown[shown > 0]
    compared = (Comparison(len(judged), len(judged), "published counts above 0 were judged"),)
    empty = sum(int(_empty(guarantee, each).sum()) for each in counts.values())
    if guarantee.zeros == "unsafe" and empty:
        why = f"{empty:,} counts of 0 are published, and `zeros: unsafe` asks that they are not."
        return Verdict(guarantee, 0, "fail", guarantee.at_least, failing_classes=empty, reason=why, compared=compared)
    failing = int((judged < guarantee.at_least).sum())
    if uncounted and not failing:
        why = f"{uncounted:,} sums are published where no count is: contributors are not known; give the original."
        return Verdict(guarantee, None, "error", guarantee.at_least, reason=why, compared=compared)
    if not len(judged):
        return Verdict(guarantee, None, "error", guarantee.at_least, reason="no count is published.", compared=compared)
    return Verdict(
        guarantee,
        int(judged.min()),
        outcome="fail" if failing else "pass",
        threshold=guarantee.at_least,
        failing_classes=failing,
        reason=f"observed {int(judged.min()):,}; {failing:,} of {len(judged):,} published counts are below.",
        compared=compared,
    )


def _uncounted(counts: FinishedTable | None, sums: Sequence[FinishedTable]) -> int:
    """Published sums of cells of which the count is not."""
    known: Bools | bool = False if counts is None else ~counts.blank
    return sum(int((~each.blank & ~np.asarray(known)).sum()) for each in sums)


def _empty(guarantee: MinimumFrequency, counts: FinishedTable) -> Bools:
    """Published counts of 0 that are no structural ones.

    Raises
    ------
    DataError
        A cell that is always empty has a count.
    """
    known = pattern_mask(counts.cells, guarantee.structural, "minimum_frequency: structural")
    wrong = int((known & ~counts.blank & (counts.values > 0)).sum())
    if wrong:
        raise DataError(
            f"minimum_frequency: {wrong:,} cells that `structural` declares always empty have counts; correct the "
            "patterns or the data"
        )
    return np.asarray(~counts.blank & (counts.values == 0) & ~known, dtype=np.bool_)

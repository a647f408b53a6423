"""Unique records of the original that are unique rows of the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.file_pair import JoinedClassMeasure, JoinedTables
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import FilePath, LargestShare, OwnColumns, Stricter
from privpipe.kernels.classes.joins import ReplicateCounts, replicate_counts, thinned_uniques

__all__ = ["ReplicatedUniques"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplicatedUniques(JoinedClassMeasure):
    """Share of the original's records that are unique on some columns, and whose values one released row repeats.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: all quasi-identifiers. All columns of the table: few verbatim copies are seen.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.
    holdout : str, optional
        Table of records of the same population that the release was not made from: then the excess over the same
        share of it is compared, by its upper limit.

    Notes
    -----
    No records are paired, so that synthetic releases are judged too. The original is recoded by the hierarchies where
    the release was; missing values equal one another. Exact, but for the control. More records in the holdout than in
    the original count as an average over all samples of its size. Fewer are unique more easily, so that the excess is
    under-stated: the verdict says so.

    Examples
    --------
    >>> import numpy as np
    >>> counts = replicate_counts(np.array([0, 2, 3, 4]), np.array([0, 1, 0, 0]), np.array([1, 1, 1, 8]))
    >>> verdict = ReplicatedUniques(at_most=0.05).judge_joined(JoinedTables(counts=counts, records=10, released=5))
    >>> verdict.outcome, verdict.observed["replicated"], verdict.observed["copies"]
    ('fail', 0.1, 0.2)
    """

    compares_numbers = False
    observes = dict[str, Any]
    protects_nobody_at = 1
    source = "Raab, Nowok, Dibben, 2024 (repU)"
    threat = "A release repeats records that only one person has, if only a few of them."
    formula = "keys of one record in the original and one row in the release / records <= at_most"
    choose = (
        "0.02 on the quasi-identifiers, or 0 with all columns to forbid copies; with a holdout the excess over what "
        "other people of the population show."
    )

    at_most: Annotated[LargestShare, Doc("largest share that is tolerated")] = None
    columns: Annotated[OwnColumns, Doc("columns compared; left out: all quasi-identifiers; all columns: no copies")] = (
        None
    )
    holdout: Annotated[
        str | None,
        FilePath(),
        Stricter("equal"),
        Doc("table of records of the same population that the release was not made from"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()

    def table_beside(self) -> str | None:
        return self.holdout

    def reduction(self, secrets: Ints) -> Replicating:
        return Replicating()

    def judge_joined(self, tables: JoinedTables) -> Verdict:
        from privpipe.kernels.linkage.attack_figures import attack_figures

        found: ReplicateCounts = tables.counts
        n, h = tables.records, min(tables.holdout_records, tables.records)
        if found.classes < 2:
            return self.not_judged("no column distinguishes rows")
        control: ReplicateCounts | None = tables.holdout
        hits = 0.0 if control is None else thinned_uniques(control.once, tables.holdout_records, h)
        figures = attack_figures(found.both, n, control_hits=hits, controls=h, everyone=True)
        if control is not None and figures.excess is None:
            return self.not_judged("every record of the holdout is replicated, so that nothing is left to exceed")
        observed = {
            "replicated": found.both / n,
            "records": n,
            "uniques": found.uniques / n,
            "released_uniques": found.released_uniques / tables.released,
            "uniques_found": found.found / n,
            "copies": found.copies / tables.released,
            **({} if control is None else self._beside(figures, tables)),
        }
        compared = found.both / n if control is None else float(figures.excess_upper or 0.0)
        return self.judged(
            compared,
            observed,
            reason=self._reason(found, tables, observed),
        )

    def _beside(self, figures: Any, tables: JoinedTables) -> dict[str, Any]:
        return {
            "control": figures.control,
            "excess": figures.excess,
            "upper": figures.excess_upper,
            "holdout": tables.holdout_records,
        }

    def _reason(self, found: ReplicateCounts, tables: JoinedTables, observed: dict[str, Any]) -> str:
        told = f"{found.both:,} of {tables.records:,} original records are unique and repeated by one released row"
        if tables.holdout is None:
            return f"{told}: a share of {short(observed['replicated'])}{self.asked}."
        less = tables.holdout_records < tables.records
        note = "; a smaller holdout has more uniques and under-states the excess: give a larger one" if less else ""
        return (
            f"{told}, a share of {short(observed['replicated'])} next to {short(observed['control'])} of "
            f"{tables.holdout_records:,} others: an excess of {short(observed['excess'])}, upper 0.95 limit "
            f"{short(observed['upper'])}{self.asked}{note}."
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.02),
            cls(columns=("age", "town"), at_most=0.5, holdout="others.csv"),
        ]


@dataclass(frozen=True)
class Replicating:
    """The reduction: counts over blocks whose one column of cells shows which table a record is of."""

    def measure(self, block: ClassBlock, facts: Facts) -> ReplicateCounts:
        [cells] = block.cells.values()
        return replicate_counts(cells.offsets, cells.codes, cells.counts)

    def merge(self, left: ReplicateCounts, right: ReplicateCounts) -> ReplicateCounts:
        return left.merge(right)

"""The guarantee on differences of published cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import scipy
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import Stricter
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import DataError
from privpipe.tables import differencing
from privpipe.tables.aggregation import COUNT
from privpipe.tables.entries import TableSet, UnionGuarantee
from privpipe.tables.guarantees import NO_CELL
from privpipe.tables.table import Table
from privpipe.tables.union_families import TooManyClasses, counted_together

__all__ = ["Differencing"]

DIFFERENCES_OF_NOISE = "all counts have noise, and differences of such are not populations; leave the guarantee out."


@dataclass(frozen=True, kw_only=True, repr=False)
class Differencing(UnionGuarantee):
    """Published cells, one inside the other, differ by no contributor or by at least n.

    Parameters
    ----------
    at_least : int
        n.

    Examples
    --------
    >>> Differencing(at_least=10)
    Differencing(at_least=10)
    """

    source = "Hundepool et al., Handbook on Statistical Disclosure Control, 2nd ed., chapter 5"
    threat = "Two cells that differ by one person show that person as their difference."
    formula = "number of published A, B with B inside A and 0 < N_A - N_B < n"
    protects_nobody_at = 1
    choose = "The n of minimum_frequency."

    at_least: Annotated[
        int, Ge(1), Stricter("larger"), Doc("n: least number of contributors of a difference that is not empty")
    ]

    @property
    def least(self) -> int:
        return self.at_least

    def failures(self, tables: TableSet) -> differencing.Differences:
        """The small differences, cells numbered over the tables it judges, one after the other.

        Raises
        ------
        DataError
            Persons are in several cells.
        """
        chosen = list(tables.chosen(self.tables).values())
        # The grouping that all populations are parts of: the joint one, or the table with all dimensions.
        whole = tables.joint or max(chosen, key=lambda table: len(table.cells.dimensions))
        figures = whole.measures[COUNT].figures
        if not figures.additive:
            raise DataError(
                f"{self.name()}: persons are in several cells, so differences of counts are not populations; give "
                "`contribution_bound: 1`, or leave the guarantee to table_audit"
            )
        cells = whole.cells
        inner = [np.isin(cells.codes[:, at], each.leaves) for at, each in enumerate(cells.dimensions)]
        leaves = figures.taken(np.flatnonzero(np.logical_and.reduce(inner)))
        shown = np.concatenate([_populations(table) for table in chosen])
        return differencing.Differencing(at_least=self.at_least).failures(
            differencing.atoms_of_leaves([table.cells for table in chosen], leaves.cells),
            leaves.contributors,
            shown,
            scipy.sparse.csr_array(scipy.sparse.block_diag([table.cells.relations for table in chosen])),
        )

    def judge(self, tables: TableSet) -> Verdict:
        unread = self.without_ledger(tables)
        if unread is not None:
            return unread
        if tables.history:
            return self._judge_union(tables)
        failures = self.failures(tables)
        chosen = list(tables.chosen(self.tables).values())
        shown = np.concatenate([_populations(table) for table in chosen])
        counts = np.concatenate([table.measures[COUNT].figures.contributors for table in chosen])
        noisy = any(table.measures[COUNT].noise is not None for table in chosen)
        return self.verdict(len(failures), int((shown & (counts > 0)).sum()), noisy=noisy)

    def _judge_union(self, tables: TableSet) -> Verdict:
        """Differences that the tables of all releases show together and those of only earlier ones did not."""
        chosen = tables.chosen(self.tables)
        try:
            found = counted_together(tables, chosen, max_classes=self.max_atoms)
        except TooManyClasses as error:
            return Verdict(self, None, "error", self.at_least, reason=f"{error}.")
        if found is None:
            return Verdict(self, None, "error", self.at_least, reason=NO_CELL)
        before, now = found.counted_exactly_or_rounded
        shown = before | now
        relations = [found.linked_relations(at) for at in range(found.new) if found.measures[at].figures.additive]
        rule = differencing.Differencing(at_least=self.at_least)
        joined = scipy.sparse.csr_array(scipy.sparse.vstack(relations)) if relations else None
        failures = rule.failures(found.classes, found.class_sizes, shown, joined)
        earlier = rule.failures(found.classes, found.class_sizes, before, joined)
        known = before[failures.outer] & before[failures.inner]
        new = int((~known).sum()) + len(np.setdiff1d(failures.rests, earlier.rests))
        noisy = any(table.measures[COUNT].noise is not None for table in chosen.values())
        return self.verdict(new, int((shown & (found.sizes > 0)).sum()), noisy=noisy)

    def verdict(self, failing: int, judged: int, *, noisy: bool = False) -> Verdict:
        """The verdict on a number of published cells; an error if there are none."""
        compared = (Comparison(judged, judged, "published cells with contributors were compared"),)
        if not judged:
            why = DIFFERENCES_OF_NOISE if noisy else NO_CELL
            return Verdict(self, None, "error", self.at_least, reason=why, compared=compared)
        return Verdict(
            self,
            failing,
            outcome="fail" if failing else "pass",
            threshold=0,
            failing_classes=failing,
            reason=f"{failing:,} differences of published cells have fewer than {self.at_least:,} contributors; "
            f"{judged:,} cells were compared.",
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(at_least=10)]


def _populations(table: Table) -> Bools:
    """Cells whose published counts are of populations: the difference of counts with noise is none."""
    measure = table.measures[COUNT]
    return np.asarray(~measure.hidden & (measure.noise is None), dtype=np.bool_)

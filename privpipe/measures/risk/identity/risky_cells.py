"""Combinations of a few columns that few records have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, Guarantee, Tally, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.blocks.way import DISTINCT, Way
from privpipe.errors import UsageError
from privpipe.measures.risk.identity.attribute_risk import set_name
from privpipe.measures.risk.identity.column_set import require_columns
from privpipe.tolerance import at_most

__all__ = ["RiskyCells"]

LARGEST_NUMBER_OF_SETS = 20_000


@dataclass(frozen=True, kw_only=True, repr=False)
class RiskyCells(Guarantee):
    """Share of records that lie in a rare cell: a combination of up to `max_dim` columns with few records.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: all quasi-identifiers.
    threshold : int
        Most records of a risky cell, at least 1.
    max_dim : int
        Columns of the largest combinations, at least 1.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Notes
    -----
    Observed: `share` of records in a risky cell of any set of columns, and the number of risky cells of each set.
    A missing value is a value. Source: Hundepool et al., Statistical Disclosure Control, Wiley, 2012.

    Examples
    --------
    >>> from privpipe.blocks import DistinctBlock
    >>> block = DistinctBlock(("sex", "zip"), np.array([[0, 0], [0, 1], [1, 1]]), np.array([3, 1, 2]))
    >>> measure = RiskyCells(at_most=0.1)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> round(verdict.observed["share"], 4), verdict.observed["cells"]["sex+zip"]
    (0.1667, 1)
    """

    way: ClassVar[Way] = DISTINCT
    threshold_field: ClassVar[str | None] = "at_most"
    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"
    threat: ClassVar[str] = (
        "An intruder who knows two or three things of a person finds that hardly anybody shares them."
    )
    formula: ClassVar[str] = (
        "share of records in a combination of at most max_dim columns with at most `threshold` records"
    )
    choose: ClassVar[str] = "threshold 1 counts special uniques; max_dim 3 is what an acquaintance may know."

    columns: Annotated[
        tuple[str, ...] | None,
        Columns(),
        Stricter("equal"),
        Doc("columns to combine, of any role; left out: all quasi-identifiers"),
    ] = None
    threshold: Annotated[int, Ge(1), Stricter("equal"), Doc("most records of a cell that counts as risky")] = 1
    max_dim: Annotated[int, Ge(1), Stricter("equal"), Doc("columns in the largest combinations")] = 3
    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of records in a risky cell")
    ] = None

    quasi_identifiers: Annotated[
        tuple[str, ...] | None, Stricter("names"), Doc("the same as `columns`; give one of the two")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is not None:
            columns = require_columns("RiskyCells", self.columns)
            if self.quasi_identifiers not in (None, columns):
                raise UsageError("RiskyCells: quasi_identifiers and columns name different sets; give columns alone")
            object.__setattr__(self, "columns", columns)
            object.__setattr__(self, "quasi_identifiers", columns)

    def measure(self, block: Any, facts: Facts) -> Tally:
        """The figures of a `DistinctBlock`."""
        from privpipe.kernels.classes.projections import projected_counts

        columns = block.columns
        most = min(self.max_dim, len(columns))
        sets = sum(math.comb(len(columns), size) for size in range(1, most + 1))
        if sets > LARGEST_NUMBER_OF_SETS:
            raise UsageError(
                f"risky_cells: {len(columns)} columns make {sets:,} sets of up to {most}; at most "
                f"{LARGEST_NUMBER_OF_SETS:,} are counted: lower max_dim, or name fewer columns"
            )
        risky = np.zeros(len(block), dtype=np.bool_)
        cells = {}
        for size in range(1, most + 1):
            for places in combinations(range(len(columns)), size):
                numbers, totals = projected_counts(block.codes[:, places], block.counts)
                cells[set_name([columns[at] for at in places])] = int(((totals > 0) & (totals <= self.threshold)).sum())
                risky |= totals[numbers] <= self.threshold
        gone = int(block.counts[risky].sum())
        return Tally(observed=cells, failing_records=gone, records=block.records)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        if not observed.records:
            return Verdict(self, None, "error", self.demanded(), reason="no record to judge.")
        share = observed.failing_records / observed.records
        passed = not self.is_gate() or bool(at_most(share, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        return Verdict(
            self,
            {"share": share, "cells": observed.observed},
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            failing_records=observed.failing_records,
            failing_share=share,
            reason=(
                f"observed {short(share)}{asked}; {observed.failing_records:,} of {observed.records:,} records lie in "
                f"one of {sum(observed.observed.values()):,} cells of at most {self.threshold:,} records."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(max_dim=1), cls(threshold=2, max_dim=2, at_most=0.5), cls(columns=("zip",), at_most=1.0)]

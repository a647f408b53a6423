"""Combinations of a few values that few records have: risky cells, and special uniques (minimal sample uniques,
scored).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import DistinctBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LargestShare, OptionalNumber, OwnColumns, PositiveNumber, Stricter
from privpipe.blocks.way import DISTINCT
from privpipe.errors import UsageError
from privpipe.measures.risk.identity.attribute_risk import set_name

__all__ = ["MOST_COLUMNS", "RiskyCells", "SpecialUniques"]


LARGEST_NUMBER_OF_SETS = 20_000


@dataclass(frozen=True, kw_only=True, repr=False)
class RiskyCells(Guarantee):
    """Share of records that are in a rare cell: a combination of up to `max_dim` columns with few records.

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
    A missing value is a value.

    Examples
    --------
    >>> from privpipe.blocks import DistinctBlock
    >>> block = DistinctBlock(("sex", "zip"), np.array([[0, 0], [0, 1], [1, 1]]), np.array([3, 1, 2]))
    >>> measure = RiskyCells(at_most=0.1)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> round(verdict.observed["share"], 4), verdict.observed["cells"]["sex+zip"]
    (0.1667, 1)
    """

    way = DISTINCT
    threshold_field = "at_most"
    observes = dict[str, Any]
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"
    threat = "An intruder who knows two or three things about a person finds that hardly anyone shares them."
    formula = "share of records in a combination of at most max_dim columns with at most `threshold` records"
    choose = "threshold 1 counts special uniques; max_dim 3 is what an acquaintance may know."

    columns: Annotated[OwnColumns, Doc("columns to combine, of any role; left out: all quasi-identifiers")] = None
    threshold: Annotated[PositiveNumber, Doc("most records of a cell that counts as risky")] = 1
    max_dim: Annotated[PositiveNumber, Doc("columns in the largest combinations")] = 3
    at_most: Annotated[LargestShare, Doc("largest share of records in a risky cell")] = None

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns(as_keys=True)

    def measure(self, block: Any, facts: Facts) -> Tally:
        """The figures of a `DistinctBlock`."""
        from privpipe.kernels.classes.coded_classes import projected_counts

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
            return self.not_judged("no record to judge")
        share = observed.failing_records / observed.records
        return self.judged(
            share,
            {"share": share, "cells": observed.observed},
            failing_records=observed.failing_records,
            failing_share=share,
            reason=(
                f"observed {short(share)}{self.asked}; {observed.failing_records:,} of {observed.records:,} records "
                f"are in one of {sum(observed.observed.values()):,} cells of at most {self.threshold:,} records."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(max_dim=1), cls(threshold=2, max_dim=2, at_most=0.5), cls(columns=("zip",), at_most=1.0)]


Figure = Literal["share", "dis_mean", "dis_max"]
Score = Literal["original", "weighted"]
MOST_COLUMNS = 14
"""Columns whose sets are all examined; more need a `max_size`."""
MOST_KEYS = 62


@dataclass(frozen=True, kw_only=True, repr=False)
class SpecialUniques(Guarantee):
    """Special uniques (SUDA2): records that are alone on a small set of columns; share, or probability of a match.

    A minimal sample unique of a record is a set of columns on which it is alone, and on no set with one column fewer.
    The score of a record is the sum over its minimal sample uniques, the more the smaller they are.

    Parameters
    ----------
    columns : tuple of str, optional
        m of them, of any role. Default: all quasi-identifiers.
    max_size : int, optional
        Columns of the largest sets that are looked at. Required for more than 14 columns.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"share", "dis_mean", "dis_max"}
        What is judged: share of records with a score above 0, or mean (over all records) and largest DIS score.
    dis_fraction : float
        Sampling fraction of Data Intrusion Simulation, in (0, 1).
    score : {"original", "weighted"}
        A set of s columns adds (m-s)!, or (2^(m-s)-1) s!(m-s)!/m!.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Notes
    -----
    A record with a blank in a set takes no part in it. With U records alone on all columns and P in classes of two,
    DIS = 1 / (1 + P(1-f)/f / (S^Q sum S^-Q)), Q = 1 + (8-m)/20; without pairs every score above 0 has a DIS of 1.
    `contributions` is the share of the total score in sets with a column.

    Examples
    --------
    >>> block = DistinctBlock(("sex", "zip"), np.array([[0, 0], [0, 1], [1, 0]]), np.array([2, 1, 1]))
    >>> measure = SpecialUniques(at_most=0.4)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed["share"], verdict.observed["score_sum"]
    ('fail', 0.5, 2.0)
    """

    way = DISTINCT
    threshold_field = "at_most"
    trusts_values = True
    gives_record_figures = True
    judges_matching = True
    observes = dict[str, Any]
    source = "Elliot, Manning, Ford, IJUFKS 10, 2002; Manning, Haglin, Keane, DMKD 16, 2008"
    threat = "A record is conspicuous by two or three of its values, so anyone who knows these finds it at once."
    formula = "score = sum of (m - s)! over the minimal sets of s columns on which the record is unique"
    choose = (
        "share near 0 for a public file; dis_max to look at the worst record. Fewer columns an intruder can know say "
        "more than all that exist."
    )

    columns: Annotated[OwnColumns, Doc("columns to combine, of any role; left out: all quasi-identifiers")] = None
    max_size: Annotated[
        OptionalNumber, Doc(f"columns in the largest sets; required for more than {MOST_COLUMNS} columns")
    ] = None
    at_most: Annotated[LargestShare, Doc("largest share of special uniques, or DIS score")] = None
    figure: Annotated[Figure, Stricter("equal"), Doc("share, dis_mean or dis_max")] = "share"
    dis_fraction: Annotated[
        float, Gt(0), Lt(1), Stricter("equal"), Doc("sampling fraction of the simulated intrusion")
    ] = 0.01
    score: Annotated[
        Score, Stricter("equal"), Doc("original, or weighted (each set by its share of the sets of its size)")
    ] = "original"

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns(as_keys=True)
        if self.columns is not None:
            self._require_served(len(self.columns))

    def _require_served(self, columns: int) -> None:
        if columns > MOST_KEYS:
            raise UsageError(f"special_uniques: {columns} columns, {MOST_KEYS} are served; name fewer")
        if columns > MOST_COLUMNS and self.max_size is None:
            raise UsageError(
                f"special_uniques: {columns} columns have too many sets to look at; give a max_size (3 is usual), or "
                f"name at most {MOST_COLUMNS} columns"
            )

    def record_figures(self, records: DistinctBlock, households: Ints | None, matching: bool) -> Mapping[str, Floats]:
        block, owner = without_blanks_apart(records)
        scored = self._scored(block)
        return {"special_uniques_score": scored.scores[owner], "special_uniques_dis": scored.dis[owner]}

    def _scored(self, block: DistinctBlock) -> _Scored:
        from privpipe.kernels.uniqueness.special_uniques import dis_scores, minimal_uniques, size_weights

        m = len(block.columns)
        self._require_served(m)
        found = minimal_uniques(block.codes, block.counts, self.max_size)
        weights = size_weights(m, self.score == "weighted")
        scores = found.scores(weights)
        whole = (block.codes >= 0).all(axis=1)
        paired = 2 * int((whole & (block.counts == 2)).sum())
        dis = dis_scores(scores, paired, m, self.dis_fraction)
        return _Scored(scores, dis, found.shares(weights), paired)

    def measure(self, block: Any, facts: Facts) -> Tally:
        """The figures of a `DistinctBlock`."""
        block, _ = without_blanks_apart(block)
        scored = self._scored(block)
        scores, dis = scored.scores, scored.dis
        positive = int((scores > 0).sum())
        n = block.records
        observed = {
            "share": positive / n if n else None,
            "dis_mean": exact_sum(dis) / n if n else None,
            "dis_max": float(dis.max(initial=0.0)),
            "dis_sum": exact_sum(dis),
            "score_sum": exact_sum(scores),
            "score_max": float(scores.max(initial=0.0)),
            "contributions": {
                name: None if np.isnan(share) else float(share)
                for name, share in zip(block.columns, scored.shares, strict=True)
            },
        }
        return Tally(observed=observed, failing_records=positive, records=n, sums={"pairs": scored.paired})

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        if not observed.records:
            return self.not_judged("no record to judge")
        figure = observed.observed[self.figure]
        what = {"share": "share of special uniques", "dis_mean": "mean DIS", "dis_max": "largest DIS"}[self.figure]
        size = "" if self.max_size is None else f" of at most {self.max_size:,} columns"
        pairs = "" if observed.sums["pairs"] else "; no pairs, so DIS cannot distinguish records"
        return self.judged(
            figure,
            observed.observed,
            failing_records=observed.failing_records,
            failing_share=observed.failing_records / observed.records,
            reason=(
                f"observed {what} {short(figure)}{self.asked}; {observed.failing_records:,} of {observed.records:,} "
                f"records are alone on a set{size} that scores{pairs}."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.2),
            cls(at_most=0.05, figure="dis_max", max_size=2),
            cls(at_most=0.01, figure="dis_mean", score="weighted", dis_fraction=0.1),
        ]


@dataclass(frozen=True)
class _Scored:
    """Scores and DIS of each combination, the columns' shares of the score, and records in pairs."""

    scores: Floats
    dis: Floats
    shares: Floats
    paired: int


def without_blanks_apart(block: DistinctBlock) -> tuple[DistinctBlock, NDArray[np.intp]]:
    """Blanks coded -1, and combinations that read alike as one; and which of these each row is."""
    codes = block.codes if block.blanks is None else np.where(block.blanks, -1, block.codes)
    distinct, places = np.unique(codes, axis=0, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, places.ravel(), block.counts)
    return DistinctBlock(block.columns, distinct, counts), places.ravel()


def exact_sum(values: Any) -> float:
    """The sum, the same in any order."""
    import math

    return math.fsum(values)

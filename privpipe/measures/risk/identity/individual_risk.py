"""Risk of each record of a sample survey, estimated from sampling weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, DistinctBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Household, LargestShare, PositiveShare, Stricter, Weight
from privpipe.blocks.way import WEIGHTS
from privpipe.errors import DataError, UsageError
from privpipe.tolerance import at_least, at_most, below

__all__ = ["IndividualRisk", "RiskSums", "Spread", "spread_of", "weighted_patterns"]


FINEST = 1074
"""Exact sums are whole numbers of 2^-1074."""
Part = tuple[Ints, Floats, Ints]


@dataclass(frozen=True)
class RiskSums:
    """Sums over the records of some classes; merges in any order to the same.

    Parameters
    ----------
    total : int
        Exact sum of the risks, in units of 2^-1074.
    highest : float
    above : int
        Records whose risk exceeds the threshold.
    light : int
        Records of classes whose weights sum to less than their records.
    least : float
        Smallest sample count; infinite of no class.
    least_own : int
        Under wildcard matching the smallest number of records that are equal, blanks included; 0 elsewhere.
    parts : tuple of (households, risks, records)
        Single risks: of members of households (-1: alone), or of records where a level is asked for.
    """

    total: int = 0
    highest: float = 0.0
    above: int = 0
    light: int = 0
    least: float = float("inf")
    least_own: int = 0
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, risks: Floats, records: Ints, threshold: float, *, keep: bool = False) -> RiskSums:
        """From the number of records of each risk.

        Examples
        --------
        >>> sums = RiskSums.of(np.array([0.5, 0.25]), np.array([1, 2]), 0.3)
        >>> sums.total == 1 << 1074, sums.highest, sums.above
        (True, 0.5, 1)
        """
        from privpipe.kernels.exact_sums import measure_sums

        if not len(risks):
            return cls()
        part: Part = (np.full(len(risks), -1, dtype=np.int64), risks, records)
        return cls(
            total=measure_sums([risks * records]).totals[0],
            highest=float(risks.max()),
            above=int(records[~at_most(risks, threshold)].sum()),
            parts=(_grouped(part),) if keep else (),
        )

    def merge(self, other: RiskSums) -> RiskSums:
        """Of both sets of classes."""
        own = [least for least in (self.least_own, other.least_own) if least]
        return RiskSums(
            self.total + other.total,
            max(self.highest, other.highest),
            self.above + other.above,
            self.light + other.light,
            min(self.least, other.least),
            min(own, default=0),
            (*self.parts, *other.parts),
        )

    def joined(self) -> Part:
        """All parts as one."""
        empty: Part = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
        households, risks, records = zip(empty, *self.parts, strict=True)
        return np.concatenate(households), np.concatenate(risks), np.concatenate(records)


@dataclass(frozen=True)
class Spread:
    """The risks of all records: their sum, the largest, how many exceed the threshold, and the requested level."""

    expected: float
    highest: float
    above: int
    level: float | None


def spread_of(sums: RiskSums, records: int, threshold: float, threshold_for: float | None) -> Spread:
    """The figures of merged sums; single risks with a household become the household's."""
    from privpipe.kernels.uniqueness.frequency_models import household_risk

    households, risks, counts = sums.joined()
    if len(households) and not sums.total:
        risks, counts = household_risk(households, risks, counts)
        sums = replace(RiskSums.of(risks, counts, threshold), least=sums.least, least_own=sums.least_own)
    expected = sums.total / (1 << FINEST)  # of whole numbers, rounded once
    level = None
    if threshold_for is not None and len(risks):
        level = _level(risks, counts, threshold_for * records)
    return Spread(expected, sums.highest, sums.above, level)


def _level(risks: Floats, counts: Ints, bound: float) -> float | None:
    """The largest observed v with sum min(r, v) < bound; None where the risks sum to less.

    Examples
    --------
    >>> _level(np.array([0.5, 0.1, 0.2]), np.array([1, 2, 1]), 0.7)
    0.2
    """
    _, risks, counts = _grouped((np.full(len(risks), -1, dtype=np.int64), risks, counts))
    upto = np.cumsum(risks * counts)
    left = counts.sum() - np.cumsum(counts)
    fits = below(upto + left * risks, bound)
    if fits[-1] or not fits.any():
        return None
    return float(risks[np.flatnonzero(fits)[-1]])


def _grouped(part: Part) -> Part:
    """One row a risk, ascending."""
    _, risks, records = part
    distinct, places = np.unique(risks, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, places.ravel(), records)
    return np.full(len(distinct), -1, dtype=np.int64), distinct, counts


def weighted_patterns(records: DistinctBlock, matching: bool) -> tuple[ClassBlock, NDArray[np.intp]]:
    """The classes of records, or under `matching` their patterns, with weights; and which each record is in.

    Examples
    --------
    >>> codes, ones = np.array([[0], [0], [1]]), np.ones(3, dtype=np.int64)
    >>> block, owner = weighted_patterns(DistinctBlock(("a",), codes, ones, weights=np.array([2.0, 3.0, 4.0])), False)
    >>> block.sizes.tolist(), block.weights.tolist(), owner.tolist()
    ([2, 1], [5.0, 4.0], [0, 0, 1])
    """
    from privpipe.blocks.arrays import read_only
    from privpipe.kernels.exact_sums import exact_sum_by_class
    from privpipe.kernels.local_suppression.wildcard_matching import informative_frequencies

    blanks = records.blanks if matching else None
    codes = records.codes if blanks is None else np.where(blanks, -1, records.codes)
    patterns, owner = np.unique(codes, axis=0, return_inverse=True)
    owner = owner.ravel()
    order = np.argsort(owner, kind="stable")
    offsets = np.searchsorted(owner[order], np.arange(len(patterns) + 1)).astype(np.int64)
    counts = records.counts[order]
    cells = read_only(np.asarray(records.weights)[order], np.float64), read_only(counts, np.int64)
    weights = np.asarray(exact_sum_by_class(read_only(offsets, np.int64), *cells), dtype=np.float64)
    sizes = np.bincount(owner, weights=records.counts, minlength=len(patterns)).astype(np.int64)
    if not matching:
        return ClassBlock(sizes, weights=weights), owner
    found = informative_frequencies(patterns, sizes, weights)
    block = ClassBlock(
        sizes,
        matching=found.matching,
        weights=found.weights,
        partial=found.partial,
        partial_weights=found.partial_weights,
    )
    return block, owner


Figure = Literal["mean", "max", "share_above"]
Method = Literal["exact", "approximate"]


@dataclass(frozen=True, kw_only=True, repr=False)
class IndividualRisk(Guarantee):
    """Estimated risk that a record's match with the population is correct: E(1/F | f), given sampling weights.

    f is the sample count of the record's class, F its population count, negative binomial given f with p = f over the
    sum of the class's weights.

    Parameters
    ----------
    weight : str
        Column of sampling weights: how many people of the population a record represents. Of any role; an identifier
        is not released.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"mean", "max", "share_above"}
        What is judged: mean and largest risk of a record, or the share of records whose risk exceeds `threshold`.
    threshold : float
        In (0, 1].
    household : str, optional
        Column that identifies the household; every member then has the risk that any of them is found.
    threshold_for : float, optional
        Report the largest observed risk v with ``sum min(r, v) < threshold_for * n``, None where the sum of the risks
        themselves is below.
    method : {"exact", "approximate"}
        approximate: p / (f - (1 - p)) for f > 2.
    alpha : float
        Under `nulls: wildcard`, the weight of a match by blanks, in [0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Weights that sum to less than a class's records (p > 1) make the outcome an error, which counts them. A record
    without a household is one by itself. Sums are exact, so all engines agree to the last bit.

    Examples
    --------
    >>> block = ClassBlock(np.array([2, 1]), weights=np.array([110.0, 17.0]))
    >>> measure = IndividualRisk(weight="w", at_most=0.05)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> verdict.outcome, round(verdict.observed["mean"], 6), round(verdict.observed["max"], 6)
    ('fail', 0.070455, 0.177076)
    """

    way = WEIGHTS
    threshold_field = "at_most"
    trusts_values = True
    gives_record_figures = True
    judges_matching = True
    observes = dict[str, Any]
    source = "Benedetti, Franconi, NTTS 1998; Franconi, Polettini, PSD 2004"
    threat = (
        "An intruder matches a record of a survey with a register of the population, without knowing who took part."
    )
    formula = "r = E(1/F | f) = (p/f) 2F1(1, 1; f+1; 1-p), p = f / sum of the class's weights"
    choose = (
        "mean of 0.01 or less; share_above with threshold 0.05 where single records matter. It is an estimate, and "
        "meaningless where a quasi-identifier was swapped or perturbed: judge such a release by record_linkage."
    )

    weight: Annotated[
        str, Weight(), Stricter("equal"), Doc("column of sampling weights: how many people a record represents")
    ]
    at_most: Annotated[LargestShare, Doc("largest risk")] = None
    figure: Annotated[
        Figure, Stricter("equal"), Doc("mean, max, or share_above (share of records whose risk exceeds `threshold`)")
    ] = "mean"
    threshold: Annotated[PositiveShare, Doc("risk above which a record counts in share_above")] = 0.05
    household: Annotated[
        str | None,
        Household(),
        Stricter("equal"),
        Doc("column that distinguishes households: members share the risk that one of them is found"),
    ] = None
    threshold_for: Annotated[
        float | None,
        Gt(0),
        Le(1),
        Stricter("equal"),
        Doc("report the risk level at which records, capped, would have this mean risk"),
    ] = None
    method: Annotated[
        Method, Stricter("equal"), Doc("exact, or approximate (the usual shortcut for classes of more than two)")
    ] = "exact"
    alpha: Annotated[
        float, Ge(0), Le(1), Stricter("equal"), Doc("under `nulls: wildcard`, the weight of a match by blanks")
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "IndividualRisk"
        for name in ("weight", "household"):
            column = getattr(self, name)
            if column is not None and column in (self.quasi_identifiers or ()):
                raise UsageError(f"{owner}: {column!r} cannot be {name} and quasi-identifier at once")

    def counted_columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return () if self.household is None else (self.household,)

    def frequencies(self, block: ClassBlock) -> tuple[Floats, Floats]:
        """f and the estimate of F of each class, shape (n_classes,)."""
        sample, population = block.alike.astype(np.float64), np.asarray(block.weights, dtype=np.float64)
        if block.partial is not None and self.alpha < 1:
            sample = sample - (1 - self.alpha) * block.partial
            population = population - (1 - self.alpha) * np.asarray(block.partial_weights)
        return sample, population

    def risks(self, block: ClassBlock) -> Floats:
        """Risk of a record of each class, shape (n_classes,)."""
        from privpipe.kernels.uniqueness.frequency_models import individual_risk

        return individual_risk(*self.frequencies(block), approximate=self.method == "approximate")

    def record_figures(self, records: DistinctBlock, households: Ints | None, matching: bool) -> Mapping[str, Floats]:
        from privpipe.kernels.uniqueness.frequency_models import shared_risk

        patterns, owner = weighted_patterns(records, matching)
        sample, population = self.frequencies(patterns)
        if not at_least(population, sample).all():
            raise DataError(f"individual_risk: weights in {self.weight!r} sum to fewer people than a class has records")
        risks = self.risks(patterns)[owner]
        return {"individual_risk": risks if households is None else shared_risk(households, risks)}

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if not len(block):
            return Tally(observed=RiskSums())
        sample, population = self.frequencies(block)
        heavy = at_least(population, sample) & np.isfinite(population)
        lost = int(block.sizes[~heavy].sum())
        own = 0
        if block.matching is not None:
            own = int(block.sizes.min())
        sums = RiskSums(light=lost, least=float(sample.min()), least_own=own)
        if not lost:
            sums = sums.merge(self._sums(block, self.risks(block), facts))
        return Tally(observed=sums, classes=len(block), records=block.records)

    def _sums(self, block: ClassBlock, risks: Floats, facts: Facts) -> RiskSums:
        if self.household is None:
            return RiskSums.of(risks, block.sizes, self.threshold, keep=self.threshold_for is not None)
        cells = block.cells[self.household]
        known = facts.histograms[self.household]
        alone = len(known) - 1 if known.nulls else -1
        households = np.where(cells.codes == alone, -1, cells.codes)
        return RiskSums(parts=((households, np.repeat(risks, np.diff(cells.offsets)), cells.counts),))

    def merge(self, left: Tally, right: Tally) -> Tally:
        return Tally(
            observed=left.observed.merge(right.observed),
            classes=left.classes + right.classes,
            records=left.records + right.records,
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sums: RiskSums = observed.observed
        if not observed.records:
            return self.not_judged("no record to judge")
        if sums.light:
            return self.not_judged(
                f"{sums.light:,} of {observed.records:,} records are in classes whose weights in {self.weight!r} sum "
                "to fewer people than they have records, or to no finite number; a weight is the number of people a "
                "record represents, at least 1"
            )
        spread = spread_of(sums, observed.records, self.threshold, self.threshold_for)
        figures: dict[str, Any] = {
            "mean": spread.expected / observed.records,
            "max": spread.highest,
            "share_above": spread.above / observed.records,
            "expected_reidentifications": spread.expected,
        }
        if self.threshold_for is not None:
            figures["threshold_for"] = spread.level
        if sums.least_own:
            figures |= {"k_wildcard": sums.least, "k_own_value": sums.least_own}
        return self._verdict(figures, spread, observed)

    def _verdict(self, figures: dict[str, Any], spread: Spread, observed: Tally) -> Verdict:
        figure = figures[self.figure]
        what = {
            "mean": "mean risk",
            "max": "largest risk",
            "share_above": f"share of records at a risk above {short(self.threshold)}",
        }[self.figure]
        whose = "" if self.household is None else " of households"
        counts = self.figure == "share_above" and self.is_gate()
        return self.judged(
            figure,
            figures,
            failing_records=spread.above if counts else None,
            failing_share=figure if counts else None,
            reason=(
                f"estimated {what}{whose} {short(figure)}{self.asked}; {spread.expected:,.6g} right matches expected "
                f"over {observed.records:,} records of {observed.classes:,} classes."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(weight="weight"),
            cls(weight="weight", at_most=0.05),
            cls(weight="weight", at_most=0.1, figure="max", method="approximate"),
            cls(weight="weight", at_most=0.1, figure="share_above", threshold=0.01, household="household"),
            cls(weight="weight", threshold_for=0.01, alpha=0.5),
        ]

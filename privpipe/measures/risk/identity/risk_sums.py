"""What is kept of the risks of records while classes are measured: exact sums, and single risks where asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privpipe.tolerance import at_most, below

__all__ = ["RiskSums", "Spread", "spread_of"]

FINEST = 1074
"""Exact sums are whole numbers of 2^-1074."""
Part = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]


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
    def of(
        cls, risks: NDArray[np.float64], records: NDArray[np.int64], threshold: float, *, keep: bool = False
    ) -> RiskSums:
        """Of so many records of each risk.

        Examples
        --------
        >>> sums = RiskSums.of(np.array([0.5, 0.25]), np.array([1, 2]), 0.3)
        >>> sums.total == 1 << 1074, sums.highest, sums.above
        (True, 0.5, 1)
        """
        from privpipe.kernels.sums.exact import measure_sums

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
    """The risks of all records: their sum, the largest, how many exceed the threshold, and the level asked for."""

    expected: float
    highest: float
    above: int
    level: float | None


def spread_of(sums: RiskSums, records: int, threshold: float, threshold_for: float | None) -> Spread:
    """The figures of merged sums; single risks with a household become the household's."""
    from privpipe.kernels.uniqueness.individual_risk import household_risk

    households, risks, counts = sums.joined()
    if len(households) and not sums.total:
        risks, counts = household_risk(households, risks, counts)
        sums = replace(RiskSums.of(risks, counts, threshold), least=sums.least, least_own=sums.least_own)
    expected = sums.total / (1 << FINEST)  # of whole numbers, rounded once
    level = None
    if threshold_for is not None and len(risks):
        level = _level(risks, counts, threshold_for * records)
    return Spread(expected, sums.highest, sums.above, level)


def _level(risks: NDArray[np.float64], counts: NDArray[np.int64], bound: float) -> float | None:
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

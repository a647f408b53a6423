"""Separation of a set of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.identity.column_set import ColumnSetMeasure

__all__ = ["Separation", "separation"]


def separation(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
    """Share of record pairs in different classes; NaN where there is no pair.

    In Python integers up to the last division: n(n - 1) leaves 64 bits from three billion records on.

    Examples
    --------
    >>> separation(np.array([2, 3]), np.array([1, 1]))
    0.6
    """
    records = int(sizes @ counts)
    if records < 2:
        return float("nan")
    pairs = records * (records - 1)
    alike = sum(count * size * (size - 1) for size, count in zip(sizes.tolist(), counts.tolist(), strict=True))
    return float((pairs - alike) / pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class Separation(ColumnSetMeasure):
    """Share of record pairs that differ on some columns; observed = 1 - sum n_c (n_c - 1) / (n (n - 1)).

    Parameters
    ----------
    columns : tuple of str, optional
        Of any role. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Notes
    -----
    A table of one record has no pair: undefined, and as a guarantee an error. Source: Motwani, Xu, Efficient Algorithms
    for Masking and Finding Quasi-Identifiers, VLDB SDM workshop, 2007.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = Separation(columns=("sex",), at_most=0.5)
    >>> verdict = measure.judge(measure.measure(ClassBlock(np.array([3, 2])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.6)
    """

    observes: ClassVar[object] = float
    source: ClassVar[str] = "Motwani, Xu, Finding Quasi-Identifiers, VLDB SDM workshop, 2007"
    threat: ClassVar[str] = "An intruder distinguishes people by columns that nobody considered identifying."
    formula: ClassVar[str] = "1 - sum n_c (n_c - 1) / (n (n - 1)) <= at_most"
    choose: ClassVar[str] = (
        "Above 0.9 a single column deserves the role quasi_identifier. As a gate on a column released as insensitive, "
        "0.9 keeps it from becoming identifying unnoticed."
    )

    at_most: Annotated[
        float | None,
        Ge(0),
        Le(1),
        Stricter("smaller"),
        Doc("largest share of record pairs that the columns tell apart"),
    ] = None

    def figure_of(self, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
        return separation(sizes, counts)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.7), cls(columns=("zip",), at_most=0.5), cls(at_most=0.0)]

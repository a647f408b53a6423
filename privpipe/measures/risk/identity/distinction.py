"""Distinction of a set of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.identity.column_set import ColumnSetMeasure

__all__ = ["Distinction", "distinction"]


def distinction(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
    """Distinct combinations / records, of so many (`counts`) classes of each of these `sizes`.

    Examples
    --------
    >>> distinction(np.array([1, 2]), np.array([3, 1]))
    0.8
    """
    records = int(sizes @ counts)
    return int(counts.sum()) / records if records else float("nan")


@dataclass(frozen=True, kw_only=True, repr=False)
class Distinction(ColumnSetMeasure):
    """Share of distinct combinations of some columns among the records; observed = combinations / records.

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
    In (0, 1]; 1 when the columns are a key of the table. Source: Motwani, Xu, Efficient Algorithms for Masking and
    Finding Quasi-Identifiers, VLDB SDM workshop, 2007.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = Distinction(columns=("sex",), at_most=0.5)
    >>> verdict = measure.judge(measure.measure(ClassBlock(np.array([3, 2])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('pass', 0.4)
    """

    observes: ClassVar[object] = float
    source: ClassVar[str] = "Motwani, Xu, Finding Quasi-Identifiers, VLDB SDM workshop, 2007"
    threat: ClassVar[str] = "An intruder who knows these columns of a person finds a record with few others like it."
    formula: ClassVar[str] = "distinct combinations / n <= at_most"
    choose: ClassVar[str] = (
        "Near 1 the columns are a key: whoever knows them finds the person. 0.05 means 20 records a combination "
        "on average, while single ones may still be unique: pair it with k_anonymity."
    )

    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of distinct combinations among the records")
    ] = None

    def figure_of(self, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
        return distinction(sizes, counts)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.3), cls(columns=("zip",), at_most=0.5), cls(at_most=0.0)]

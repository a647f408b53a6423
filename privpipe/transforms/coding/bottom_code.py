"""Bottom coding: values below a threshold are released as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from privpipe.transforms.coding.tail_coding import TailCode

__all__ = ["BottomCode"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BottomCode(TailCode):
    """Replace every value below a threshold (strictly) by the threshold, the mean of the replaced, or a label.

    Parameters
    ----------
    columns : tuple of str
        Numbers, decimals, dates or timestamps.
    at : float or str, optional
        Threshold; of a date as text (``2024-01-31``).
    quantile : float, optional
        Instead: the lower empirical quantile, the value at rank ceil(q n) - 1, q in (0, 1). Where the policy
        distinguishes persons, it is that of the persons, each with the smallest of its values.
    distance : float, optional
        Instead: q in [0.5, 1), as 0.975, for two columns or more, which are coded together. A record outside the
        ellipsoid d^2 = chi2(r, q) around the robust centre moves along the ray to the centre until it meets the
        boundary: each of its values keeps its side of the centre, and who is extreme in combination alone is coded
        too. Bottom coding takes the records whose value that lies furthest from its centre lies below it, top coding
        the others; the two together leave nobody outside. Centre and scatter are the minimum covariance determinant
        (FAST-MCD, re-weighted) of the complete records of the stratum, r is its rank, and how far a value lies is
        told in units of 1.4826 times the median absolute deviation. A record that misses values is measured over
        those it has. Who lies off a plane that holds most records is moved next to the centre.
    replace : {"threshold", "mean", "label"}
        threshold: of a distance, the point of the boundary. mean: of the replaced values, which keeps the sum of each
        column; refused where fewer than `at_least` records are replaced. label: the column becomes text; not for a
        distance.
    label : str, optional
        For ``replace: label``.
    at_least : int
        At least 1. It counts persons where the policy distinguishes them, and households too where a guarantee
        counts them.
    round : bool
        A mean or a point of a boundary in whole numbers, half to even, which may lie off the boundary by as much; an
        integer column then stays one.
    nulls : {"keep", "refuse"}
    by : tuple of str
        Strata with a quantile or region and a mean each.
    small_strata : {"refuse", "suppress", "merge"}

    Notes
    -----
    Source: Hundepool et al., Statistical Disclosure Control, Wiley, 2012; Rousseeuw, Van Driessen, Technometrics 41(3),
    1999 (FAST-MCD).

    Examples
    --------
    >>> BottomCode(columns=["age"], at=18, replace="label", label="under 18").replace
    'label'
    >>> BottomCode(columns=["income", "wealth"], distance=0.975).replace
    'threshold'
    """

    upper: ClassVar[bool] = False
    preserves: ClassVar[str] = "every value up to the threshold; with mean, the sum of the column"
    reveals: ClassVar[str] = (
        "that a value lies beyond the threshold; of a distance, also in which direction from the centre"
    )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), at=3),
            cls(columns=("income",), quantile=0.5, replace="mean", at_least=1),
            cls(columns=("income",), at=0.5, replace="label", label="less"),
            cls(columns=("income", "age"), distance=0.9),
        ]

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
        Instead: the lower empirical quantile, the value at rank ceil(q n) - 1, q in (0, 1).
    replace : {"threshold", "mean", "label"}
        mean: of the replaced values, which keeps the sum of the column; refused where fewer than `at_least` records
        are replaced. label: the column becomes text.
    label : str, optional
        For ``replace: label``.
    at_least : int
        At least 1.
    round : bool
        A mean as a whole number; an integer column then stays one.
    nulls : {"keep", "refuse"}
    by : tuple of str
        Strata with a quantile and mean each.
    small_strata : {"refuse", "suppress", "merge"}

    Notes
    -----
    Source: Hundepool et al., Statistical Disclosure Control, Wiley, 2012.

    Examples
    --------
    >>> BottomCode(columns=["age"], at=18, replace="label", label="under 18").replace
    'label'
    """

    upper: ClassVar[bool] = False
    preserves: ClassVar[str] = "every value up to the threshold; with mean, the sum of the column"
    reveals: ClassVar[str] = "that a value lies beyond the threshold"

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), at=3),
            cls(columns=("income",), quantile=0.5, replace="mean", at_least=1),
            cls(columns=("income",), at=0.5, replace="label", label="less"),
        ]

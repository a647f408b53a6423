"""Interval disclosure by standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import FilePair
from privpipe.blocks.comparison import Comparison
from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.attribute.interval_disclosure import Disclosed, IntervalDisclosure
from privpipe.roles import Roles

__all__ = ["SdIntervalDisclosure"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SdIntervalDisclosure(IntervalDisclosure):
    """Share of records whose original number lies within percent per cent of a standard deviation of its masked one.

    Parameters
    ----------
    columns : tuple of str, optional
        Numbers in both tables. Default: all quasi-identifiers.
    percent : float
        In percent of the standard deviation (divisor n - 1), at least 0.
    joint : {"each", "all", "any"}
        Compare the largest share of a column, the share disclosed in all columns, or in any of them.
    sd : {"original", "released"}
        Whose standard deviation.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.

    Notes
    -----
    Needs the original beside the release. Where the deviation is 0, a record is disclosed iff both numbers are equal.
    Source: Hundepool et al., Statistical Disclosure Control, Wiley, 2012.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 3.0]}), pa.record_batch({"a": [1.4, 4.0, 3.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((3, 2), dtype=np.int64), records=3, released_records=3)
    >>> measure = SdIntervalDisclosure(columns=("a",), percent=50, at_most=0.4, sd="released")
    >>> round(measure.judge_files(files).observed["share"], 3)
    0.667
    """

    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"
    threat: ClassVar[str] = (
        "An intruder takes the masked number for the original, within a margin that is narrow for the column."
    )
    formula: ClassVar[str] = "share of records with abs(x - y) <= percent/100 sd"
    choose: ClassVar[str] = "percent 5 to 10; a share of 0.2 or less for each column."

    percent: Annotated[float, Ge(0), Stricter("equal"), Doc("width of the interval, in percent")] = 5.0
    sd: Annotated[
        Literal["original", "released"], Stricter("equal"), Doc("whose standard deviation: original or released")
    ] = "original"

    def original_moments(self, roles: Roles) -> tuple[str, ...]:
        return self.columns_read(roles) if self.sd == "original" else ()

    def disclosed(
        self, files: FilePair, column: str, original: NDArray[np.float64], released: NDArray[np.float64]
    ) -> Disclosed:
        from privpipe.kernels.linkage.interval_disclosure import sd_disclosed

        files.finite_numbers(column, self.name())
        if self.sd == "original" and column in files.original_facts.moments:
            sd = files.original_facts.sd(column)
        else:
            side = original if self.sd == "original" else released
            values = side[~np.isnan(side)]
            sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return sd_disclosed(original, released, self.percent, sd)

    def compared(self, files: FilePair, known: dict[str, NDArray[np.bool_]]) -> tuple[Comparison, ...]:
        for name in known:
            values = int((~np.isnan(files.numbers("original", name))).sum())  # type: ignore[arg-type]
            if values == 1:
                return (Comparison(0, 1, f"values of {name!r} have another one to deviate from", "judge more records"),)
        return super().compared(files, known)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(columns=("age",), at_most=0.5), cls(percent=50, joint="all", sd="released", at_most=0.2)]

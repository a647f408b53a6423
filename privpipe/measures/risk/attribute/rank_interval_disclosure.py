"""Interval disclosure by rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import FilePair
from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.attribute.interval_disclosure import Disclosed, IntervalDisclosure

__all__ = ["RankIntervalDisclosure"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RankIntervalDisclosure(IntervalDisclosure):
    """Share of records whose original number lies within percent/2 per cent of the ranks around its masked one.

    Parameters
    ----------
    columns : tuple of str, optional
        Numbers in both tables. Default: all quasi-identifiers.
    percent : float
        Ranks of the whole interval in percent of the records, in [0, 200].
    joint : {"each", "all", "any"}
        Compare the largest share of a column, the share disclosed in all columns, or in any of them.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.

    Notes
    -----
    Needs the original beside the release. A record without a value on either side is left out, and counted.
    Source: Nin, Herranz, Torra, DKE 64(1), 2008.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 3.0, 4.0]}), pa.record_batch({"a": [2.0, 4.0, 3.0, 1.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((4, 2), dtype=np.int64), records=4, released_records=4)
    >>> RankIntervalDisclosure(columns=("a",), percent=50, at_most=0.4).judge_files(files).observed["share"]
    0.5
    """

    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Nin, Herranz, Torra, DKE 64(1), 2008"
    threat: ClassVar[str] = "An intruder reads a narrow interval of the original number off the masked one."
    formula: ClassVar[str] = "share of records with R[first - w] <= x <= R[last + w], w = floor(percent n / 200)"
    choose: ClassVar[str] = "percent 10 is usual; a share of 0.2 or less for each column."

    percent: Annotated[float, Ge(0), Le(200), Stricter("equal"), Doc("width of the interval, in percent")] = 10.0

    def disclosed(
        self, files: FilePair, column: str, original: NDArray[np.float64], released: NDArray[np.float64]
    ) -> Disclosed:
        from privpipe.kernels.linkage.interval_disclosure import rank_disclosed

        return rank_disclosed(original, released, self.percent)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(columns=("age",), at_most=0.5), cls(percent=20, joint="all", at_most=0.2)]

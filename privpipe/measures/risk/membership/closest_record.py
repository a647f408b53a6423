"""How close released rows come to original ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.guarantee import Direction, short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.blocks.table_files import TableFiles, TableMeasure
from privpipe.measures.risk.identity.column_set import require_columns
from privpipe.measures.risk.membership.closest_records import closest, compared
from privpipe.tolerance import at_least

if TYPE_CHECKING:
    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = ["ClosestRecord"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ClosestRecord(TableMeasure):
    """How near the nearest released rows come to an original record, beside records that were never in the data.

    Parameters
    ----------
    holdout : str, optional
        Table of records of the same population that the release was not made from.
    at_least : float, optional
        At least 0; 1: released rows come no nearer than other people do. Left out (under `measures:`), it is reported.
    columns : tuple of str, optional
        Default: all quasi-identifiers.
    sample : int, optional
        Released rows and others compared, as many of each; None: all.

    Notes
    -----
    The 5 % quantile of the distance to the closest original record over released rows, divided by the same over the
    holdout: a ratio without limits, rough in small tables. `copies` is the share of released rows at distance 0.

    Source: Yeom, Giacomelli, Fredrikson, Jha, CSF 2018, for the holdout as yardstick.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"a": np.arange(100.0)})
    >>> files = TableFiles(original=people, released=people, holdout=pa.table({"a": np.arange(100.0) + 0.5}))
    >>> verdict = ClosestRecord(holdout="others.csv", at_least=0.9).judge_tables(files)
    >>> verdict.outcome, verdict.observed["ratio"], verdict.observed["copies"]
    ('fail', 0.0, 1.0)
    """

    threshold_field: ClassVar[str | None] = "at_least"
    direction: ClassVar[Direction] = "at_least"
    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Yeom, Giacomelli, Fredrikson, Jha, CSF 2018"
    threat: ClassVar[str] = "A synthetic release repeats records of its source."
    formula: ClassVar[str] = (
        "q05(distance of released rows to the original) / q05(distance of others to it) >= at_least"
    )
    choose: ClassVar[str] = "0.8 to 1: released rows should come no nearer to the data than other people do."

    at_least: Annotated[
        float | None,
        Ge(0),
        Stricter("larger"),
        Doc("least ratio of the 5 % quantiles of distance, released rows over others"),
    ] = None
    sample: Annotated[
        int | None, Ge(1), Stricter("equal"), Doc("released rows and others compared, as many of each; null: all")
    ] = 10_000

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Stricter("equal"), Doc("columns compared; left out: all quasi-identifiers")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "ClosestRecord"
        if self.columns is not None:
            object.__setattr__(self, "columns", require_columns(owner, self.columns))

    def judge_tables(self, files: TableFiles) -> Verdict:
        if not files.original.num_rows or not files.released.num_rows:
            return self._error("there are no records to compare")
        found = compared(files, files.original.schema.names)
        if found is None:
            return self._error("no column tells records apart")
        size = min(len(found.released), self.sample or len(found.released))
        if len(found.holdout):
            size = min(size, len(found.holdout))
        rows = np.arange(size)
        near = closest(found.released.take(rows), found.original, found.metric)
        observed: dict[str, Any] = {
            "ratio": None,
            "released": float(np.quantile(near, 0.05)),
            "copies": float((near <= 1e-12).mean()),
            "compared": size,
            "metric": found.metric,
        }
        if len(found.holdout):
            # Among values of one table labels have nothing to cover: codes are compared as they are.
            known, others = _plain(found.original), _plain(found.holdout).take(rows)
            observed["holdout"] = float(np.quantile(closest(others, known, found.metric), 0.05))
            if observed["holdout"] > 0:
                observed["ratio"] = observed["released"] / observed["holdout"]
        return self._verdict(observed)

    def _verdict(self, observed: dict[str, Any]) -> Verdict:
        ratio = observed["ratio"]
        if ratio is None and self.is_gate():
            why = (
                "5 % of the others are original records to the digit, so the ratio is undefined"
                if "holdout" in observed
                else "without a holdout of persons who are not in the data nothing is judged"
            )
            return Verdict(self, observed, "error", self.demanded(), reason=f"{why}.")
        passed = not self.is_gate() or bool(at_least(ratio, self.at_least))  # type: ignore[arg-type]
        asked = f", asked at least {short(self.at_least)}" if self.is_gate() else ""
        seen = "no ratio" if ratio is None else f"observed {short(ratio)}"
        return Verdict(
            self,
            observed,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=(
                f"{seen}{asked}; over {observed['compared']:,} released rows, {short(observed['copies'])} of them "
                f"exact copies, by {observed['metric']} distance."
            ),
        )

    def _error(self, reason: str) -> Verdict:
        return Verdict(self, None, "error", self.demanded(), reason=f"{reason}.")

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(holdout="others.csv", at_least=0.9),
            cls(holdout="others.csv", columns=("age",), sample=None),
        ]


def _plain(side: LinkedFile) -> LinkedFile:
    return replace(side, mismatch=(None,) * side.codes.shape[1])

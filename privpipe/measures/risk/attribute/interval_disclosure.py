"""Measures of whether a masked number discloses narrow bounds of the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.comparison import Comparison, least
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.errors import DataError
from privpipe.measures.risk.identity.column_set import require_columns
from privpipe.tolerance import at_most

__all__ = ["Disclosed", "IntervalDisclosure"]

Joint = Literal["each", "all", "any"]
Disclosed = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True, repr=False)
class IntervalDisclosure(FilePairMeasure):
    """A share of records, per column and jointly. Subclasses give `disclosed`."""

    percent: Annotated[float, Ge(0), Doc("width of the interval, in percent")] = 10.0
    joint: Annotated[
        Joint,
        Stricter("equal"),
        Doc("each: the largest share of a column; all: in every column at once; any: in at least one"),
    ] = "each"
    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of records that is tolerated")
    ] = None

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Stricter("equal"), Doc("number columns; left out: all quasi-identifiers")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        if self.columns is not None:
            object.__setattr__(self, "columns", require_columns(owner, self.columns))

    def disclosed(
        self, files: FilePair, column: str, original: NDArray[np.float64], released: NDArray[np.float64]
    ) -> Disclosed:
        """Which records are disclosed by a column, and which could be."""
        raise TypeError(f"{type(self).__name__} discloses nothing")

    def judge_files(self, files: FilePair) -> Verdict:
        found = self._disclosed_by_column(files)
        known = np.logical_and.reduce([each[1] for each in found.values()])
        shares = {column: _share(*each) for column, each in found.items()}
        together = {
            "all": _share(np.logical_and.reduce([each[0] for each in found.values()]), known),
            "any": _share(np.logical_or.reduce([each[0] for each in found.values()]), known),
        }
        figures = [share for share in shares.values() if share is not None]
        figure = together[self.joint] if self.joint != "each" else max(figures, default=None)
        if figure is None or (self.joint == "each" and len(figures) < len(shares)):
            return Verdict(self, None, "error", self.demanded(), reason="no record has a value on both sides.")
        passed = not self.is_gate() or bool(at_most(figure, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        missing = len(files) - int(known.sum())
        return Verdict(
            self,
            {"share": figure, "columns": shares, **together},
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=(
                f"at least {short(figure)} of the records are disclosed ({self.joint}){asked}; over {len(files):,} "
                f"records, {missing:,} of them without a value in some column."
            ),
            compared=self.compared(files, {column: each[1] for column, each in found.items()}),
        )

    def compared(self, files: FilePair, known: dict[str, NDArray[np.bool_]]) -> tuple[Comparison, ...]:
        """Of the records with an original value those that have a released one: the others disclose nothing."""
        asked = {name: ~np.isnan(files.numbers("original", name)) for name in known}  # type: ignore[arg-type]
        remedy = "leave columns out of which the release has few values"
        if self.joint != "each":
            both, own = (np.logical_and.reduce(list(side.values())) for side in (known, asked))
            what = "records with every original value have every released one"
            return (Comparison(int(both.sum()), int(own.sum()), what, remedy),)
        return least(
            Comparison(
                int(known[name].sum()),
                int(asked[name].sum()),
                f"records with an original value of {name!r} have a released one",
                remedy,
            )
            for name in known
        )

    def _disclosed_by_column(self, files: FilePair) -> dict[str, Disclosed]:
        found: dict[str, Disclosed] = {}
        for column in files.original.schema.names:
            sides = files.numbers("original", column), files.numbers("released", column)
            if sides[0] is None or sides[1] is None:
                raise DataError(f"{self.name()}: column {column!r} is not a number in both tables; leave it out")
            found[column] = self.disclosed(files, column, sides[0], sides[1])
        return found


def _share(disclosed: NDArray[np.bool_], known: NDArray[np.bool_]) -> float | None:
    records = int(known.sum())
    return int((disclosed & known).sum()) / records if records else None

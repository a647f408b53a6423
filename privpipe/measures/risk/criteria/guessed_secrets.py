"""The secrets of an inference attack, and how often its guesses of them are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from privpipe.blocks.table_files import TableFiles
from privpipe.hierarchies import canonical_text
from privpipe.kernels.linkage.attack_figures import AttackFigures, attack_figures
from privpipe.measures.risk.criteria.attacked_tables import ScaledTables, scaled
from privpipe.measures.risk.criteria.guess_models import (
    MOST_CATEGORIES,
    ModelKind,
    predicted_categories,
    predicted_numbers,
    predictors,
)
from privpipe.measures.risk.criteria.record_attack import Targets
from privpipe.measures.risk.linkage.linkable_files import coded_texts
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.blocks import FilePair
    from privpipe.kernels.linkage.secret_guesses import Secrets

__all__ = ["Guessed", "Guessing", "Tolerance", "guessing"]

Numbers = npt.NDArray[np.float64]
Tolerance: Final = ("relative", "absolute")
LEAST_TARGETS = 20
CONFIDENT = 0.3


@dataclass(frozen=True)
class Guessed:
    """Successes of the attacked originals and others, their sums, and what is shown beside them."""

    original: Numbers = field(repr=False)
    holdout: Numbers = field(repr=False)
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hits(self) -> tuple[float, float]:
        """Expected number of right guesses of either."""
        return float(self.original.sum()), float(self.holdout.sum())


@dataclass(frozen=True)
class Guessing:
    """One secret of three tables, and what is known beside it."""

    files: TableFiles = field(repr=False)
    pair: FilePair = field(repr=False)
    known: tuple[str, ...]
    column: str
    secrets: Secrets = field(repr=False)
    tables: ScaledTables = field(repr=False)
    tolerance: Mapping[str, float] | None = None
    numbers: tuple[Numbers, Numbers] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def _own(self, targets: Targets) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        n = self.files.original.num_rows
        return self.secrets.own[targets.original], self.secrets.own[n + targets.holdout]

    def random_share(self, targets: Targets) -> float:
        """Success of a row of the release drawn at random: of all originals, or of the outliers that are attacked."""
        n = self.files.original.num_rows
        chosen = self._own(targets)[0] if targets.notes else self.secrets.own[:n]
        return self.secrets.random_share(chosen)

    def figures(self, guessed: Guessed, targets: Targets, confidence: float) -> AttackFigures:
        """Success, control and limits; the guess beside them is the best constant over all originals."""
        hits, missed = guessed.hits
        naive = float(self.secrets.shares(self.secrets.own[: self.files.original.num_rows]).max(initial=0.0))
        return attack_figures(
            hits,
            len(targets.original),
            control_hits=missed,
            controls=len(targets.holdout),
            naive=min(1.0, naive),
            confidence=confidence,
            everyone=targets.everyone,
        )

    def nearest(self, targets: Targets) -> Guessed | str:
        """Guesses by the nearest rows of the release."""
        from privpipe.kernels.linkage.nearest_rows import SearchedRows
        from privpipe.kernels.linkage.secret_guesses import nearest_guesses

        if not self.tables.tells:
            return f"no column of {', '.join(self.known)} tells rows of the release apart"
        rows = SearchedRows(self.tables.released)
        found: list[Numbers] = []
        beside: dict[str, Any] = {}
        sides = (self.tables.original.take(targets.original), self.tables.holdout.take(targets.holdout))
        for side, own in zip(sides, self._own(targets), strict=True):
            if not len(side):
                found.append(np.zeros(0))
                continue
            near = rows.nearest(side)
            found.append(nearest_guesses(rows, near, self.secrets, own))
            if self.secrets.covers is not None and not beside:
                widths = np.bincount(rows.place, weights=self._widths()[self.secrets.shown])
                starts = near.offsets[:-1]
                covered = np.add.reduceat(widths[near.members], starts) / np.add.reduceat(
                    rows.counts[near.members].astype(np.float64), starts
                )
                beside = {"width": float(covered.mean())}
        return Guessed(found[0], found[1], beside)

    def _widths(self) -> Numbers:
        """Of each released label the share of the original's distinct secrets that it covers."""
        covers = self.secrets.covers
        own = np.unique(self.secrets.own[: self.files.original.num_rows])
        return np.zeros(0) if covers is None else np.asarray(covers[own].mean(axis=0))

    def model(self, targets: Targets, kind: ModelKind) -> Guessed | str:
        """Guesses by a model that is fitted on the release."""
        design = predictors(self.pair, self.known)
        if not design.known.shape[1]:
            return f"no column of {', '.join(self.known)} has at most {MOST_CATEGORIES} categories"
        n = self.files.original.num_rows
        asked = np.concatenate([targets.original, n + targets.holdout])
        own = self.secrets.own[asked]
        beside: dict[str, Any] = {"left_out": list(design.left_out)} if design.left_out else {}
        if self.numbers is not None:
            right = self._numbers_right(design.known[asked], design.released, asked, kind)
            if right is None:
                return "the release holds no value of the secret to learn from"
        else:
            levels = self.secrets.values
            if levels > MOST_CATEGORIES:
                return f"a model guesses at most {MOST_CATEGORIES} categories and the release has {levels:,}"
            chances = predicted_categories(design.released, self.secrets.shown, design.known[asked], levels, kind)
            guesses = chances.argmax(axis=1)
            right = self.secrets.right(own, guesses).astype(np.float64)
            beside["confident"] = self._confident(chances[: len(targets.original)], own[: len(targets.original)])
            if self.secrets.covers is not None:
                beside["width"] = float(self._widths()[guesses[: len(targets.original)]].mean())
        return Guessed(right[: len(targets.original)], right[len(targets.original) :], beside)

    def _numbers_right(
        self, asked: Numbers, released: Numbers, places: npt.NDArray[np.int64], kind: ModelKind
    ) -> Numbers | None:
        from privpipe.tolerance import at_most

        if self.numbers is None or self.tolerance is None:
            return None
        own, shown = self.numbers
        held = ~np.isnan(shown)
        if not held.any():
            return None
        guesses = predicted_numbers(released[held], shown[held], asked, kind)
        secrets = own[places]
        relative = self.tolerance.get("relative")
        reach = (
            np.abs(secrets) * relative if relative is not None else np.full(len(secrets), self.tolerance["absolute"])
        )
        # Comparisons with NaN never hold: a missing secret is guessed by nothing.
        return np.asarray(at_most(np.abs(guesses - secrets), reach), dtype=np.float64)

    def _confident(self, chances: Numbers, own: npt.NDArray[np.int64]) -> float:
        """Share of the targets whose true value gets p with (p - f)/(1 - f) > 0.3, f its share in the original."""
        every = np.arange(self.secrets.values)
        distinct, places = np.unique(own, return_inverse=True)
        right = np.stack([self.secrets.right(np.full(len(every), each), every) for each in distinct])
        p = (chances * right[places.reshape(-1)]).sum(axis=1)
        n = self.files.original.num_rows
        f = np.bincount(self.secrets.own[:n], minlength=len(self.secrets.low))[own] / n
        above = np.divide(p - f, 1.0 - f, out=np.zeros_like(p), where=f < 1.0)
        return float((above > CONFIDENT).mean())

    def by_value(self, guessed: Guessed, targets: Targets) -> dict[str, Any]:
        """Success, control and excess for each secret of 20 attacked records or more, and the largest excess."""
        own, others = self._own(targets)
        column = self.pair.original.column(self.column)
        found: dict[str, Any] = {}
        for value, first in zip(*np.unique(own, return_index=True), strict=True):
            here, there = own == value, others == value
            if int(here.sum()) < LEAST_TARGETS:
                continue
            cell = column.slice(int(targets.original[first]), 1)
            text = canonical_text(cell, column_type_of(column.type), column=self.column).to_pylist()[0]
            success = float(guessed.original[here].mean())
            row: dict[str, Any] = {"success": success, "attacked": int(here.sum()), "controls": int(there.sum())}
            if there.any():
                control = float(guessed.holdout[there].mean())
                row["control"] = control
                row["excess"] = max(0.0, (success - control) / (1.0 - control)) if control < 1.0 else None
            found["null" if text is None else text] = row
        excesses = [row["excess"] for row in found.values() if row.get("excess") is not None]
        return {"by_value": found, "largest_excess": max(excesses, default=None)}


def guessing(
    files: TableFiles,
    pair: FilePair,
    known: Sequence[str],
    column: str,
    tolerance: Mapping[str, float] | None,
    owner: str,
) -> Guessing | str:
    """The secret of the tables beside what is known, or why it cannot be attacked.

    Raises
    ------
    DataError
        An infinite number.
    """
    from privpipe.kernels.linkage.secret_guesses import right_numbers

    kind = column_type_of(files.original.schema.field(column).type)
    counted = kind in ("integer", "number", "decimal", "date", "timestamp")
    if counted and tolerance is None:
        return f"tolerance must say which guesses of {column!r}, a {kind}, count as right"
    if not counted and tolerance is not None:
        return f"tolerance is for numbers and dates, and {column!r} is a {kind}"
    if kind in ("date", "timestamp") and "absolute" not in (tolerance or {}):
        return f"tolerance of {column!r}, a {kind}, must be absolute, in days"
    numbers = pair.finite_numbers(column, owner) if counted else None
    if numbers is not None and tolerance is not None:
        secrets = right_numbers(*numbers, tolerance.get("relative"), tolerance.get("absolute"))
    else:
        secrets = _of_texts(pair, column)
    return Guessing(
        files=files,
        pair=pair,
        known=tuple(known),
        column=column,
        secrets=secrets,
        tables=scaled(files, pair, known, owner),
        tolerance=tolerance,
        numbers=numbers,
    )


def _of_texts(pair: FilePair, column: str) -> Secrets:
    """Right is what is equal, or a label that covers the secret."""
    from privpipe.kernels.linkage.secret_guesses import Secrets

    own, shown, mismatch = coded_texts(pair, column)
    values = pair.released.column(column)
    # In order of the text, so that equally likely guesses are tried in the same order whatever the rows'.
    codes, first, places = np.unique(shown, return_index=True, return_inverse=True)
    texts = canonical_text(values.take(first.tolist()), column_type_of(values.type), column=column).to_pylist()
    ranked = sorted(range(len(codes)), key=lambda at: (texts[at] is None, texts[at] or ""))
    rank = np.empty(len(codes), dtype=np.int64)
    rank[ranked] = np.arange(len(codes))
    guesses = rank[places.reshape(-1)]
    if mismatch is not None:
        covers = ~mismatch[:, codes[ranked]]
        nothing = np.zeros(len(covers), dtype=np.int64)
        return Secrets(own, guesses, len(codes), nothing, nothing, np.ascontiguousarray(covers))
    size = int(max(own.max(initial=0), shown.max(initial=0))) + 1
    low = np.zeros(size, dtype=np.int64)
    high = np.zeros(size, dtype=np.int64)
    low[codes], high[codes] = rank, rank + 1
    return Secrets(own, guesses, len(codes), low, high)

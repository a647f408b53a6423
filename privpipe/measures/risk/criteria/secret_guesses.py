"""The secrets of an inference attack: guessed by models fitted only on released rows, and how often the guesses are
right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.file_pair import TableFiles
from privpipe.hierarchies import canonical_text
from privpipe.kernels.linkage.attack_figures import AttackFigures, attack_figures
from privpipe.measures.risk.criteria.controlled_attack import ScaledTables, Targets, scaled
from privpipe.measures.risk.linkage.linkable_files import coded_texts
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.blocks import FilePair
    from privpipe.kernels.linkage.criteria import Secrets

__all__ = [
    "MOST_CATEGORIES",
    "Guessed",
    "Guessing",
    "ModelKind",
    "Predictors",
    "Tolerance",
    "guessing",
    "predicted_categories",
    "predicted_numbers",
    "predictors",
]


ModelKind = Literal["logistic", "tree"]
MOST_CATEGORIES = 200
SMALLEST_LEAF = 20


@dataclass(frozen=True)
class Predictors:
    """What is known of records as numbers, scaled by the release; `left_out` names columns of too many categories."""

    known: Floats = field(repr=False)
    released: Floats = field(repr=False)
    left_out: tuple[str, ...] = ()


def predictors(pair: FilePair, names: Sequence[str]) -> Predictors:
    """Numbers by the release's mean and deviation, categories one by one; a value by the label that covers it.

    Of several labels that cover a value, the one of most rows counts; a value that no row has is none of them.
    """
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    left_out = []
    for name in names:
        found = pair.finite_numbers(name, "inference_attack")
        blocks = _scaled(*found) if found is not None else _indicators(pair, name)
        if blocks is None:
            left_out.append(name)
            continue
        for to, block in zip(sides, blocks, strict=True):
            to.append(block)
    rows = len(pair), pair.released.num_rows
    known, released = (np.hstack(side) if side else np.zeros((n, 0)) for side, n in zip(sides, rows, strict=True))
    return Predictors(known, released, tuple(left_out))


def predicted_categories(rows: Floats, classes: Ints, asked: Floats, levels: int, model: ModelKind) -> Floats:
    """The probability of each category for each queried record, shape (n, levels), to nine digits."""
    from privpipe.kernels.losses.distributions import canonical_order, chances, logistic

    order = canonical_order(np.column_stack([rows, classes]))
    rows, classes = rows[order], classes[order]
    found = np.zeros((len(asked), levels))
    if model == "tree":
        fitted = _trees()[0](min_samples_leaf=_leaf(len(rows)), random_state=0).fit(rows, classes)
        found[:, fitted.classes_] = fitted.predict_proba(asked)
        return _settled(found)
    design, wanted = (np.column_stack([np.ones(len(side)), side]) for side in (rows, asked))
    for level in np.unique(classes).tolist():
        told = (classes == level).astype(np.float64)
        found[:, level] = chances(wanted, logistic(design, told)) if not told.all() else 1.0
    total = found.sum(axis=1, keepdims=True)
    return _settled(np.divide(found, total, out=np.zeros_like(found), where=total > 0))


def predicted_numbers(rows: Floats, values: Floats, asked: Floats, model: ModelKind) -> Floats:
    """The number for each queried record, to nine digits."""
    from privpipe.kernels.losses.distributions import canonical_order

    order = canonical_order(np.column_stack([rows, values]))
    rows, values = rows[order], values[order]
    if model == "tree":
        fitted = _trees()[1](min_samples_leaf=_leaf(len(rows)), random_state=0).fit(rows, values)
        return _settled(np.asarray(fitted.predict(asked), dtype=np.float64))
    design, wanted = (np.column_stack([np.ones(len(side)), side]) for side in (rows, asked))
    coefficients = np.linalg.lstsq(design, values, rcond=1e-10)[0]
    return _settled(wanted @ coefficients)


def _scaled(known: Floats, released: Floats) -> tuple[Floats, Floats]:
    own = np.sort(released[~np.isnan(released)])
    mean = float(own.mean()) if len(own) else 0.0
    # Of equal values, too, rounding may leave a deviation: it would make a scale of nothing.
    sd = float(own.std(ddof=1)) if len(own) and own[0] < own[-1] else 0.0
    sides = []
    for values in (known, released):
        missing = np.isnan(values)
        filled = np.where(missing, 0.0, (values - mean) / (sd if sd > 0 else 1.0))
        sides.append(np.column_stack([filled, missing.astype(np.float64)]))
    return sides[0], sides[1]


def _indicators(pair: FilePair, name: str) -> tuple[Floats, Floats] | None:
    own, shown, table = coded_texts(pair, name)
    labels, first, rows = np.unique(shown, return_index=True, return_counts=True)
    if len(labels) > MOST_CATEGORIES:
        return None
    column = pair.released.column(name)
    texts = canonical_text(column.take(first.tolist()), column_type_of(column.type), column=name).to_pylist()
    order = sorted(range(len(labels)), key=lambda at: (-int(rows[at]), texts[at] is not None, texts[at] or ""))
    labels = labels[order]
    released = (shown[:, None] == labels[None, :]).astype(np.float64)
    if table is None:
        return (own[:, None] == labels[None, :]).astype(np.float64), released
    covered = ~table[:, labels]
    best = np.where(covered.any(axis=1), covered.argmax(axis=1), -1)
    return (best[own][:, None] == np.arange(len(labels))[None, :]).astype(np.float64), released


def _trees() -> tuple[Any, Any]:
    from privpipe.measures.utility.loss_models import require_trees

    classifier = require_trees()
    from sklearn.tree import DecisionTreeRegressor

    return classifier, DecisionTreeRegressor


def _leaf(records: int) -> int:
    return max(1, min(SMALLEST_LEAF, records // 10))


def _settled(figures: Floats) -> Floats:
    """To nine digits: the last bits of a fit are those of the linear algebra library and its number of threads."""
    with np.errstate(divide="ignore"):
        digits = 8 - np.floor(np.log10(np.abs(figures)))
    digits = np.where(np.isfinite(digits), np.clip(digits, -300, 300), 0.0)
    scale = 10.0**digits
    return np.asarray(np.where(np.abs(figures) > 1e-12, np.rint(figures * scale) / scale, 0.0))


Tolerance: Final = ("relative", "absolute")
LEAST_TARGETS = 20
CONFIDENT = 0.3


@dataclass(frozen=True)
class Guessed:
    """Successes of the attacked originals and others, their sums, and what is shown next to them."""

    original: Floats = field(repr=False)
    holdout: Floats = field(repr=False)
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hits(self) -> tuple[float, float]:
        """Expected number of right guesses of either."""
        return float(self.original.sum()), float(self.holdout.sum())


@dataclass(frozen=True)
class Guessing:
    """One secret of three tables, and the known columns."""

    files: TableFiles = field(repr=False)
    pair: FilePair = field(repr=False)
    known: tuple[str, ...]
    column: str
    secrets: Secrets = field(repr=False)
    tables: ScaledTables = field(repr=False)
    tolerance: Mapping[str, float] | None = None
    numbers: tuple[Floats, Floats] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def _own(self, targets: Targets) -> tuple[Ints, Ints]:
        n = self.files.original.num_rows
        return self.secrets.own[targets.original], self.secrets.own[n + targets.holdout]

    def random_share(self, targets: Targets) -> float:
        """Success of a row of the release drawn at random: of all originals, or of the outliers that are attacked."""
        n = self.files.original.num_rows
        chosen = self._own(targets)[0] if targets.notes else self.secrets.own[:n]
        return self.secrets.random_share(chosen)

    def figures(self, guessed: Guessed, targets: Targets, confidence: float) -> AttackFigures:
        """Success, control and limits; the guess shown next to them is the best constant over all originals."""
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
        from privpipe.kernels.linkage.criteria import nearest_guesses
        from privpipe.kernels.linkage.nearest_rows import SearchedRows

        if not self.tables.tells:
            return f"no column of {', '.join(self.known)} distinguishes rows of the release"
        rows = SearchedRows(self.tables.released)
        found: list[Floats] = []
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

    def _widths(self) -> Floats:
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

    def _numbers_right(self, asked: Floats, released: Floats, places: Ints, kind: ModelKind) -> Floats | None:
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

    def _confident(self, chances: Floats, own: Ints) -> float:
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
    """The secret of the tables with the known columns, or why it cannot be attacked.

    Raises
    ------
    DataError
        An infinite number.
    """
    from privpipe.kernels.linkage.criteria import right_numbers

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
    """A guess is right if it equals the secret, or is a label that covers it."""
    from privpipe.kernels.linkage.criteria import Secrets

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

"""A model of the release that guesses a secret: fitted on released rows alone, asked of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.hierarchies import canonical_text
from privpipe.measures.risk.linkage.linkable_files import coded_texts
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.blocks import FilePair

__all__ = ["MOST_CATEGORIES", "ModelKind", "Predictors", "predicted_categories", "predicted_numbers", "predictors"]

ModelKind = Literal["logistic", "tree"]
Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
MOST_CATEGORIES = 200
SMALLEST_LEAF = 20


@dataclass(frozen=True)
class Predictors:
    """What is known of records as numbers, scaled by the release; `left_out` names columns of too many categories."""

    known: Numbers = field(repr=False)
    released: Numbers = field(repr=False)
    left_out: tuple[str, ...] = ()


def predictors(pair: FilePair, names: Sequence[str]) -> Predictors:
    """Numbers by the release's mean and deviation, categories one by one; a value stands for the label that covers it.

    Of several labels that cover a value the one that most rows bear; a value that no row bears is none of them.
    """
    sides: tuple[list[Numbers], list[Numbers]] = ([], [])
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


def predicted_categories(rows: Numbers, classes: Places, asked: Numbers, levels: int, model: ModelKind) -> Numbers:
    """The chance of each category for each record asked of, shape (n, levels), to nine digits."""
    from privpipe.kernels.losses.fits import canonical_order, chances, logistic

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


def predicted_numbers(rows: Numbers, values: Numbers, asked: Numbers, model: ModelKind) -> Numbers:
    """The number for each record asked of, to nine digits."""
    from privpipe.kernels.losses.fits import canonical_order

    order = canonical_order(np.column_stack([rows, values]))
    rows, values = rows[order], values[order]
    if model == "tree":
        fitted = _trees()[1](min_samples_leaf=_leaf(len(rows)), random_state=0).fit(rows, values)
        return _settled(np.asarray(fitted.predict(asked), dtype=np.float64))
    design, wanted = (np.column_stack([np.ones(len(side)), side]) for side in (rows, asked))
    coefficients = np.linalg.lstsq(design, values, rcond=1e-10)[0]
    return _settled(wanted @ coefficients)


def _scaled(known: Numbers, released: Numbers) -> tuple[Numbers, Numbers]:
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


def _indicators(pair: FilePair, name: str) -> tuple[Numbers, Numbers] | None:
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


def _settled(figures: Numbers) -> Numbers:
    """To nine digits: the last bits of a fit are those of the linear algebra library and its number of threads."""
    with np.errstate(divide="ignore"):
        digits = 8 - np.floor(np.log10(np.abs(figures)))
    digits = np.where(np.isfinite(digits), np.clip(digits, -300, 300), 0.0)
    scale = 10.0**digits
    return np.asarray(np.where(np.abs(figures) > 1e-12, np.rint(figures * scale) / scale, 0.0))

"""Information loss of tables whose rows belong to no person: by groups, against chance, on other records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FilePair
from privpipe.blocks.arrays import Bools, Floats
from privpipe.blocks.file_pair import TableFiles
from privpipe.measures.utility.loss_columns import MOST_LEVELS, coded, labelled_column
from privpipe.measures.utility.loss_figures import LossFigure
from privpipe.measures.utility.loss_models import ModelKind, filled, predicted, scale_of

if TYPE_CHECKING:
    pass

__all__ = ["by_groups", "chance_level", "tested_elsewhere"]

Figure = Callable[[FilePair], LossFigure]
LEAST_GROUP = 50


def chance_level(files: TableFiles, by: str | None, figure: Figure) -> float | None:
    """The figure of the original compared with as many others: a loss below it is none; None without a holdout."""
    if files.holdout is None or not files.holdout.num_rows:
        return None
    size = min(files.original.num_rows, files.holdout.num_rows)
    others = files.holdout.cast(files.original.schema).slice(0, size)
    apart = replace(files, original=files.original.slice(0, size), released=others)
    found = figure(apart.unpaired()) if by is None else by_groups(apart, by, figure)
    return None if found.loss is None or found.loss != found.loss else found.loss


def by_groups(files: TableFiles, column: str, figure: Figure) -> LossFigure:
    """The largest figure within the groups of a column of `LEAST_GROUP` originals or more.

    Undefined where a group has no released row, or no figure: what was ruined is not to be passed over.
    """
    whole = files.unpaired()
    levels, (before, after) = coded(whole, column)
    if len(np.unique(before)) > MOST_LEVELS:
        return LossFigure(None, why=f"by needs at most {MOST_LEVELS} values and {column!r} has more")
    rest = [name for name in files.original.schema.names if name != column]
    found = []
    for code in range(len(levels)):
        if int((before == code).sum()) < LEAST_GROUP:
            continue
        if not (after == code).any():
            return LossFigure(None, why=f"a group of {column!r} has no released row")
        sides = [
            table.filter(_mask(codes == code)).select(rest)
            for table, codes in ((files.original, before), (files.released, after))
        ]
        each = figure(files.unpaired(*sides))
        if each.loss is None or each.loss != each.loss:
            return LossFigure(None, why=f"undefined within a group of {column!r}: {each.why or 'no figure'}")
        found.append(each.loss)
    if not found:
        return LossFigure(None, why=f"no group of {column!r} has {LEAST_GROUP} original records")
    notes = (f"the largest of {len(found)} groups of {column!r} with {LEAST_GROUP} original records or more",)
    return LossFigure(max(found), {}, {"groups": len(found), "smallest_loss": min(found)}, notes)


def tested_elsewhere(files: TableFiles, names: Sequence[str], target: str, model: ModelKind) -> LossFigure:
    """Accuracy lost on the holdout by training on the release instead of the original."""
    if files.holdout is None or not files.holdout.num_rows:
        return LossFigure(None, why="a classifier of whole tables is tested on a holdout, which has no records")
    others = files.holdout.cast(files.original.schema)
    beside, known = files.unpaired(others), files.unpaired(others, files.original)
    texts = [coded(each, target) for each in (beside, known)]
    levels = sorted({*texts[0][0], *texts[1][0]}, key=lambda text: (text is None, text or ""))
    if len(levels) > MOST_LEVELS:
        return LossFigure(None, why=f"a classifier needs at most {MOST_LEVELS} categories and {target!r} has more")
    number = {text: at for at, text in enumerate(levels)}
    held, shown, own = (
        np.array([number[of[0][at]] for at in of[1][side].tolist()], dtype=np.int64)
        for of, side in ((texts[0], 0), (texts[0], 1), (texts[1], 1))
    )
    right, left_out = [], set[str]()
    for pair, classes in ((known, own), (beside, shown)):
        wanted, rows, gone = _designs(pair, names)
        left_out |= set(gone)
        if not rows.shape[1]:
            return LossFigure(None, why="no column to predict by")
        right.append(float((predicted(rows, classes, wanted, len(levels), model) == held).mean()))
    majority = float((held == int(np.bincount(own).argmax())).mean())
    accuracies = {"accuracy_original": right[0], "accuracy_released": right[1], "accuracy_majority": majority}
    notes: tuple[str, ...] = (f"trained on either table, tested on {len(held):,} others",)
    if left_out:
        notes += (f"left out (too many categories): {', '.join(sorted(left_out))}",)
    return LossFigure(right[0] - right[1], {}, accuracies, notes)


def _designs(pair: FilePair, names: Sequence[str]) -> tuple[Floats, Floats, list[str]]:
    """Records to predict and rows to learn from, on the scale of these; values under the labels that cover them."""
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    left_out = []
    for name in names:
        asked, learnt = pair.numbers("original", name), pair.numbers("released", name)
        if asked is not None and learnt is not None:
            scale, gaps = scale_of(learnt), bool(np.isnan(asked).any() or np.isnan(learnt).any())
            for to, values in zip(sides, (asked, learnt), strict=True):
                to.append(filled(values, *scale, gaps))
            continue
        found = labelled_column(pair, name)
        if found is None or len(found.leaves) > MOST_LEVELS:
            left_out.append(name)
            continue
        # Of several labels over a value the narrowest; -1 where none is.
        width = np.where(found.covers, found.leaves[None, :], np.inf)
        label = np.where(found.covers.any(axis=1), width.argmin(axis=1), -1)[found.values]
        codes = np.arange(len(found.leaves))[None, :]
        sides[0].append((label[:, None] == codes).astype(np.float64))
        sides[1].append((found.labels[:, None] == codes).astype(np.float64))
    rows = len(pair), pair.released.num_rows
    asked_design, design = (np.hstack(side) if side else np.zeros((n, 0)) for side, n in zip(sides, rows, strict=True))
    return asked_design, design, left_out


def _mask(chosen: Bools) -> Any:
    import pyarrow as pa

    return pa.array(chosen)

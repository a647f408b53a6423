"""Information loss by models fitted to the release: propensity scores, regressions, classifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from privpipe.blocks import FilePair
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.file_pair import TableFiles
from privpipe.errors import UnsupportedError
from privpipe.measures.utility.loss_columns import MOST_LEVELS, Design, coded, design_of, labelled_column
from privpipe.measures.utility.loss_figures import LossFigure, column_means

__all__ = [
    "FOLDS",
    "ModelKind",
    "by_groups",
    "chance_level",
    "classifier_loss",
    "filled",
    "predicted",
    "propensity_loss",
    "regression_loss",
    "require_trees",
    "scale_of",
    "tested_elsewhere",
]


ModelKind = Literal["logistic", "tree"]
FOLDS = 5
SMALLEST_LEAF = 20


def require_trees() -> Any:
    """scikit-learn's decision tree.

    Raises
    ------
    UnsupportedError
        The extra is not installed.
    """
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise UnsupportedError(
            "information_loss: model: tree needs scikit-learn, which is not installed; `pip install "
            "'privpipe[utility]'`, or use model: logistic"
        ) from None
    return DecisionTreeClassifier


def propensity_loss(files: FilePair, names: Sequence[str], model: ModelKind, *, gap: bool = False) -> LossFigure:
    """How well a model distinguishes released records from originals: pMSE; logistic: also its ratio to chance.

    With `gap` the loss is the largest gap of the distributions of its scores (SPECKS), which is listed as a further
    figure otherwise.
    """
    design = design_of(files, names, products=model == "logistic", standardise=True)
    if design.before.shape[1] == 1:
        return LossFigure(None, why=f"no column has between 2 and {MOST_LEVELS} categories or numbers that differ")
    notes = _design_notes(design, told=model == "logistic")
    if model == "tree":
        scores, told = _tree_scores(design)
        share = float(told.mean())
        error = math.fsum(((scores - share) ** 2).tolist()) / len(scores)
        return _of_scores(error, scores, told, {}, ("by a tree", *notes), gap)
    from privpipe.kernels.losses.distributions import propensity

    fit = propensity(design.before, design.after)
    beside = {"ratio": None if math.isnan(fit.ratio) else _settled(fit.ratio), "rank": fit.rank}
    notes = ("a ratio of 1 is chance, below 1 aligned masking", *notes)
    return _of_scores(fit.pmse, fit.scores, fit.told, beside, notes, gap)


def _of_scores(
    error: float, scores: Floats, told: Floats, beside: dict[str, Any], notes: tuple[str, ...], gap: bool
) -> LossFigure:
    """The error of the scores with their largest gap as a further figure, or the other way round."""
    from privpipe.kernels.losses.distributions import largest_gap

    figures = {"pmse": _settled(error), "specks": _settled(largest_gap(scores, told))}
    loss = figures.pop("specks" if gap else "pmse")
    return LossFigure(loss, beside={**figures, **beside}, notes=notes)


def _tree_scores(design: Design) -> tuple[Floats, Floats]:
    from privpipe.kernels.losses.distributions import canonical_order

    rows = np.vstack([design.before, design.after])
    told = np.repeat([0.0, 1.0], [len(design.before), len(design.after)])
    order = canonical_order(np.column_stack([rows, told]))
    rows, told = rows[order], told[order]
    tree = _tree(len(rows)).fit(rows, told)
    return np.asarray(tree.predict_proba(rows)[:, 1], dtype=np.float64), told


def regression_loss(files: FilePair, names: Sequence[str], target: str) -> LossFigure:
    """1 - the mean overlap of the coefficients' 95 % intervals in two least squares fits of `target`."""
    from privpipe.kernels.losses.distributions import interval_overlap

    x, y = files.numbers("original", target), files.numbers("released", target)
    if x is None or y is None:
        return LossFigure(None, why=f"a regression needs numbers and {target!r} is none in one of the tables")
    design = design_of(files, names, products=False, standardise=False)
    known = ~np.isnan(x), ~np.isnan(y)
    if min(known[0].sum(), known[1].sum()) <= design.before.shape[1] + 1:
        return LossFigure(None, why="a regression needs more records than coefficients")
    found = interval_overlap(design.before[known[0]], design.after[known[1]], x[known[0]], y[known[1]])
    shown = [design.names[at] for at in found.kept]
    dropped = [name for at, name in enumerate(design.names) if at not in found.kept]
    columns = {name: _settled(1 - overlap) for name, overlap in zip(shown, found.overlaps.tolist(), strict=True)}
    notes = (f"dropped as explained by others: {', '.join(dropped)}",) if dropped else ()
    loss = _settled(1 - column_means(found.overlaps.tolist()))
    return LossFigure(loss, columns, {"dropped": dropped} if dropped else {}, (*notes, *_design_notes(design)))


def classifier_loss(files: FilePair, names: Sequence[str], target: str, model: ModelKind) -> LossFigure:
    """Accuracy lost on held-out originals by training on the release instead of the original, over keyed folds.

    A held-out value of a recoded column is read by the label that it most often has in the training folds.
    """
    levels, (before, after) = coded(files, target)
    if len(levels) > MOST_LEVELS:
        return LossFigure(None, why=f"a classifier needs at most {MOST_LEVELS} categories and {target!r} has more")
    n = len(files)
    if n < 2 * FOLDS:
        return LossFigure(None, why=f"{FOLDS} folds need {2 * FOLDS} records or more")
    order = files.sample(None) if files.order is None else files.order.arrange(files.ids)
    folds = np.empty(n, dtype=np.int64)
    folds[order] = np.arange(n) % FOLDS
    own, released, left_out = _features(files, names)
    if not own[0].shape[1]:
        return LossFigure(None, why="no column to predict by")
    right = np.zeros(3)
    for fold in range(FOLDS):
        held, train = folds == fold, folds != fold
        first = predicted(own[0][train], before[train], own[0][held], len(levels), model)
        recoded = _recoded(own, released, train)
        second = predicted(released[0][train], after[train], recoded[held], len(levels), model)
        majority = int(np.bincount(before[train]).argmax())
        for at, guess in enumerate((first, second, np.full(int(held.sum()), majority))):
            right[at] += int((guess == before[held]).sum())
    on_original, on_released, majority_share = (float(hits) / n for hits in right)
    beside = {"accuracy_original": on_original, "accuracy_released": on_released, "accuracy_majority": majority_share}
    notes = (f"left out (too many categories): {', '.join(left_out)}",) if left_out else ()
    return LossFigure(on_original - on_released, {}, beside, notes)


Features = tuple[Floats, list[tuple[str, Any, slice]]]


def _features(files: FilePair, names: Sequence[str]) -> tuple[Features, Features, list[str]]:
    """Designs of either file by itself, and which columns of it belong to which column and its codes."""
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    spans: tuple[list[tuple[str, Any, slice]], list[tuple[str, Any, slice]]] = ([], [])
    left_out, width = [], 0
    for name in names:
        numbers = files.numbers("original", name), files.numbers("released", name)
        codes: Any = None
        if numbers[0] is not None and numbers[1] is not None:
            scale = scale_of(numbers[0])
            gaps = bool(np.isnan(numbers[0]).any() or np.isnan(numbers[1]).any())
            blocks = [filled(values, *scale, gaps) for values in (numbers[0], numbers[1])]
        else:
            _, codes = coded(files, name)
            shown = [np.unique(side) for side in codes]
            if len(shown[1]) > MOST_LEVELS:
                left_out.append(name)
                continue
            kept = np.unique(np.concatenate([side for side in shown if len(side) <= MOST_LEVELS]))
            blocks = [(side[:, None] == kept[None, :]).astype(np.float64) for side in codes]
        span = slice(width, width + blocks[0].shape[1])
        width = span.stop
        for at in (0, 1):
            sides[at].append(blocks[at])
            spans[at].append((name, None if codes is None else codes[at], span))
    empty = np.zeros((len(files), 0))
    first, second = (np.hstack(side) if side else empty for side in sides)
    return (first, spans[0]), (second, spans[1]), left_out


def _recoded(own: Features, released: Features, train: Bools) -> Floats:
    """The originals as the release would show them: each category by its most frequent label in the training folds."""
    found = own[0].copy()
    for (_, before, span), (_, after, _) in zip(own[1], released[1], strict=True):
        if before is None:
            continue
        pairs, counts = np.unique(np.column_stack([before, after])[train], axis=0, return_counts=True)
        best: dict[int, tuple[int, int]] = {}
        for (value, label), count in zip(pairs.tolist(), counts.tolist(), strict=True):
            best[value] = max(best.get(value, (0, 0)), (count, -label))
        row_of = {label: released[0][at, span] for label, at in zip(*np.unique(after, return_index=True), strict=True)}
        for value, (_, label) in best.items():
            found[before == value, span] = row_of[-label]
    return found


def predicted(rows: Floats, classes: Ints, held: Floats, levels: int, model: ModelKind) -> Ints:
    """The most likely class of each held record, of a fit to the rows; equally likely ones by the first."""
    from privpipe.kernels.losses.distributions import canonical_order, chances, logistic

    order = canonical_order(np.column_stack([rows, classes]))
    rows, classes = rows[order], classes[order]
    if model == "tree":
        return np.asarray(_tree(len(rows)).fit(rows, classes).predict(held), dtype=np.int64)
    design, wanted = (np.column_stack([np.ones(len(side)), side]) for side in (rows, held))
    scores = np.zeros((len(held), levels))
    for level in np.unique(classes).tolist():
        told = (classes == level).astype(np.float64)
        scores[:, level] = chances(wanted, logistic(design, told)) if not told.all() else 1.0
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def _tree(records: int) -> Any:
    return require_trees()(min_samples_leaf=max(1, min(SMALLEST_LEAF, records // 10)), random_state=0)


def scale_of(values: Floats) -> tuple[float, float]:
    """Mean and deviation to standardise by."""
    from privpipe.kernels.exact_sums import measure_sums

    sums = measure_sums([values])
    mean, sd = sums.mean(), sums.sd()
    return (mean if sums.count else 0.0), (sd if sd > 0 else 1.0)


def filled(values: Floats, mean: float, sd: float, gaps: bool) -> Floats:
    """Standardised numbers, missing ones at the mean; with `gaps` a column that shows which."""
    missing = np.isnan(values)
    filled = np.where(missing, 0.0, (values - mean) / sd)
    return np.column_stack([filled, missing.astype(np.float64)]) if gaps else filled[:, None]


def _settled(figure: float) -> float:
    """To nine digits: the last bits of a fit are those of the linear algebra library and its number of threads."""
    return float(f"{figure:.9g}") if abs(figure) > 1e-12 else 0.0


def _design_notes(design: Design, *, told: bool = False) -> tuple[str, ...]:
    notes = []
    if told and not design.products:
        notes.append("only main effects: products would be too many")
    if design.left_out:
        notes.append(f"left out (one value, or more than {MOST_LEVELS} categories): {', '.join(design.left_out)}")
    return tuple(notes)


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

    Undefined where a group has no released row, or no figure: a destroyed group must not be ignored.
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

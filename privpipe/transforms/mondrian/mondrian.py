"""Mondrian: the stage with the search that plans it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privpipe.blocks import ClassModel, FactsRequest, Primitives
from privpipe.blocks.arrays import Codes, Ints
from privpipe.errors import NoSolutionError, UnsupportedError, UsageError
from privpipe.transforms.base import NO_GOAL, StageContext, StagePlan
from privpipe.transforms.mondrian.cut_columns import CutColumn
from privpipe.transforms.mondrian.cut_passes import MOST_COMBINATIONS, InPasses, combinations_exceed
from privpipe.transforms.mondrian.cut_search import (
    CutProblem,
    Parts,
    by_combination,
    by_record,
    histograms_of,
    with_population,
)
from privpipe.transforms.mondrian.cut_tree import CutTree
from privpipe.transforms.mondrian.mondrian_stage import MondrianStage, population_combinations, tree_columns, tree_names
from privpipe.transforms.recoding.labelling import cell_loss, column_loss, mean_penalty
from privpipe.transforms.suppression.class_failures import Classes, Combinations, failing_rows, require_sample
from privpipe.transforms.suppression.combinations import Counted
from privpipe.transforms.suppression.judged_sets import JudgedSets, judged_sets, require_attainable

__all__ = ["Mondrian", "plan"]


def plan(engine: Any, table: Any, stage: MondrianStage, context: StageContext) -> StagePlan:
    """Grow the tree, judge it on the labels it will release, and compute its cost.

    Raises
    ------
    DataError
        More records of a combination than the population holds.
    NoSolutionError
        The guarantees do not hold even where nothing is cut.
    UnsupportedError
        A relaxed tree of more records than the driver holds, or with a population.
    """
    if context.population is not None and (why := stage.not_followed()):
        raise UnsupportedError(f"{context.place}: {why}")
    sets = judged_sets(context, serves=stage.serves)
    if not sets.keys and stage.k is None:
        raise UsageError(f"{context.place}: {NO_GOAL}, or a `k:` of the stage")
    problem = _counted(engine, table, stage, sets, context)
    problem = replace(problem, mended=_mended(stage, sets, problem.models))
    _require_sample(problem, sets)
    records = problem.records
    if not records:
        raise NoSolutionError(f"{context.place}: no record is left to generalize")
    require_attainable(context, records)
    if (stage.k or 1) > problem.counted:
        units = "persons" if problem.persons else "records"
        raise NoSolutionError(f"{context.place}: k = {stage.k} is more than the {problem.counted:,} {units} there are")
    least = max([stage.k or 1, *(model.least_size() for model in problem.models if model.is_gate())])
    return _plan(stage, context, _met(problem, sets, stage, context, least))


def _counted(engine: Any, table: Any, stage: MondrianStage, sets: JudgedSets, context: StageContext) -> CutProblem:
    """What the tree is grown from: combinations, single records, or a table that is counted pass by pass."""
    cut, fixed = tree_names(stage, context)
    names = (*cut, *fixed)
    models = _models_of(sets, set(cut))
    counted = list(dict.fromkeys([*names, *sets.sensitive, *([] if sets.person is None else [sets.person])]))
    if stage.mode == "relaxed" and (records := engine.count(table)) > MOST_COMBINATIONS:
        raise UnsupportedError(
            f"{context.place}: mode relaxed divides the records of one value, so all {records:,} are held at once, "
            f"and it serves {MOST_COMBINATIONS:,}; write mode: strict"
        )
    exceed = combinations_exceed(engine, table, counted, MOST_COMBINATIONS)
    if exceed:
        _require_sizes(stage, sets, models, context)
    if not exceed and stage.mode == "strict":
        distinct, beside = engine.distinct(table, counted), population_combinations(engine, names, context)
        theirs = None if beside is None else histograms_of(beside, names)
        columns, _ = tree_columns(histograms_of(distinct, names), stage, context, theirs)
        by_loss = stage.score == "loss"
        own = distinct, columns, len(cut), models, sets.sensitive, context
        problem = by_combination(*own, by_loss=by_loss, person=sets.person)
        return problem if beside is None else with_population(problem, beside)
    columns, _ = tree_columns(engine.facts(table, FactsRequest(histograms=names)).histograms, stage, context)
    if exceed:
        return InPasses.of(engine, table, columns, len(cut), models, context, MOST_COMBINATIONS)
    return by_record(engine, table, columns, len(cut), models, sets.sensitive, context, person=sets.person)


def _require_sizes(
    stage: MondrianStage, sets: JudgedSets, models: tuple[ClassModel, ...], context: StageContext
) -> None:
    """What a table is cut by that must be counted pass by pass."""
    asked = {
        f"score: {stage.score}": stage.score != "width",
        f"a rule on the values of {', '.join(map(repr, sets.sensitive))}": bool(sets.sensitive),
        "numbers of persons": sets.person is not None,
        "a population": context.population is not None,
        "lookahead: 1": bool(_mended(stage, sets, models)),
    }
    if refused := [what for what, is_asked in asked.items() if is_asked]:
        what = refused[0]
        raise UnsupportedError(
            f"{context.place}: the table has more than {MOST_COMBINATIONS:,} distinct combinations; it is then cut by "
            f"repeated counts, which serve only the sizes of parts, not {what}; generalize some columns before it"
        )


def _mended(stage: MondrianStage, sets: JudgedSets, models: tuple[ClassModel, ...]) -> tuple[ClassModel, ...]:
    """Rules that a side may fail whose own sides both meet them: neither hereditary nor convex in the units counted."""
    return tuple(model for model in models if stage.lookahead and not sets.hereditary(model) and not sets.convex(model))


def _require_sample(problem: CutProblem, sets: JudgedSets) -> None:
    """A population must hold every record, seen in the finest parts that could be."""
    from privpipe.kernels.lattice.node_classes import class_numbers, class_totals

    if not problem.beside:
        return
    codes = problem.codes[:, : len(problem.columns)].astype(np.int32)
    population, classes = problem.codes[:, -1].astype(np.int64), {}
    for keys in sets.compared:
        own = [(at, np.arange(each.size), each.size) for at, each in enumerate(problem.columns) if each.name in keys]
        numbers, count = class_numbers(codes, own)
        classes[keys] = Classes(numbers, count, class_totals(numbers, count, population))
    require_sample(sets, Combinations(problem.counts), classes)


def _models_of(sets: JudgedSets, cut: set[str]) -> tuple[ClassModel, ...]:
    """Rules that a cut can break: those over keys among which there is a column to be cut, each once."""
    found: list[ClassModel] = []
    for keys, models in sets.class_models.items():
        found += [model for model in models if cut.intersection(keys) and model not in found]
    return tuple(found)


@dataclass(frozen=True)
class _Grown:
    """A tree with the records of its leaves, and those of the population in them."""

    problem: CutProblem
    tree: CutTree
    sizes: Ints = field(repr=False)
    rows: Ints | None = field(repr=False)  # leaf of each combination, where a rule looks at more than their records
    population: Ints | None = field(repr=False)
    named: Codes = field(repr=False)  # number of each leaf's label, a column each
    classes: Ints = field(repr=False)  # class of each leaf over all columns
    least: int

    @classmethod
    def of(cls, problem: CutProblem, stage: MondrianStage, parts: Parts, least: int) -> _Grown:
        from privpipe.kernels.lattice.node_classes import class_numbers

        tree = parts.tree
        first, last = tree.cells([column.size for column in problem.columns])
        named = tree.lows.astype(np.int32)
        for at, column in enumerate(problem.columns[: problem.cut]):
            named[:, at] = column.named(first[:, at], last[:, at], tree.lows[:, at], tree.highs[:, at], stage.labels)[0]
        classes, _ = class_numbers(named, _lookups(named))
        return cls(problem, tree, parts.sizes, parts.rows, parts.population, named, classes, least)

    def classes_over(self, keys: tuple[str, ...]) -> tuple[Ints, int]:
        """Class of each leaf over some keys, by the labels that are released."""
        from privpipe.kernels.lattice.node_classes import class_numbers

        places = [at for at, column in enumerate(self.problem.columns) if column.name in keys]
        return class_numbers(self.named, [_lookups(self.named)[at] for at in places])

    def rows_of(self, sets: JudgedSets) -> Ints | None:
        """Leaf of each row, where the guarantees look at more than the records of leaves."""
        return self.rows if sets.sensitive or self.problem.persons else None

    def cells(self, sets: JudgedSets) -> Combinations:
        """What is counted in classes: rows, or leaves where only their records count."""
        return Combinations(self.sizes) if self.rows_of(sets) is None else self.problem.rows

    def classes_in(self, sets: JudgedSets, keys: tuple[str, ...]) -> Classes:
        """Class of each of `cells` over some keys."""
        from privpipe.kernels.lattice.node_classes import class_totals

        rows, (numbers, count) = self.rows_of(sets), self.classes_over(keys)
        population = None if self.population is None else class_totals(numbers, count, self.population)
        return Classes(numbers if rows is None else numbers[rows], count, population)


def _lookups(named: Codes) -> list[tuple[int, Ints, int]]:
    many = (named.max(axis=0, initial=-1) + 1).tolist()
    return [(at, np.arange(labels), labels) for at, labels in enumerate(many)]


def _met(problem: CutProblem, sets: JudgedSets, stage: MondrianStage, context: StageContext, least: int) -> _Grown:
    """The tree of the smallest parts under which rules over all classes hold too; the first one where there are none.

    Larger parts make fewer classes, so a k is looked for by doubling and then by halving.
    """
    found = _judged(problem, sets, stage, context, least)
    if _sizes_met(found, sets, context):
        return found
    low, high = least, least
    while not _sizes_met(found, sets, context):
        if high > problem.records:
            asked = ", ".join(repr(model) for _, model in sets.size_models)
            raise NoSolutionError(f"{context.place}: {asked} cannot be met by this table, however little is cut")
        low, high = high, 2 * high
        found = _judged(problem, sets, stage, context, high)
    while high - low > 1:
        middle = (low + high) // 2
        tried = _judged(problem, sets, stage, context, middle)
        if _sizes_met(tried, sets, context):
            high, found = middle, tried
        else:
            low = middle
    return found


def _sizes_met(grown: _Grown, sets: JudgedSets, context: StageContext) -> bool:
    for keys, model in sets.size_models:
        cells, classes = grown.cells(sets), grown.classes_in(sets, keys)
        totals = Counted.of(cells, classes, np.zeros(len(cells.counts), dtype=np.bool_)).sizes
        sizes, counts = np.unique(totals, return_counts=True)
        if not model.met_by(sizes, counts, context.base):
            return False
    return True


def _judged(problem: CutProblem, sets: JudgedSets, stage: MondrianStage, context: StageContext, least: int) -> _Grown:
    """A tree that passes on its released labels.

    Where parts that share a label fail together, the cuts above them are taken back.
    """
    parts = problem.grown(least)
    while True:
        grown = _Grown.of(problem, stage, parts, least)
        failing = _failing_leaves(grown, sets, context)
        if not len(failing):
            return grown
        tree, numbers = parts.tree.pruned(failing)
        spread = [
            column.groups[tree.lows[:, at]] != column.groups[tree.highs[:, at]]
            if at < problem.cut
            else tree.lows[:, at] != tree.highs[:, at]
            for at, column in enumerate(problem.columns)
        ]
        if np.any(spread) or len(numbers) == tree.leaves:
            raise NoSolutionError(_unattainable(grown, failing, context))
        parts = parts.folded(tree, numbers)


def _failing_leaves(grown: _Grown, sets: JudgedSets, context: StageContext) -> Ints:
    """Leaves in classes that fail a rule which each class must meet by itself."""
    classes = {keys: grown.classes_in(sets, keys) for keys in sets.class_models}
    if not classes:
        return np.empty(0, dtype=np.int64)
    cells, rows = grown.cells(sets), grown.rows_of(sets)
    found = failing_rows(replace(sets, size_models=()), cells, classes, context.base, lambda keys, at: [])
    if not found.met:
        asked = ", ".join(repr(model) for keys in sets.compared for model in sets.class_models[keys])
        raise NoSolutionError(
            f"{context.place}: {asked} cannot be met by this table, however it is cut: classes of the population that "
            "no record can be in fail"
        )
    leaves = np.flatnonzero(found.rows) if rows is None else rows[found.rows]
    return np.unique(leaves).astype(np.int64)


def _unattainable(grown: _Grown, failing: Ints, context: StageContext) -> str:
    asked = ", ".join(repr(guarantee) for guarantee in context.guarantees)
    fixed = [repr(column.name) for column in grown.problem.columns[grown.problem.cut :]]
    divided = f"; {', '.join(fixed)} stay unchanged and divide it: name them under `columns:` too" if fixed else ""
    return (
        f"{context.place}: {asked} cannot be met by this table even where nothing is cut: "
        f"{int(grown.sizes[failing].sum()):,} of {int(grown.sizes.sum()):,} records would be left in classes that "
        f"fail{divided}"
    )


def _releases_values(column: CutColumn) -> bool:
    """Whether a single code represents an unchanged value."""
    tree = column.hierarchy
    return tree is None or (not tree.min_level and tree.unknown_code is None)


def _plan(stage: MondrianStage, context: StageContext, grown: _Grown) -> StagePlan:
    problem, tree = grown.problem, grown.tree
    cut = problem.columns[: problem.cut]
    first, last = tree.cells([column.size for column in problem.columns])
    losses, penalties, recoded = {}, [], []
    lows, highs = tree.lows.copy(), tree.highs.copy()
    blind = np.full(tree.leaves, len(cut) == len(problem.columns))
    for at, column in enumerate(cut):
        low, high = tree.lows[:, at], tree.highs[:, at]
        own = column.told(first[:, at], last[:, at], low, high, stage.labels)
        lows[:, at], highs[:, at] = own
        losses[column.name] = column_loss(grown.sizes, column.shares(*own), column.domain_size)
        penalties.append(column.penalties(*own, low, high))
        blind &= column.is_root(*own)
        if not (_releases_values(column) and (own[0] == own[1]).all()):
            recoded.append(column.name)
    loss = cell_loss(list(losses.values()))
    hierarchies = {column.name: column.hierarchy for column in cut if column.hierarchy is not None}
    cuts = Counter(tree.columns[tree.columns >= 0].tolist())
    return StagePlan(
        name=stage.name(),
        parameters=stage.parameters(),
        detail={
            "approach": "CG_",
            "columns": [column.name for column in cut],
            "fixed": [column.name for column in problem.columns[problem.cut :]],
            "recoded": recoded,
            "tree": replace(tree, lows=lows, highs=highs).packed(),
            "cuts": {column.name: cuts.get(at, 0) for at, column in enumerate(problem.columns)},
            "depth": int(tree.depths().max(initial=0)),
            "dictionaries": {column.name: context.keyed(column.digest) for column in problem.columns},
            "hierarchies": {name: context.keyed(hierarchy.digest()) for name, hierarchy in hierarchies.items()},
            "data_dependent": [name for name, hierarchy in hierarchies.items() if hierarchy.data_dependent],
            "k": grown.least,
            "records": problem.records,
            "tuples": problem.tuples,
            "classes": len(np.unique(grown.classes[grown.sizes > 0])),
            "records_without_information": int(grown.sizes[blind].sum()),
            "loss": loss,
            "cell_loss": loss,
            "column_losses": losses,
            "gcp": mean_penalty(grown.sizes, penalties),
        },
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Mondrian(MondrianStage):
    """Cut the table in two, again and again, while both halves meet the guarantees; each part has its own labels.

    Every guarantee over classes is met by both sides of every cut, and judged again on the released labels, which
    neighbouring parts may share. A quasi-identifier that is judged and not among the columns stays unchanged: the
    table is first divided by its values.

    Where the guarantees count persons (households), a side of a cut holds everyone with a record there, so one person
    may be on both. Tables of up to 50 million combinations of values and persons are served.

    With a raw `population:` each of its persons falls into one part too, in mode strict: labels cover the values of the
    table and of the population there, and a part counts those of the population who get its labels. The population
    must have every column that is cut or judged; cuts are between values of the table.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy. Others may be named: of numbers, dates and timestamps
        intervals are released, of other values sets.
    k : int, optional
        Least size of a part; it can only be stricter than the guarantees, and counts as they do.
    mode : {"strict", "relaxed"}
        strict: equal values stay together. relaxed: the records of the middle value may be divided, in the order of
        their keyed ids, which is the same on every engine; serves tables of up to 50 million records.
    score : {"width", "loss"}
        Where to cut: the widest column nearest its median, or the cut that lowers the loss most.
    labels : {"cells", "values"}
        What an interval shows: the bounds of the cuts, or the least and greatest value present (also of a population).
    lookahead : {0, 1}
        1: a part without a passing cut may still be cut where each side passes or has a further cut whose
        sides do. For k, l and t nothing changes: a failing set has a failing part, however it is cut. It serves
        delta_disclosure with `present_only`, models of plug-ins that are neither hereditary nor convex, and entropy
        l-diversity, t-closeness and similar rules in persons.

    Notes
    -----
    A column with a hierarchy is cut in the order of its leaves and released as the lowest common ancestor of the values
    present. A range that takes in missing values and others is released as ``*``. Labels of one column may overlap
    (``north`` and ``*``): taken alone, they cover more of a population than is counted.

    Examples
    --------
    >>> Mondrian(k=5)
    Mondrian(k=5)
    >>> Mondrian(columns=["age", "income"], labels="values").columns
    ('age', 'income')
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)

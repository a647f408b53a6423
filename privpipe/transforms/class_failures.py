"""Which distinct combinations must go: the rule of suppression, for the search and for the stages alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, SizeModel
from privpipe.errors import UnsupportedError
from privpipe.transforms.base import StageContext

__all__ = [
    "Classes",
    "Combinations",
    "Failures",
    "JudgedSets",
    "failing_rows",
    "judged_sets",
    "shortest_prefix",
    "unserved",
]

Keys = tuple[str, ...]
Ties = Callable[[Keys, NDArray[np.int64]], Sequence[NDArray[np.float64] | NDArray[np.int64]]]
"""What orders classes of one size over some keys: columns with an entry for each of the combinations at these
places, one a class; the first column decides first."""


@dataclass(frozen=True)
class JudgedSets:
    """Guarantees over classes, by the quasi-identifiers they are judged on.

    Parameters
    ----------
    class_models : mapping of keys to tuple of ClassModel
        Rules that each class must meet by itself.
    size_models : tuple of (keys, SizeModel)
        Rules over all class sizes together, in policy order.
    """

    class_models: Mapping[Keys, tuple[ClassModel, ...]]
    size_models: tuple[tuple[Keys, SizeModel], ...]

    @cached_property
    def keys(self) -> tuple[Keys, ...]:
        """Every set of quasi-identifiers, the class-based ones first."""
        return tuple(dict.fromkeys([*self.class_models, *(keys for keys, _ in self.size_models)]))

    @cached_property
    def columns(self) -> Keys:
        """Every quasi-identifier that is judged."""
        return tuple(dict.fromkeys(column for keys in self.keys for column in keys))

    @cached_property
    def sensitive(self) -> Keys:
        """Every sensitive column whose values are counted."""
        models = [model for group in self.class_models.values() for model in group]
        return tuple(dict.fromkeys(column for model in models for column in model.sensitive_columns()))


def judged_sets(context: StageContext, *, persons: bool = False) -> JudgedSets:
    """The guarantees of a policy that read classes.

    Parameters
    ----------
    context : StageContext
    persons : bool
        Whether the caller counts persons where the policy asks for it.

    Raises
    ------
    UnsupportedError
        A way of counting that a stage which suppresses does not serve: never passed over.
    """
    if refused := unserved(context, persons=persons):
        raise UnsupportedError(f"{context.place}: {refused}")
    classes: dict[Keys, tuple[ClassModel, ...]] = {}
    sizes: list[tuple[Keys, SizeModel]] = []
    for guarantee in context.guarantees:
        entry = guarantee.over(context.roles)
        if not isinstance(entry, ClassModel | SizeModel):
            continue
        keys = context.roles.quasi_identifiers if entry.quasi_identifiers is None else entry.quasi_identifiers
        for own in entry.key_sets(tuple(keys)):
            if isinstance(entry, ClassModel):
                classes[own] = (*classes.get(own, ()), entry)
            else:
                sizes.append((own, entry))
    return JudgedSets(classes, tuple(sizes))


def unserved(context: StageContext, *, persons: bool = False) -> str:
    """Why suppression and search cannot work for the policy's guarantees, or nothing."""
    instead = "generalize by given `levels:` without suppress_at_most and let the release be judged"
    if not context.guarantees:
        return ""
    if context.nulls == "wildcard":
        return f"a stage that suppresses counts classes, and under `nulls: wildcard` there are none; {instead}"
    for guarantee in context.guarantees:
        what = f"cannot suppress or search for {guarantee.name()}"
        if guarantee.needs_population:
            return (
                f"{what}: {guarantee.name()} compares with a population, which this stage does not count yet; {instead}"
            )
        if guarantee.reads in ("classes", "process") and not isinstance(guarantee, ClassModel | SizeModel):
            return f"{what}: classes do not tell whether it holds; {instead}"
    if context.person is not None and not persons:
        return f"this stage counts records, not persons as `person_id` asks; use suppress_records, or {instead}"
    return ""


@dataclass(frozen=True)
class Combinations:
    """Distinct combinations of quasi-identifiers and sensitive values.

    Parameters
    ----------
    counts : ndarray of int64, shape (t,)
        Records of each.
    sensitive : mapping of column to ndarray of int64, shape (t,)
        Codes of sensitive values: positions in the base distribution where there is one.
    """

    counts: NDArray[np.int64]
    sensitive: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @cached_property
    def by_code(self) -> Mapping[str, NDArray[np.intp]]:
        """Places of the combinations in the order of each sensitive column's codes."""
        return {column: np.argsort(codes, kind="stable") for column, codes in self.sensitive.items()}


@dataclass(frozen=True)
class Classes:
    """The classes over one set of keys.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Class of each combination.
    count : int
    marked : ndarray of bool, shape (t,), or None
        Combinations that are suppressed already: they form no class that could fail.
    """

    numbers: NDArray[np.int64]
    count: int
    marked: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Failures:
    """What must go.

    Parameters
    ----------
    rows : ndarray of bool, shape (t,)
        Combinations that go.
    hereditary : int
        Records of classes that fail in all their parts too, so at every finer vector of levels.
    met : bool
        Whether what is left meets everything; False: no suppression helps.
    """

    rows: NDArray[np.bool_]
    hereditary: int
    met: bool


def failing_rows(
    sets: JudgedSets, rows: Combinations, classes: Mapping[Keys, Classes], facts: Facts, ties: Ties
) -> Failures:
    """Suppress in rounds: all classes that fail over any set of keys go at once and the rest is counted again.

    Then each sample-based model, in policy order, has the shortest prefix of classes removed that fulfils it, by
    ascending size; and all of it again until nothing more goes.

    Parameters
    ----------
    classes : mapping of keys to Classes
        Of every set of `sets`.
    """
    gone = np.zeros(len(rows.counts), dtype=np.bool_)
    hereditary = 0
    first = True
    while True:
        more, inherited = _class_round(sets, rows, classes, facts, gone)
        if first:
            hereditary, first = inherited, False
        changed = bool((more & ~gone).any())
        gone |= more
        if gone.all():
            return Failures(gone, hereditary, met=True)
        if changed and len(sets.keys) > 1:
            continue
        changed = False
        for keys, model in sets.size_models:
            found = _prefix(rows, keys, classes[keys], gone, model, facts, ties)
            if found is None:
                return Failures(gone, hereditary, met=False)
            changed |= bool((found & ~gone).any())
            gone |= found
        if not changed or len(sets.keys) == len(sets.size_models) == 1:
            return Failures(gone, hereditary, met=True)


def shortest_prefix(sizes: NDArray[np.int64], model: SizeModel, facts: Facts) -> int | None:
    """How many of the classes, in ascending size, must go; None when even all but one do not suffice.

    By bisection, then verified: a prefix that does not hold is walked upward until one does, so a model that is
    not monotone in it is still met.

    Examples
    --------
    >>> from privpipe.models import AverageRisk
    >>> shortest_prefix(np.array([1, 4, 1, 6]), AverageRisk(at_most=0.25), Facts())
    2
    """
    distinct, classes = np.unique(sizes, return_counts=True)
    ends = np.cumsum(classes)

    def met(prefix: int) -> bool:
        at = int(np.searchsorted(ends, prefix, side="right"))
        left = classes[at:].copy()
        left[0] = ends[at] - prefix
        return model.met_by(distinct[at:], left, facts)

    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle + 1, high)
    return next((prefix for prefix in range(low, len(sizes)) if met(prefix)), None)


def _class_round(
    sets: JudgedSets,
    rows: Combinations,
    classes: Mapping[Keys, Classes],
    facts: Facts,
    gone: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], int]:
    """Rows of the classes that fail among those left, and how many records fail hereditarily."""
    failing = np.zeros_like(gone)
    inherited = np.zeros_like(gone)
    for keys, models in sets.class_models.items():
        left = _left(rows, classes[keys], gone)
        present, block = _class_block(rows, classes[keys], left, models)
        bad, finer = np.zeros((2, classes[keys].count), dtype=np.bool_)
        for model in models:
            fails = ~model.passing(block, facts)
            bad[present] |= fails
            if model.hereditary:
                finer[present] |= fails
        alive = left > 0
        failing |= alive & bad[classes[keys].numbers]
        inherited |= alive & finer[classes[keys].numbers]
    return failing, int(rows.counts[inherited].sum())


def _left(rows: Combinations, classes: Classes, gone: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Records of each combination that form classes."""
    out = gone if classes.marked is None else gone | classes.marked
    return np.where(out, 0, rows.counts)


def _class_block(
    rows: Combinations, classes: Classes, left: NDArray[np.int64], models: Sequence[ClassModel]
) -> tuple[NDArray[np.bool_], ClassBlock]:
    """Which classes have records left, and the class table of these."""
    from privpipe.kernels.tuple_classes import class_cells, class_totals

    sizes = class_totals(classes.numbers, classes.count, left)
    present = sizes > 0
    cells = {}
    for column in dict.fromkeys(column for model in models for column in model.sensitive_columns()):
        codes, order = rows.sensitive[column], rows.by_code[column]
        found = Cells(*class_cells(classes.numbers, classes.count, order, codes, left))
        cells[column] = found if present.all() else found.take(present)
    return present, ClassBlock(sizes[present], cells)


def _prefix(
    rows: Combinations,
    keys: Keys,
    classes: Classes,
    gone: NDArray[np.bool_],
    model: SizeModel,
    facts: Facts,
    ties: Ties,
) -> NDArray[np.bool_] | None:
    """Rows that go once a sample-based model has had the smallest classes removed; None when that cannot help."""
    from privpipe.kernels.tuple_classes import class_totals

    left = _left(rows, classes, gone)
    sizes = class_totals(classes.numbers, classes.count, left)
    present = np.flatnonzero(sizes)
    if not len(present):
        return np.zeros_like(gone)
    prefix = shortest_prefix(sizes[present], model, facts)
    if prefix is None:
        return None
    border = np.sort(sizes[present])[prefix - 1] if prefix else 0
    dropped = (sizes > 0) & (sizes < border)
    tied = np.flatnonzero((sizes == border) & (sizes > 0))
    wanted = prefix - int(dropped.sum())
    if 0 < wanted < len(tied):
        # Any combination speaks for its class: what orders classes is a function of their keys.
        speaker = np.zeros(classes.count, dtype=np.int64)
        speaker[classes.numbers] = np.arange(len(classes.numbers))
        tied = tied[np.lexsort(tuple(reversed(list(ties(keys, speaker[tied])))))]
    dropped[tied[:wanted]] = True
    return dropped[classes.numbers] & (left > 0)

"""Class blocks for tests of a model: random ones, ones written by hand, and thresholds to try on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privpipe.blocks import Cells, ClassBlock, Facts, Guarantee, Histogram, Verdict, prepared
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.oracle_classes import Case, around_figure
from privpipe.errors import PrivpipeError, UsageError
from privpipe.roles import Roles
from privpipe.testing.oracle import beside

__all__ = [
    "CLASS_ROLES",
    "VALUES",
    "ClassTable",
    "at_threshold",
    "block_of",
    "facts_for",
    "facts_of",
    "judged",
    "over_classes",
    "random_classes",
    "random_gate",
    "values_served",
    "with_parameters",
]


CLASS_ROLES = Roles(quasi_identifiers=["zip"], sensitive=["illness", "income"])
VALUES: Mapping[str, Sequence[Any]] = {
    "two texts": ("cold", "flu"),
    "three texts": ("cold", "flu", "gout"),
    "six numbers": (1, 2, 3, 5, 8, 13),
    "nine texts": tuple(f"illness {at}" for at in range(9)),
}
"""What the sensitive columns hold; a model is tried on all of these that it takes."""


@dataclass(frozen=True)
class ClassTable:
    """Classes as arrays, one row per class.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n,)
    counts : mapping of column to ndarray of int64, shape (n, v)
        Records of each class with each value; every row sums to the size.
    population : ndarray of int64, shape (n,)
        At least the size.
    weights : ndarray of float64, shape (n,)
        Sum of sampling weights, at least the size.
    """

    sizes: Ints
    counts: Mapping[str, Ints] = field(default_factory=dict)
    population: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.sizes)

    def __add__(self, other: ClassTable) -> ClassTable:
        """Class i of both as one class."""
        return ClassTable(
            self.sizes + other.sizes,
            {name: rows + other.counts[name] for name, rows in self.counts.items()},
            self.population + other.population,
            self.weights + other.weights,
        )

    def take(self, places: Any) -> ClassTable:
        """Some of the classes, in that order."""
        return ClassTable(
            self.sizes[places],
            {name: rows[places] for name, rows in self.counts.items()},
            self.population[places],
            self.weights[places],
        )

    def block(self) -> ClassBlock:
        """The classes as an engine hands them over."""
        cells = {}
        for name, rows in self.counts.items():
            places, codes = np.nonzero(rows)
            offsets = np.searchsorted(places, np.arange(len(rows) + 1)).astype(np.int64)
            cells[name] = Cells(offsets, codes.astype(np.int64), rows[places, codes].astype(np.int64))
        return ClassBlock(self.sizes, cells, population=self.population, weights=self.weights)


def random_classes(
    rng: np.random.Generator, classes: int, columns: Sequence[str] = (), values: int = 3, *, strangers: bool = False
) -> ClassTable:
    """Classes of 1 to 40 records, some even, some of a single value.

    Parameters
    ----------
    columns : sequence of str
        Sensitive ones.
    values : int
        Distinct values of each.
    strangers : bool
        Whether classes of the population without a record are among them; they have no cells.

    Examples
    --------
    >>> table = random_classes(np.random.default_rng(1), 4, ["illness"])
    >>> bool((table.counts["illness"].sum(axis=1) == table.sizes).all()), len(table.block())
    (True, 4)
    """
    most = rng.choice([3, 8, 40], size=classes)
    sizes = rng.integers(1, most + 1)
    even = rng.random(classes) < 0.2
    sizes = np.where(even, values * rng.integers(1, 4, size=classes), sizes)
    if strangers:
        sizes = np.where(rng.random(classes) < 0.15, 0, sizes)
    counts = {}
    for name in columns:
        spread = rng.choice([0.1, 0.5, 2.0, 20.0], size=(classes, 1))
        shares = rng.standard_gamma(np.broadcast_to(spread, (classes, values))) + 1e-9
        drawn = rng.multinomial(sizes, shares / shares.sum(axis=1, keepdims=True))
        level = np.broadcast_to((sizes // values)[:, None], (classes, values))
        counts[name] = np.where((even & (sizes % values == 0))[:, None], level, drawn).astype(np.int64)
    crowd = sizes + rng.integers(0, 3 * np.maximum(sizes, 1) + 1)
    weights = sizes * np.round(1 + 40 * rng.random(classes), 3)
    return ClassTable(sizes.astype(np.int64), counts, np.maximum(crowd, 1).astype(np.int64), weights)


def facts_for(table: ClassTable, values: Sequence[Any], model: Guarantee) -> Facts:
    """Facts of a table whose sensitive columns hold these values, with what the model works out of them."""
    import pyarrow as pa

    histograms = {
        name: Histogram(pa.array(list(values)), np.maximum(rows.sum(axis=0), 1)) for name, rows in table.counts.items()
    }
    return prepared(Facts(records=int(table.sizes.sum()), histograms=histograms), [model])


def over_classes(model: Guarantee) -> tuple[Guarantee, tuple[str, ...]]:
    """A model over the roles of `CLASS_ROLES`, and the columns whose values it counts."""
    filled = model.with_roles(CLASS_ROLES).beside(model.needs_population)
    keys = CLASS_ROLES.quasi_identifiers if model.quasi_identifiers is None else model.quasi_identifiers
    counted = (*filled.sensitive_columns(), *filled.counted_columns(tuple(keys)))
    return filled, tuple(dict.fromkeys(counted))


def values_served(model: Guarantee) -> Iterator[tuple[str, Sequence[Any]]]:
    """Those of `VALUES` that a model takes: a tree or an order refuses values it does not name."""
    filled, columns = over_classes(model)
    for name, values in VALUES.items():
        table = random_classes(np.random.default_rng(1), 5, columns, len(values))
        try:
            facts = facts_for(table, values, filled)
            filled.judge(filled.measure(table.block(), facts), facts)
        except PrivpipeError:
            continue
        yield name, values
        if not columns:
            return


def with_parameters(model: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """The model with other parameters, over the same roles."""
    changed: Guarantee = replace(model, **parameters)
    return over_classes(changed)[0]


def block_of(**columns: Sequence[Sequence[int]]) -> ClassBlock:
    """A class block from one matrix per column: one row per class, one entry per value code, 0 where it is absent.

    Examples
    --------
    >>> block = block_of(illness=[[2, 0, 1], [0, 3, 0]])
    >>> block.sizes.tolist(), block.cells["illness"].codes.tolist()
    ([3, 3], [0, 2, 1])
    """
    cells, sizes = {}, np.zeros(0, dtype=np.int64)
    for name, rows in columns.items():
        pairs = [[(code, count) for code, count in enumerate(row) if count] for row in rows]
        flat = np.array([pair for row in pairs for pair in row], dtype=np.int64).reshape(-1, 2)
        cells[name] = Cells(np.cumsum([0, *map(len, pairs)]), flat[:, 0].copy(), flat[:, 1].copy())
        sizes = np.array([sum(row) for row in rows], dtype=np.int64)
    return ClassBlock(sizes, cells)


def facts_of(block: ClassBlock) -> Facts:
    """Facts whose base is that of the block itself, with the codes 0, 1, ... as values.

    Examples
    --------
    >>> facts_of(block_of(illness=[[2, 1], [1, 0]])).base("illness").tolist()
    [0.75, 0.25]
    """
    import pyarrow as pa

    histograms = {}
    for name, cells in block.cells.items():
        counts = np.bincount(cells.codes, weights=cells.counts).astype(np.int64)
        if not counts.all():
            raise ValueError(f"some code of {name} has no record")
        histograms[name] = Histogram(pa.array(np.arange(len(counts))), counts)
    return Facts(records=block.records, histograms=histograms)


def judged(model: Guarantee, block: ClassBlock, facts: Facts | None = None) -> Verdict:
    """The verdict of one model over one block; facts are the block's own unless given.

    Examples
    --------
    >>> from privpipe.models import DistinctLDiversity
    >>> judged(DistinctLDiversity(column="illness", l=2), block_of(illness=[[2, 1], [3, 0]])).observed
    1
    """
    facts = facts_of(block) if facts is None else facts
    return model.judge(model.measure(block, facts), facts)


def at_threshold(model: Guarantee, observed: Any, facts: Facts) -> Iterator[tuple[str, Guarantee, bool]]:
    """Gates around the model's own figure of a table, and whether each must pass over it.

    Examples
    --------
    >>> from privpipe.models import AverageRisk
    >>> [(what, passes) for what, _, passes in at_threshold(AverageRisk(at_most=1.0), 0.25, Facts())][-2:]
    [('clearly beyond', False), ('clearly within', True)]
    """
    own = beside(type(model), "around")
    for what, parameters, passes in (_around if own is None else own)(model, observed, facts):
        try:
            yield what, with_parameters(model, parameters), passes
        except UsageError:
            continue  # no threshold of this model: a share above 1, an l below 1


def _around(model: Guarantee, observed: Any, facts: Facts) -> Iterable[Case]:
    demanded = model.demanded()
    if isinstance(observed, Mapping) and isinstance(demanded, Mapping):
        rules = model.rules()  # type: ignore[attr-defined]
        for name, (direction, _) in rules.items():
            for what, value, passes in around_figure(observed[name], direction):
                yield f"{name} {what}", {**observed, name: value}, passes
        return
    if isinstance(observed, Mapping):
        observed = observed[model.figure]  # type: ignore[attr-defined]
    if model.threshold_field is not None:
        for what, value, passes in around_figure(observed, model.direction):
            yield what, {model.threshold_field: value}, passes


def random_gate(rng: np.random.Generator, model: Guarantee, table: ClassTable, facts: Facts) -> Guarantee:
    """A gate of the model: unchanged, at another threshold, or at the figure of one of these classes.

    The other threshold is what ``thresholds(rng)`` next to the model gives.
    """
    own = beside(type(model), "thresholds")
    kind = rng.random()
    if own is not None and kind < 0.45:
        return with_parameters(model, own(rng))
    if kind < 0.8:
        one = table.take([int(rng.integers(len(table)))])
        observed = model.judge(model.measure(one.block(), facts), facts).observed
        for _, gate, passes in at_threshold(model, observed, facts) if observed is not None else ():
            if passes:
                return gate
    return model

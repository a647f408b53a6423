"""Random class tables as arrays: thousands of classes in a few calls, to try what a model claims of all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, Facts, Guarantee, Histogram, prepared
from privpipe.errors import PrivpipeError
from privpipe.roles import Roles

__all__ = [
    "CLASS_ROLES",
    "VALUES",
    "ClassTable",
    "facts_for",
    "over_classes",
    "random_classes",
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
    """Classes as arrays, one row a class.

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

    sizes: NDArray[np.int64]
    counts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    population: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

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

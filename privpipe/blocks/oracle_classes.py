"""The classes of a table as oracles see them, and the common shapes of a verdict.

An oracle computes what a model must report, straight from the definition: no kernel, dictionaries and fractions. It is
defined next to its model as ``oracle(model, classes)``: a static method of the entry, or a function of the sibling
module ``<model>_oracle``, which only `privpipe.testing` and the tests load. Next to it may be defined, in the same way:

- ``thresholds(rng)``: the parameters of a random gate, drawn from a numpy generator;
- ``around(model, observed, facts)``: cases at the threshold, for a model that compares with more than its figure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privpipe.blocks.verdict import Outcome
from privpipe.errors import DataError

__all__ = [
    "Case",
    "Classes",
    "Expected",
    "around_figure",
    "base_shares",
    "by_class",
    "finite_max",
    "plain_cell",
    "share_at_most",
    "slack",
]

WITHIN, BEYOND, LEAST = 1e-11, 1e-6, 1e-11
"""Relative distances from a threshold: what rounding explains, and what it does not; the latter at least so much."""

Case = tuple[str, Mapping[str, Any], bool]
"""What is asked of a table, the parameters of the gate that asks it, and whether it must pass."""


@dataclass(frozen=True)
class Expected:
    """What a verdict must report; `failing_*` are None for models that judge no single class.

    `tolerance` is relative, wider where the figure is a root that is searched for.
    """

    outcome: Outcome
    observed: Any
    failing_classes: int | None = None
    failing_records: int | None = None
    tolerance: float = 1e-9


@dataclass(frozen=True)
class Classes:
    """The classes of a table over one set of quasi-identifiers, as an oracle sees them.

    Parameters
    ----------
    members : list of list of int
        Row numbers of each class, the suppressed one left out.
    suppressed : int
        Records of which nothing is left.
    values : mapping of column to list
        Cells, every missing one None.
    base : mapping of column to Counter
        Values of the distribution to compare with.
    records : int
        Records of the table, suppressed ones too; persons of it where these are counted.
    sensitive : tuple of str
        The sensitive columns.
    keys : tuple of str
        The quasi-identifiers.
    population : tuple of int
        Records of the population in each class.
    foreign : tuple of int
        Records of the population in each class that the table has no record of, a suppressed one aside.
    persons : sequence, optional
        The person of each row, where persons are counted.
    base_members : int, optional
        How many persons the base is of.
    """

    members: list[list[int]]
    suppressed: int
    values: Mapping[str, list[Any]]
    base: Mapping[str, Counter[Any]]
    records: int = 0
    sensitive: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    population: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    persons: Sequence[Any] | None = None
    base_members: int | None = None

    @property
    def sizes(self) -> list[int]:
        """n_c of each class: its records, or its different persons."""
        if self.persons is None:
            return [len(rows) for rows in self.members]
        return [len({self.persons[row] for row in rows}) for rows in self.members]

    def counts(self, column: str) -> list[Counter[Any]]:
        """n_cs, values of a column in each class: the records, or persons, that have each."""
        return [Counter(value for held in members for (value,) in held) for members in self._by_member((column,))]

    def shares(self, column: str) -> list[dict[Any, Fraction]]:
        """n_cs / n_c of each class; over persons they may add up to more than 1."""
        return [
            {value: Fraction(count, size) for value, count in counts.items()}
            for counts, size in zip(self.counts(column), self.sizes, strict=True)
        ]

    def value_sets(self, column: str) -> list[Counter[Any]]:
        """The sets of values that the records, or persons, of each class have; one alone where all share a value."""
        found = []
        for members in self._by_member((column,)):
            shared = frozenset.intersection(*members)
            found.append(Counter({shared: len(members)}) if shared else Counter(members))
        return found

    def _by_member(self, columns: Sequence[str]) -> list[list[frozenset[Any]]]:
        """Of each class, for each of its records, or persons, what it has in these columns."""
        found = []
        for rows in self.members:
            held: dict[Any, set[Any]] = {}
            for row in rows:
                who = row if self.persons is None else self.persons[row]
                held.setdefault(who, set()).add(tuple(self.values[name][row] for name in columns))
            found.append([frozenset(values) for values in held.values()])
        return found


def plain_cell(value: Any) -> Any:
    """One missing value for all of them; -0.0 equals 0.0 as it stands, and 1 equals 1.0."""
    return None if value is None or value != value else value


def slack(bound: float) -> float:
    """The tolerance of comparisons with a bound."""
    return 1e-12 + 1e-9 * abs(bound)


def by_class(classes: Classes, figures: Sequence[Any], passes: Iterable[bool], worst: Any) -> Expected:
    """The verdict of a rule that every class must meet by itself."""
    failing = [size for size, fine in zip(classes.sizes, passes, strict=True) if not fine]
    observed = worst(figures) if figures else None
    return Expected("fail" if failing else "pass", observed, len(failing), sum(failing))


def share_at_most(model: Any, figure: Fraction | None) -> Expected:
    """The verdict of a figure of the whole table."""
    met = figure is None or model.at_most is None or float(figure) <= model.at_most + slack(model.at_most)
    return Expected("pass" if met else "fail", figure)


def base_shares(model: Any, classes: Classes) -> dict[Any, Fraction]:
    """N_s / N, the share of each value in the distribution that classes are compared with.

    Raises
    ------
    DataError
        A class holds a value that the base has not.
    """
    base = classes.base[model.column]
    for counts in classes.counts(model.column):
        if any(value not in base for value in counts):
            raise DataError("base does not cover the released values")
    total = sum(base.values()) if classes.base_members is None else classes.base_members
    return {value: Fraction(count, total) for value, count in base.items()}


def around_figure(figure: Any, direction: str) -> Iterator[tuple[str, Any, bool]]:
    """Thresholds at a figure and on both sides of it, and whether a table of this figure must meet each.

    Examples
    --------
    >>> [(threshold, passes) for _, threshold, passes in around_figure(3, "at_least")]
    [(3, True), (4, False), (2, True)]
    """
    if figure is None or isinstance(figure, bool) or not math.isfinite(figure):
        return
    harder = 1 if direction == "at_least" else -1
    strict = direction == "below"
    yield "at the threshold", figure, not strict
    if isinstance(figure, int):
        yield "one beyond the threshold", figure + harder, False
        yield "one within the threshold", figure - harder, True
    elif figure:
        near, far = harder * WITHIN * abs(figure), harder * (BEYOND * abs(figure) + LEAST)
        yield "beyond by rounding", figure + near, not strict
        yield "within by rounding", figure - near, not strict
        yield "clearly beyond", figure + far, False
        yield "clearly within", figure - far, True


def finite_max(figures: Any) -> float | None:
    """The largest figure, None where it is infinite."""
    worst = max(figures)
    return None if math.isinf(worst) else worst

"""What every model must say of a table, written straight from the definitions in plain Python.

No kernel is shared with the models: counting is a dictionary, shares are fractions, sums are exact. Slow on
purpose, and only for small tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.errors import DataError, PrivpipeError, UsageError
from privpipe.testing.hostile import HostileTable
from privpipe.testing.oracle_classes import Classes, Expected, at_most, by_class, plain_cell, slack
from privpipe.testing.oracle_of_populations import POPULATION_ORACLES
from privpipe.testing.oracle_of_shares import SHARE_ORACLES
from privpipe.testing.oracle_of_sizes import SIZE_ORACLES
from privpipe.testing.oracle_of_trees import distance_along, paths_of

__all__ = ["ORACLES", "Classes", "Expected", "oracle", "unsuppressed_rows"]

EULER_GAMMA = 0.5772156649015329


Judge = Callable[[Any, Classes], Expected]


def oracle(model: Guarantee, table: HostileTable, mark: str = "*") -> Expected:
    """The verdict that `model` must give over `table`, or the error it must raise.

    Raises
    ------
    PrivpipeError
        The error that the model or the table calls for.
    LookupError
        For a model that has no oracle in `ORACLES`.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> from privpipe.testing import HOSTILE_TABLES
    >>> oracle(KAnonymity(k=2), HOSTILE_TABLES["unused_categories"])
    Expected(outcome='fail', observed=1, failing_classes=1, failing_records=1, tolerance=1e-09)
    """
    if table.refused is not None:
        raise table.refused(f"hostile table {table.name}")
    if model.name() not in ORACLES:
        raise LookupError(f"no oracle for {model.name()}: add one to privpipe.testing.oracle.ORACLES")
    classes = count_classes(model, table, mark)
    expected = ORACLES[model.name()](model, classes)
    return Expected("fail", None) if not classes.members else expected


def count_classes(model: Guarantee, table: HostileTable, mark: str) -> Classes:
    """Group the rows by the model's quasi-identifiers."""
    keys = table.roles.quasi_identifiers if model.quasi_identifiers is None else model.quasi_identifiers
    values = {name: [plain_cell(value) for value in cells] for name, cells in table.rows.items()}
    groups: dict[tuple[Any, ...], list[int]] = {}
    left = unsuppressed_rows(table, mark)
    for row in left:
        groups.setdefault(tuple(values[name][row] for name in keys), []).append(row)
    original = {} if getattr(model, "base", None) == "released" else table.base
    base = {name: Counter(map(plain_cell, original.get(name, [values[name][row] for row in left]))) for name in values}
    sensitive = tuple(table.roles.sensitive)
    everybody = table.population.rows
    inhabitants = Counter(zip(*(map(plain_cell, everybody[name]) for name in keys), strict=True)) if keys else Counter()
    if not keys:
        inhabitants[()] = len(table.population)
    return Classes(
        list(groups.values()),
        len(table) - len(left),
        values,
        base,
        len(table),
        sensitive,
        tuple(keys),
        population=tuple(inhabitants[key] for key in groups),
        foreign=tuple(count for key, count in inhabitants.items() if key not in groups),
    )


def unsuppressed_rows(table: HostileTable, mark: str = "*") -> list[int]:
    """Rows in which some column is not the mark, nor missing where it cannot hold text; all rows without a text.

    Examples
    --------
    >>> from privpipe.testing import HOSTILE_TABLES
    >>> unsuppressed_rows(HOSTILE_TABLES["emptied_by_suppression"])
    [0, 1, 2, 5, 6]
    """
    values = {name: [plain_cell(value) for value in cells] for name, cells in table.rows.items()}
    texts = {name for name in values if _holds_text(table, name)}
    blank = {name: mark if name in texts else None for name in values}
    rows = range(len(table))
    return [row for row in rows if not texts or any(cells[row] != blank[name] for name, cells in values.items())]


def _holds_text(table: HostileTable, name: str) -> bool:
    known = [value for value in table.rows[name] if plain_cell(value) is not None]
    return any(isinstance(value, str) for value in known) if known else table.types.get(name, "string") == "string"


def _k_anonymity(model: Any, classes: Classes) -> Expected:
    sizes = [len(rows) for rows in classes.members]
    return by_class(classes, sizes, (model.k is None or size >= model.k for size in sizes), min)


def _distinct_l(model: Any, classes: Classes) -> Expected:
    numbers = [len(counts) for counts in classes.counts(model.column)]
    return by_class(classes, numbers, (model.l is None or number >= model.l for number in numbers), min)


def _entropy_l(model: Any, classes: Classes) -> Expected:
    estimate = _shannon if model.estimator == "shannon" else _grassberger
    counted = classes.counts(model.column)
    figures = [math.exp(estimate(list(counts.values()))) for counts in counted]
    needed = 1 if model.l is None else math.ceil(model.l - 1e-9)
    passes = [
        len(counts) >= needed and (model.l is None or figure >= model.l - slack(model.l))
        for counts, figure in zip(counted, figures, strict=True)
    ]
    if model.estimator == "grassberger":
        enough = [figure for figure, counts in zip(figures, counted, strict=True) if len(counts) >= needed]
        figures = enough + [1.0 for counts in counted if len(counts) == 1]
    return by_class(classes, figures, passes, min)


def _shannon(counts: list[int]) -> float:
    return -math.fsum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)


def _grassberger(counts: list[int]) -> float:
    def g(count: int) -> float:
        odd = math.fsum(2 / (2 * i - 1) for i in range(1, count // 2 + 1))
        return -EULER_GAMMA - math.log(2) + odd

    return g(sum(counts)) - math.fsum(count * g(count) for count in counts) / sum(counts)


def _recursive(model: Any, classes: Classes) -> Expected:
    infima: list[Fraction | None] = []
    passes = []
    for counts in classes.counts(model.column):
        descending = sorted(counts.values(), reverse=True)
        tail = sum(descending[model.l - 1 :])
        infima.append(Fraction(descending[0], tail) if tail else None)
        limit = None if model.c is None else float(Fraction(model.c) * tail)
        passes.append(limit is None or descending[0] < limit - slack(limit))
    return by_class(classes, infima, passes, lambda figures: None if None in figures else max(figures))


def _t_closeness(model: Any, classes: Classes) -> Expected:
    base = classes.base[model.column]
    if model.distance == "hierarchical":
        return _along_a_tree(model, classes)
    ordered = model.distance == "ordered"
    line = _line(model, base) if ordered else list(base)
    total = sum(base.values())
    distances = []
    for counts in classes.counts(model.column):
        if any(value not in base for value in counts):
            raise DataError("base does not cover the released values")
        size = sum(counts.values())
        gains = [Fraction(counts[value], size) - Fraction(base[value], total) for value in line]
        moved = list(accumulate(gains))[:-1] if ordered else gains
        steps = max(len(line) - 1, 1) if ordered else 2
        distances.append(sum(map(abs, moved), start=Fraction(0)) / steps)
    passes = (model.t is None or float(distance) <= model.t + slack(model.t) for distance in distances)
    return by_class(classes, distances, passes, max)


def _along_a_tree(model: Any, classes: Classes) -> Expected:
    base = classes.base[model.column]
    counted = classes.counts(model.column)
    if any(value not in base for counts in counted for value in counts):
        raise DataError("base does not cover the released values")
    paths = paths_of(model.hierarchy, list(base))
    distances = [distance_along(paths, counts, base) for counts in counted]
    passes = (model.t is None or float(distance) <= model.t + slack(model.t) for distance in distances)
    return by_class(classes, distances, passes, max)


def _line(model: Any, base: Counter[Any]) -> list[Any]:
    """The values of the base in their order."""
    if None in base:
        raise DataError("a missing value has no place in an order")
    text = any(isinstance(value, str) for value in base)
    if model.order is None and text:
        raise UsageError("text has no order of its own")
    if model.order is None:
        return sorted(base)
    if model.order == "text":
        return sorted(base, key=str)
    if any(value not in model.order for value in base):
        raise DataError("a value has no place in the order")
    return [value for value in model.order if value in base]


def _average_risk(model: Any, classes: Classes) -> Expected:
    records = sum(len(rows) for rows in classes.members)
    return at_most(model, Fraction(len(classes.members), records) if records else None)


def _sample_uniqueness(model: Any, classes: Classes) -> Expected:
    sizes = [len(rows) for rows in classes.members]
    return at_most(model, Fraction(sizes.count(1), sum(sizes)) if sizes else None)


ORACLES: dict[str, Judge] = {
    "k_anonymity": _k_anonymity,
    "average_risk": _average_risk,
    "sample_uniqueness": _sample_uniqueness,
    "distinct_l_diversity": _distinct_l,
    "entropy_l_diversity": _entropy_l,
    "recursive_cl_diversity": _recursive,
    "t_closeness": _t_closeness,
    **SHARE_ORACLES,
    **SIZE_ORACLES,
    **POPULATION_ORACLES,
}
"""The oracle of each model by its catalogue name; a plug-in adds its own."""


def expected_error(model: Guarantee, table: HostileTable) -> type[PrivpipeError] | None:
    """The error that the oracle calls for, or None where it gives a verdict."""
    try:
        oracle(model, table)
    except PrivpipeError as error:
        return type(error)
    return None

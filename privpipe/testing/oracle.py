"""What every model must say of a table, by the oracle next to it.

Oracles are written straight from the definitions in plain Python and share no kernel with the models: counting is a
dictionary, shares are fractions, sums are exact. Slow on purpose, and only for small tables.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.blocks.oracle_classes import Classes, Expected, plain_cell
from privpipe.errors import PrivpipeError
from privpipe.testing.hostile_tables import HostileTable

__all__ = [
    "Classes",
    "Expected",
    "beside",
    "count_classes",
    "expected_error",
    "has_oracle",
    "oracle",
    "oracle_of",
    "unsuppressed_rows",
]

Judge = Callable[[Any, Classes], Expected]


def beside(entry: type[Guarantee], name: str) -> Any:
    """What an entry brings along for its tests: a static method, else a function of the sibling ``<module>_oracle``.

    An entry that brings nothing is served by the class it derives from; None where no class brings it.
    """
    for owner in entry.__mro__:
        own = owner.__dict__.get(name)
        if isinstance(own, staticmethod):
            return own.__func__
        sibling = f"{owner.__module__}_oracle"
        if issubclass(owner, Guarantee) and _is_there(sibling):
            found = getattr(importlib.import_module(sibling), name, None)
            if found is not None:
                return found
    return None


def has_oracle(entry: type[Guarantee]) -> bool:
    """Whether the entry brings an oracle along."""
    return beside(entry, "oracle") is not None


def oracle_of(entry: type[Guarantee]) -> Judge:
    """The oracle of a model: ``oracle(model, classes)``, which is next to it.

    Raises
    ------
    LookupError
        There is none.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> oracle_of(KAnonymity)(KAnonymity(k=2), Classes([[0, 2], [1]], 0, {}, {}))
    Expected(outcome='fail', observed=1, failing_classes=1, failing_records=1, tolerance=1e-09)
    """
    found: Judge | None = beside(entry, "oracle")
    if found is None:
        raise LookupError(
            f"no oracle for {entry.name()}: give {entry.__name__} a static method `oracle(model, classes)`, or the "
            f"module {entry.__module__}_oracle that function"
        )
    return found


@functools.cache
def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # the module above is none of a package, or the one that runs
        return False


def oracle(model: Guarantee, table: HostileTable, mark: str = "*", persons: Sequence[Any] | None = None) -> Expected:
    """The verdict that `model` must give over `table`, or the error it must raise; `persons`: the person of each row.

    Raises
    ------
    PrivpipeError
        The error that the model or the table calls for.
    LookupError
        For a model that has no oracle next to it.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> from privpipe.testing import HOSTILE_TABLES
    >>> oracle(KAnonymity(k=2), HOSTILE_TABLES["unused_categories"])
    Expected(outcome='fail', observed=1, failing_classes=1, failing_records=1, tolerance=1e-09)
    """
    if table.refused is not None:
        raise table.refused(f"hostile table {table.name}")
    judge = oracle_of(type(model))
    classes = count_classes(model, table, mark, persons)
    expected = judge(model, classes)
    return Expected("fail", None) if not classes.members else expected


def count_classes(model: Guarantee, table: HostileTable, mark: str, persons: Sequence[Any] | None = None) -> Classes:
    """Group the rows by the model's quasi-identifiers.

    Parameters
    ----------
    persons : sequence, optional
        The person of each row: then persons are counted, and the base is that of the rows judged.
    """
    keys = table.roles.quasi_identifiers if model.quasi_identifiers is None else model.quasi_identifiers
    of_rows = persons is None and model.base_distribution() == "released"
    key = (id(table), tuple(keys), of_rows, mark, None if persons is None else tuple(persons))
    if key not in _grouped:
        while len(_grouped) >= MOST_GROUPED:
            _grouped.pop(next(iter(_grouped)))
        _grouped[key] = table, _classes(tuple(keys), of_rows, table, mark, persons)
    return _grouped[key][1]


MOST_GROUPED = 64
_grouped: dict[Any, tuple[HostileTable, Classes]] = {}
"""The last tables that were grouped, each with the table itself, so that its `id` is not given to another one."""


def _classes(
    keys: tuple[str, ...], of_rows: bool, table: HostileTable, mark: str, persons: Sequence[Any] | None
) -> Classes:
    values = {name: [plain_cell(value) for value in cells] for name, cells in table.rows.items()}
    groups: dict[tuple[Any, ...], list[int]] = {}
    left = unsuppressed_rows(table, mark)
    for row in left:
        groups.setdefault(tuple(values[name][row] for name in keys), []).append(row)
    if persons is None:
        original = {} if of_rows else table.base
        rows = {name: original.get(name, [values[name][row] for row in left]) for name in values}
        base = {name: Counter(map(plain_cell, cells)) for name, cells in rows.items()}
    else:
        pairs = {name: {(cells[row], persons[row]) for row in left} for name, cells in values.items()}
        base = {name: Counter(value for value, _ in held) for name, held in pairs.items()}
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
        len(table) if persons is None else len(set(persons)),
        sensitive,
        keys,
        population=tuple(inhabitants[key] for key in groups),
        foreign=tuple(count for key, count in inhabitants.items() if key not in groups),
        persons=persons,
        base_members=None if persons is None else len({persons[row] for row in left}),
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


def expected_error(model: Guarantee, table: HostileTable) -> type[PrivpipeError] | None:
    """The error that the oracle calls for, or None where it gives a verdict."""
    try:
        oracle(model, table)
    except PrivpipeError as error:
        return type(error)
    return None

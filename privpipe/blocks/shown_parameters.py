"""Parameters of an entry in a few characters, for pages that many may see: column names, words of ours and numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from privpipe.blocks.marks import ColumnName, ColumnNames
from privpipe.blocks.parameters import flat_names, parameters_of
from privpipe.html_tables import cut, figure, short_list

__all__ = ["shown_parameters"]

LONGEST = 40
FEW = 5
OF_GUARANTEES = ("quasi_identifiers",)
"""What every guarantee has of columns, without a mark."""


def shown_parameters(kind: Any, given: Mapping[str, Any], columns: Collection[str] = ()) -> str:
    """The parameters that somebody chose; of texts and tables that may hold values of the data, that they are there.

    Parameters
    ----------
    kind : type of Entry, or None
        None: not known here, and then only numbers show.
    given : mapping
        Plain values by the name of the parameter.
    columns : collection of str
        More parameters that name columns of the table.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> shown_parameters(KAnonymity, {"k": 5, "quasi_identifiers": ["age", "zip"]})
    'k: 5, quasi_identifiers: age, zip'
    >>> shown_parameters(None, {"k": 5, "word": "Paris"})
    'k: 5, word: a text'
    """
    fields = dataclasses.fields(kind) if kind is not None else ()
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    known = parameters_of(kind) if kind is not None else {}
    shown = []
    for name, value in given.items():
        if value is None or (name in defaults and _same(value, defaults[name])):
            continue
        parameter = known.get(name)
        marks, words = ((), ()) if parameter is None else (parameter.marks, parameter.shape.choices)
        named = name in (*OF_GUARANTEES, *columns) or any(isinstance(mark, ColumnName | ColumnNames) for mark in marks)
        shown.append(f"{cut(name, LONGEST)}: {_shown(value, named, words)}")
    return ", ".join(shown)


def _shown(value: Any, columns: bool, words: tuple[Any, ...]) -> str:
    if value is None or isinstance(value, bool | int | float):
        return figure(value)
    if isinstance(value, str):
        return cut(value, LONGEST) if columns or value in words else "a text"
    if isinstance(value, list):
        return _list(value, columns)
    if not isinstance(value, Mapping):
        return "given"
    if columns:
        return short_list([f"{name} {_shown(item, False, words)}" for name, item in value.items()], FEW, LONGEST)
    return f"{len(value):,} {'entry' if len(value) == 1 else 'entries'}"


def _list(value: list[Any], columns: bool) -> str:
    if columns:
        return short_list(list(map(str, flat_names(value))))
    if len(value) <= FEW and all(isinstance(item, bool | int | float) for item in value):
        return figure(value)
    return f"{len(value):,} {'value' if len(value) == 1 else 'values'}"


def _same(value: Any, default: Any) -> bool:
    default = list(default) if isinstance(default, tuple) else default
    return bool(value == default) and isinstance(value, bool) is isinstance(default, bool)

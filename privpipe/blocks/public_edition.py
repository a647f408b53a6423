"""What public documents show: the rules of the public edition, and parameters without paths or in a few characters."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from privpipe.blocks.marks import ColumnName, ColumnNames, FilePath
from privpipe.blocks.parameters import flat_names, marked, parameters_of
from privpipe.errors import UsageError
from privpipe.hierarchies.interval_levels import LEAST_REPORTED
from privpipe.html_tables import cut, figure, short_list

__all__ = ["LEAST_REPORTED", "PublicRules", "last_name", "public_parameters", "shown_parameters"]


@dataclass(frozen=True, kw_only=True)
class PublicRules:
    """Who reads the public edition knows the policy and the released cells, and may learn nothing else.

    Parameters
    ----------
    columns : frozenset of str
        The released columns.
    person : str, optional
        Column by which persons are distinguished, where they are counted.
    household : str, optional
        The same of households.
    least : int
        Counts below it, and shares of fewer records, are withheld.
    counts : bool
        Whether the numbers of input and suppressed records may be public; a model of the process forbids them.
    """

    columns: frozenset[str]
    person: str | None = None
    household: str | None = None
    least: int = LEAST_REPORTED
    counts: bool = True

    def __post_init__(self) -> None:
        if self.least < 1:
            raise UsageError(f"the least number of records that is reported must be at least 1, got {self.least}")

    def unit(self, over: str | None) -> str | None:
        """The column that distinguishes the counted units; None: records are counted."""
        return {None: self.person, "persons": self.person, "households": self.household}.get(over)

    def reported(self, figure: Any, records: int, *, shares: bool = True) -> Any:
        """A figure of a table of so many records; None replaces what rests on fewer than `least` of them.

        Whole numbers count records or classes; numbers between 0 and 1 are shares of records where `shares` says so.

        Examples
        --------
        >>> PublicRules(columns=frozenset()).reported({"records": 3, "share": 0.01, "highest": 0.2}, 100)
        {'records': None, 'share': None, 'highest': 0.2}
        """
        if isinstance(figure, dict):
            return {name: self.reported(each, records, shares=shares) for name, each in figure.items()}
        if isinstance(figure, list):
            return [self.reported(each, records, shares=shares) for each in figure]
        if isinstance(figure, bool) or not isinstance(figure, int | float):
            return figure
        if isinstance(figure, int):
            return None if 0 < figure < self.least else figure
        return None if shares and 0 < figure < 1 and figure * records < self.least - 1e-9 else figure


FILE_KEYS = ("file", "from_file")
"""Keys of nested parameters whose value is a path in every policy."""


def public_parameters(kind: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The plain parameters of an entry of that class; None: of a class that is not known here.

    Examples
    --------
    >>> public_parameters(None, {"domain": "people", "key": {"from_file": "/home/anna/release/pseudonyms.key"}})
    {'domain': 'people', 'key': {'from_file': 'pseudonyms.key'}}
    """
    paths = () if kind is None else marked(kind, FilePath)
    words = {name: parameters_of(kind)[name].marked(FilePath).words for name in paths}
    return {
        name: _named(value, words[name]) if name in words else _without_places(name, value)
        for name, value in parameters.items()
        if name not in getattr(kind, "withheld", ())
    }


def last_name(path: str) -> str:
    """The last name of a path of any system, or of an address.

    Examples
    --------
    >>> last_name("/srv/ledger/"), last_name("D:\\\\data\\\\people.csv"), last_name("ledger")
    ('ledger', 'people.csv', 'ledger')
    """
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _named(value: Any, words: tuple[str, ...]) -> Any:
    if isinstance(value, list | tuple):
        return [_named(each, words) for each in value]
    return last_name(value) if isinstance(value, str) and value not in words else value


def _without_places(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_places(str(name), each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_places("", each) for each in value]
    return last_name(value) if key in FILE_KEYS and isinstance(value, str) else value


LONGEST = 40
FEW = 5
OF_GUARANTEES = ("quasi_identifiers",)
"""What every guarantee has of columns, without a mark."""


def shown_parameters(kind: Any, given: Mapping[str, Any], columns: Collection[str] = ()) -> str:
    """Explicit parameters; of texts and tables that may hold values of the data only that they are there.

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

"""Parameters as everybody may read them: of a path its last name, for where a file lies tells of a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from privpipe.blocks.marks import FilePath
from privpipe.blocks.parameters import marked, parameters_of

__all__ = ["last_name", "public_parameters"]

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

"""Handles on data of any engine: as a batch of Great Expectations' pandas data source, or by a name in a suite."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pandas as pd

from privpipe.border import bordered
from privpipe.engines import Source
from privpipe.engines.base.lakes import is_lake, lake_said, pinned
from privpipe.errors import DataError, PrivpipeError, UsageError

__all__ = ["COLUMN", "handle", "held", "held_under", "hold", "let_go"]

COLUMN = "__privpipe_handle__"
_numbers = itertools.count()
_held: dict[str, Any] = {}
_named: dict[str, Any] = {}


@bordered
def handle(data: Any) -> pd.DataFrame:
    """A one-row frame that stands for a Dask frame, a path, a polars frame: anything an engine scans.

    The data stays where it is and is counted by its own engine; it is held as long as the frame lives. A table of a
    table format is read at the version that it has when the handle is made.

    Parameters
    ----------
    data : path, frame or mapping
        A mapping names a Delta or Iceberg table and one of its states, ``{"path": "visits", "version": 3}`` or
        ``{"iceberg": "db.visits", "catalog": "lake", "tag": "audited"}``.

    Examples
    --------
    >>> frame = handle("published/adult")
    >>> held(frame)
    'published/adult'
    """
    if isinstance(data, Mapping):
        data = lake_said(data, "handle")
    elif isinstance(data, str | PurePath):
        data = _at_version(data)
    token = f"handle-{next(_numbers)}"
    frame = pd.DataFrame({COLUMN: [token]})
    _held[token] = data
    weakref.finalize(frame, _held.pop, token, None)
    # The batch keeps a frame of its own; the data must live as long as either.
    frame.attrs["privpipe"] = _Keeper(token, data)
    return frame


def held(frame: pd.DataFrame) -> Any:
    """The data a handle stands for; the frame itself when it is none.

    Raises
    ------
    DataError
        A handle of another process.
    """
    if list(frame.columns) != [COLUMN]:
        return frame
    token = str(frame[COLUMN].iloc[0])
    if token in _held:
        return _held[token]
    keeper = frame.attrs.get("privpipe")
    if isinstance(keeper, _Keeper):
        return keeper.data
    raise DataError("this handle was made in another process; make it again with privpipe.gx.handle(data)")


@bordered
def hold(name: str, data: Any) -> None:
    """Keep data under a name, by which expectations of this process find it: ``original_source={"handle": name}``.

    A suite saved with the name holds no record; who loads it in another process holds the data there again.

    Parameters
    ----------
    name : str
    data : path, frame or mapping
        Anything that `handle` takes; it stays where it is until `let_go`, or until other data takes the name.

    Examples
    --------
    >>> hold("census", "census.parquet")
    >>> held_under("census")
    'census.parquet'
    >>> let_go("census")
    """
    if not isinstance(name, str) or not name:
        raise UsageError("a handle needs a name")
    _named[name] = lake_said(data, "hold") if isinstance(data, Mapping) else data


@bordered
def let_go(name: str) -> None:
    """Forget what is held under a name; nothing when nothing is."""
    _named.pop(name, None)


def held_under(name: str) -> Any:
    """The data held under a name.

    Raises
    ------
    DataError
        None is, in this process.
    """
    if name not in _named:
        raise DataError(f"no data is held under {name!r} in this process; call privpipe.gx.hold({name!r}, data) first")
    return _named[name]


def _at_version(path: str | PurePath) -> Any:
    """The path, or the table of a table format that it is now."""
    try:
        source = Source(data=str(path))
        return pinned(source) if is_lake(source) else path
    except PrivpipeError:  # told where the batch is read
        return path


class _Keeper:
    """Keeps the data alive in the frame's attributes; copies of a frame share it."""

    def __init__(self, token: str, data: Any) -> None:
        self.token = token
        self.data = data

    def __deepcopy__(self, memo: dict[int, Any]) -> _Keeper:
        return self

    def __repr__(self) -> str:
        return f"_Keeper({self.token})"

"""Index levels with a name are columns: a file of the frame holds them, and so does every reader's copy."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from privpipe.errors import DataError

__all__ = ["index_names", "named_levels", "under_index", "with_index_columns"]


def with_index_columns(data: Any) -> Any:
    """A frame whose named index levels are its first columns; any other data as it is.

    An index without a name, such as the numbers of rows, is no column. The frame that goes in is not changed; one of
    Dask or of the pandas interface of Spark stays lazy.

    Raises
    ------
    DataError
        A level and a column, or two levels, have one name.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"zip": ["081", "082"]}, index=pd.Index(["a", "b"], name="ssn"))
    >>> list(with_index_columns(frame).columns)
    ['ssn', 'zip']
    >>> plain = frame.rename_axis(index=None)
    >>> with_index_columns(plain) is plain
    True
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _of_pandas(data)
    module, kind = type(data).__module__, type(data).__name__
    if kind != "DataFrame" or not module.startswith(("dask.", "dask_expr.", "pyspark.pandas.")):
        return data
    if module.startswith("pyspark.pandas."):
        levels = named_levels(data.index.names, data.columns)
        return data.reset_index(level=list(levels)) if levels else data
    if not named_levels(data._meta.index.names, data._meta.columns):
        return data
    return data.map_partitions(_of_pandas, meta=_of_pandas(data._meta)).clear_divisions()


def index_names(data: Any) -> list[Any]:
    """The names of a frame's index levels, None where a level has none; nothing where a frame has no index.

    Examples
    --------
    >>> import pandas as pd
    >>> index_names(pd.DataFrame({"zip": ["081"]}, index=pd.Index(["a"], name="ssn"))), index_names("a.csv")
    (['ssn'], [])
    """
    held = getattr(data, "_meta", data) if type(data).__module__.startswith(("dask.", "dask_expr.")) else data
    known = type(held).__module__.startswith(("pandas.", "pyspark.pandas.")) and type(held).__name__ == "DataFrame"
    return list(held.index.names) if known else []


def under_index(out: Any, names: Sequence[Any]) -> Any:
    """A frame under an index of some of its columns: the way back from `with_index_columns`.

    Examples
    --------
    >>> import pandas as pd
    >>> under_index(pd.DataFrame({"ssn": ["a"], "zip": ["081"]}), ["ssn"]).index.name
    'ssn'
    """
    left = [name for name in names if name in list(out.columns)]
    if not left:
        return out
    if not hasattr(out, "map_partitions"):
        return out.set_index(left)
    # Each partition by itself: sorted by it, rows would be shuffled.
    return out.map_partitions(lambda part: part.set_index(left), meta=out._meta.set_index(left)).clear_divisions()


def named_levels(names: Iterable[Any], columns: Iterable[Any]) -> dict[int, Any]:
    """The names of an index by their places, those without one left out.

    Raises
    ------
    DataError
        A name is that of a column too, or of another level.

    Examples
    --------
    >>> named_levels(["ssn", None, "ward"], ["zip"])
    {0: 'ssn', 2: 'ward'}
    """
    levels = {at: name for at, name in enumerate(names) if name is not None}
    taken = list(columns)
    for name in levels.values():
        if name in taken:
            raise DataError(
                f"an index level and a column (or another level) are both called {name!r}; rename the level, or take "
                "it out with reset_index(drop=True)"
            )
        taken.append(name)
    return levels


def _of_pandas(frame: Any) -> Any:
    import pandas as pd

    levels = named_levels(frame.index.names, frame.columns)
    if not levels:
        return frame
    # By their places: a name may be a number, which would be taken for the place of another level.
    found = frame.index.set_names(list(range(frame.index.nlevels))).to_frame(index=False)[list(levels)]
    found.columns = pd.Index(list(levels.values()), tupleize_cols=False)
    return pd.concat([found, frame.reset_index(drop=True)], axis=1)

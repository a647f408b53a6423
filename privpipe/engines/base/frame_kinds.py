"""Kinds of frames, lazy ones and Ibis tables among them, and columns that Arrow lacks: index levels, library types."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

from privpipe.errors import DataError, UnsupportedError, UsageError

__all__ = [
    "ibis_table_of",
    "index_names",
    "is_evaluated",
    "is_ibis_table",
    "is_lazy_frame",
    "known_as_held",
    "named_alone",
    "named_levels",
    "native_frame_of",
    "require_table",
    "typed_as_before",
    "under_index",
    "with_index_columns",
]


def is_ibis_table(data: Any) -> bool:
    """Whether this is a table expression of Ibis; imports nothing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> is_ibis_table(pa.table({"a": [1]}))
    False
    """
    kind = type(data)
    return kind.__module__.partition(".")[0] == "ibis" and any(each.__name__ == "Table" for each in kind.__mro__)


def native_frame_of(table: Any) -> Any:
    """What an Ibis table is to its backend: a DuckDB relation, a Spark DataFrame or a polars DataFrame.

    Raises
    ------
    UsageError
        It belongs to no backend, or to several.
    UnsupportedError
        The backend is another one.
    DataError
        The backend cannot compute it.
    """
    backend = _backend_of(table)
    if backend.name not in NATIVE:
        raise UnsupportedError(
            f"Ibis tables of the backend {backend.name!r} have no engine here; those of {', '.join(sorted(NATIVE))} "
            "have. Hand over table.to_pyarrow(): its rows come into memory, and a pyarrow Table comes back"
        )
    try:
        # Ibis registers in-memory tables and functions before it computes, and only then.
        table.limit(0).to_pyarrow()
        return NATIVE[backend.name](backend, table)
    except Exception as error:  # noqa: BLE001 - any message of a backend may quote a cell
        kind = type(error).__name__
        raise DataError(f"the backend {backend.name!r} cannot compute the Ibis table ({kind})") from None


def ibis_table_of(out: Any, like: Any) -> Any:
    """A frame as a table of the backend of another: Arrow for DuckDB, else of the kind that `native_frame_of` gives.

    It is there under its own name for as long as the table, or one made from it, is in use.
    """
    backend, name = _backend_of(like), f"privpipe_{uuid4().hex}"
    drop = ADDED[backend.name](backend, name, out)
    table = backend.table(name)
    # A Spark session may be gone by then, or outlive the process; a connection of this process must be let go.
    weakref.finalize(table.op(), _dropped, drop, name).atexit = backend.name != "pyspark"
    return table


def _backend_of(table: Any) -> Any:
    try:
        return table.get_backend()
    except Exception as error:  # noqa: BLE001 - Ibis is not imported, and with it its errors
        raise UsageError(f"the Ibis table is not of one backend ({type(error).__name__}: {error})") from None


def _relation(backend: Any, table: Any) -> Any:
    return backend.con.sql(backend.compile(table))


def _spark_frame(backend: Any, table: Any) -> Any:
    return backend.raw_sql(backend.compile(table))


def _polars_frame(backend: Any, table: Any) -> Any:
    return table.to_polars()


def _add_to_duckdb(backend: Any, name: str, out: Any) -> Callable[[str], object]:
    backend.con.register(name, out)
    unregister: Callable[[str], object] = backend.con.unregister
    return unregister


def _add_to_spark(backend: Any, name: str, out: Any) -> Callable[[str], object]:
    out.createTempView(name)
    drop: Callable[[str], object] = out.sparkSession.catalog.dropTempView
    return drop


def _add_to_polars(backend: Any, name: str, out: Any) -> Callable[[str], object]:
    backend.create_table(name, out)
    drop: Callable[[str], object] = backend.drop_table
    return drop


def _dropped(drop: Callable[[str], object], name: str) -> None:
    with suppress(Exception):  # the connection may be gone, and what lay there with it
        drop(name)


NATIVE = {"duckdb": _relation, "polars": _polars_frame, "pyspark": _spark_frame}
ADDED = {"duckdb": _add_to_duckdb, "polars": _add_to_polars, "pyspark": _add_to_spark}


F = TypeVar("F")

LAZY = {
    "_duckdb": "DuckDBPyRelation",
    "dask": "DataFrame",
    "dask_expr": "DataFrame",
    "duckdb": "DuckDBPyRelation",
    "ibis": "Table",
    "polars": "LazyFrame",
    "pyspark": "DataFrame",
}
_held: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def is_lazy_frame(data: Any) -> bool:
    """Whether a frame is a plan or a query, whose rows are computed each time they are asked for; imports nothing.

    Another time its sources may have changed, or its functions draw other numbers.

    Examples
    --------
    >>> import duckdb
    >>> is_lazy_frame(duckdb.sql("SELECT random()")), is_lazy_frame("a.csv")
    (True, False)
    """
    kind = type(data)
    root = kind.__module__.partition(".")[0]
    if root == "pyarrow":
        return kind.__name__.endswith("Dataset") and kind.__name__ != "InMemoryDataset"
    return kind.__name__ == LAZY.get(root)


def known_as_held(frame: F) -> F:
    """The frame, which was made of rows that are held: to be judged, it is not evaluated a second time."""
    if is_lazy_frame(frame):
        _held[id(frame)] = frame
    return frame


def is_evaluated(frame: Any) -> bool:
    """Whether every look at a frame finds the same rows.

    Examples
    --------
    >>> is_evaluated([]), is_evaluated(known_as_held([]))
    (True, True)
    """
    return not is_lazy_frame(frame) or _held.get(id(frame)) is frame


def with_index_columns(data: Any) -> Any:
    """A frame whose named index levels are its first columns; any other data unchanged.

    An index without a name, such as the numbers of rows, is not a column. The frame that goes in is not changed; one of
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
        return _reset_index(data)
    module, kind = type(data).__module__, type(data).__name__
    if kind != "DataFrame" or not module.startswith(("dask.", "dask_expr.", "pyspark.pandas.")):
        return data
    if module.startswith("pyspark.pandas."):
        levels = named_levels(data.index.names, data.columns)
        return data.reset_index(level=list(levels)) if levels else data
    if not named_levels(data._meta.index.names, data._meta.columns):
        return data
    return data.map_partitions(_reset_index, meta=_reset_index(data._meta)).clear_divisions()


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


def require_table(data: Any) -> None:
    """Refuse single columns, arrays and lists, which have no named columns; imports nothing.

    Raises
    ------
    UsageError
        With how a frame is made of it.

    Examples
    --------
    >>> require_table([1, 2])
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: a list has no named columns; make a frame of it, as in pandas.DataFrame(rows, ...)
    """
    root, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if kind == "Series" and root != "builtins":
        raise UsageError(f"a Series of {root} is one column and no table; give a frame, as in series.to_frame()")
    if root == "numpy":
        raise UsageError(
            f"a numpy.{kind} has no named columns; make a frame of it, as in pandas.DataFrame(array, columns=[...])"
        )
    if root == "pyarrow" and kind.endswith("Array"):
        raise UsageError(f"a pyarrow.{kind} is one column and no table; give pyarrow.table({{'name': array}})")
    if isinstance(data, list | tuple | set | frozenset):
        raise UsageError(f"a {kind} has no named columns; make a frame of it, as in pandas.DataFrame(rows, ...)")


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


def _reset_index(frame: Any) -> Any:
    import pandas as pd

    levels = named_levels(frame.index.names, frame.columns)
    if not levels:
        return frame
    # By their places: a name may be a number, which would be taken for the place of another level.
    found = frame.index.set_names(list(range(frame.index.nlevels))).to_frame(index=False)[list(levels)]
    found.columns = pd.Index(list(levels.values()), tupleize_cols=False)
    return pd.concat([found, frame.reset_index(drop=True)], axis=1)


def typed_as_before(out: Any, like: Any, declared: Collection[str] = ()) -> Any:
    """A pandas or polars frame with its columns in the types of another, as far as the values allow.

    A categorical column has the categories that occur, and no other: an unused one is a value of a person who
    is in the release no more. They keep their order where all of them were categories before. A column that was
    recoded to text is a category of labels where it was categorical, else of the text type in use.

    Parameters
    ----------
    out : frame
    like : frame
        Of the same library.
    declared : collection of str
        Columns with all their values, whose polars Enum keeps every category: it is declared, not of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> like = pd.DataFrame({"size": pd.Categorical(["s", "l"], categories=["s", "m", "l"], ordered=True)})
    >>> typed_as_before(pd.DataFrame({"size": ["l", "s"]}), like)["size"].dtype
    CategoricalDtype(categories=['s', 'l'], ordered=True, categories_dtype=object)
    """
    return _of_polars(out, like, declared) if type(out).__module__.startswith("polars") else _of_pandas(out, like)


def named_alone(index: Any) -> Any:
    """A pandas index without levels and categories that no row of it has."""
    import pandas as pd

    if isinstance(index, pd.MultiIndex):
        return index.remove_unused_levels()
    return index.remove_unused_categories() if isinstance(index, pd.CategoricalIndex) else index


def _of_pandas(out: Any, like: Any) -> Any:
    import pandas as pd

    texts = next((kind for kind in like.dtypes if isinstance(kind, pd.StringDtype) or _is_arrow_text(kind)), None)
    for name in [name for name in out.columns if name in like.columns]:
        out[name] = _pandas_column(out[name], like[name].dtype, texts)
    return out


def _is_arrow_text(kind: Any) -> bool:
    import pandas as pd
    import pyarrow as pa

    return isinstance(kind, pd.ArrowDtype) and bool(
        pa.types.is_string(kind.pyarrow_dtype) or pa.types.is_large_string(kind.pyarrow_dtype)
    )


def _pandas_column(column: Any, kind: Any, texts: Any) -> Any:
    import pandas as pd
    import pyarrow as pa

    if column.dtype == kind and not isinstance(kind, pd.CategoricalDtype):
        return column
    text = pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
    if isinstance(kind, pd.CategoricalDtype):
        return _pandas_categories(column, kind, text)
    if isinstance(kind, pd.ArrowDtype) and not pd.api.types.is_extension_array_dtype(column.dtype):
        column = column.convert_dtypes(dtype_backend="pyarrow") if len(column) else column
    if pd.api.types.is_object_dtype(kind):
        return column.astype(object) if text else column
    if text and not isinstance(kind, pd.StringDtype) and not _is_arrow_text(kind):
        kind = texts
    if kind is None or isinstance(kind, pd.PeriodDtype):
        return column
    try:
        cast = column.astype(kind)
        same = cast.isna().equals(column.isna()) and (text or bool((cast.dropna() == column.dropna()).all()))
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return _nullable(column, kind)
    return cast if same else _nullable(column, kind)


def _nullable(column: Any, kind: Any) -> Any:
    """Numbers that are no longer integers of a nullable type, in the nullable type of what they are."""
    import pandas as pd

    is_masked = pd.api.types.is_extension_array_dtype(kind) and hasattr(kind, "numpy_dtype")
    if is_masked and pd.api.types.is_numeric_dtype(column.dtype):
        return column.convert_dtypes(convert_integer=False, convert_string=False)
    return column


def _pandas_categories(column: Any, kind: Any, text: bool) -> Any:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
    present = column.dropna().unique()
    known = set(kind.categories)
    if all(value in known for value in present):
        found = set(present)
        kept = kind.categories[[value in found for value in kind.categories]]
        return column.astype(pd.CategoricalDtype(kept, ordered=kind.ordered))
    return column.astype("category") if text else column


def _of_polars(out: Any, like: Any, declared: Collection[str]) -> Any:
    known = [name for name in out.columns if name in like.schema]
    return out.with_columns(
        [_polars_column(out.get_column(name), like.schema[name], declared=name in declared) for name in known]
    )


def _polars_column(column: Any, kind: Any, *, declared: bool) -> Any:
    import polars as pl

    if isinstance(kind, pl.Enum):
        if column.dtype not in (pl.String, pl.Categorical) and not isinstance(column.dtype, pl.Enum):
            return column
        texts = column.cast(pl.String)
        if declared:
            return texts.cast(kind)
        found = set(texts.drop_nulls().unique().to_list())
        known = [word for word in kind.categories.to_list() if word in found]
        return texts.cast(pl.Enum(known if len(known) == len(found) else sorted(found)))
    if column.dtype == kind:
        return column
    if isinstance(kind, pl.Categorical):
        return column.cast(kind) if column.dtype == pl.String else column
    try:
        cast = column.cast(kind, strict=True)
        return cast if cast.cast(column.dtype).equals(column, null_equal=True) else column
    except pl.exceptions.PolarsError:
        return column

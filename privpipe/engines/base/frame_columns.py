"""Columns of a frame that Arrow does not have: named index levels, and types of the library."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from privpipe.errors import DataError, UsageError

__all__ = [
    "index_names",
    "named_alone",
    "named_levels",
    "require_table",
    "typed_as_before",
    "under_index",
    "with_index_columns",
]


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

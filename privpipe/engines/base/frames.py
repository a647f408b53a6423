"""Local frames in and out: pandas, polars, pyarrow, DuckDB relations, Arrow streams; lazy ones evaluated once."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from privpipe.blocks.table_name import TableName, refuse_table
from privpipe.border import reading
from privpipe.engines.base.frame_kinds import (
    ibis_table_of,
    is_evaluated,
    is_ibis_table,
    known_as_held,
    named_alone,
    native_frame_of,
    require_table,
    typed_as_before,
    with_index_columns,
)
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm, as_before, fresh_labels, in_types
from privpipe.engines.lakes import lake_said
from privpipe.errors import DataError, EngineError, UsageError
from privpipe.private_files import scratch_folder

__all__ = [
    "Held",
    "arrow_of",
    "as_handed",
    "at_hand",
    "frame_like",
    "is_connection",
    "is_local_frame",
    "is_pandas_on_spark",
    "is_unordered",
    "made_like",
    "spooled",
    "taken_from",
]


_DUCKDB_ONLY = ("uuid", "hugeint", "uhugeint", "bit", "time with time zone")
# What pandas calls object columns that hold one type.
_KINDS_OF_ONE_TYPE = frozenset(
    [
        *("string", "bytes", "integer", "floating", "mixed-integer-float", "decimal", "boolean"),
        *("date", "time", "datetime", "datetime64", "timedelta", "timedelta64", "empty"),
    ]
)


def _root(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def is_local_frame(data: Any) -> bool:
    """Whether a frame is in this process and can be read as Arrow; imports nothing.

    Examples
    --------
    >>> is_local_frame(pa.table({"a": [1]})), is_local_frame("a.csv")
    (True, False)
    """
    return hasattr(data, "__arrow_c_stream__") or _is_dataset(data)


def _is_dataset(data: Any) -> bool:
    return _root(data) == "pyarrow" and type(data).__name__.endswith("Dataset")


def _is_relation(data: Any) -> bool:
    return _root(data) in {"duckdb", "_duckdb"} and type(data).__name__ == "DuckDBPyRelation"


@reading("the frame")
def at_hand(data: Any, place: str, *, index: bool = True) -> Any:
    """The frame in a form that can be read again: a one-time reader is read, an unevaluated one is evaluated.

    A frame of another library's interface is what is below it: `as_handed` is the way back. A mapping names a table
    of a table format, as `lake_said` has it. Named index levels become columns, so that whatever judges or releases
    the frame sees them.

    Parameters
    ----------
    place : str
        Where it was handed over, for the warning that a polars LazyFrame is collected.
    index : bool
        False: an index stays one, for stages that give back each row with its index.

    Raises
    ------
    UsageError, UnsupportedError, DataError
        An array, a list or a single column; an Ibis table that no engine serves, or that cannot be computed; a mapping
        that names no table; an index level with the name of a column.
    """
    require_table(data)
    if index:
        given, data = data, with_index_columns(data)
        data = known_as_held(data) if is_evaluated(given) else data
    if is_ibis_table(data):
        return native_frame_of(data)
    if isinstance(data, Mapping):
        return lake_said(data, place)
    _require_session(data)
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if type(data).__name__ == "LazyFrame" and _root(data) == "polars":
        warnings.warn(f"{place}: the polars LazyFrame is collected, and a DataFrame comes back", stacklevel=2)
        return data.collect()
    return _of_spark(data) if is_pandas_on_spark(data) else data


def _require_session(data: Any) -> None:
    """Refuse a frame of a Spark session that was stopped; imports nothing."""
    session = getattr(data, "sparkSession", None) if _root(data) == "pyspark" else None
    context = getattr(session, "_sc", None)
    stopped = context._jsc is None if context is not None else bool(getattr(session, "is_stopped", False))
    if stopped:
        raise UsageError("the Spark session of the frame was stopped; make the frame again in one that runs")


def _of_spark(data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that the index is lost, as it should be
        return data.to_spark()


def is_pandas_on_spark(data: Any) -> bool:
    """Whether this is a frame of the pandas interface of Spark; imports nothing."""
    return type(data).__module__.startswith("pyspark.pandas.") and type(data).__name__ == "DataFrame"


def is_connection(data: Any) -> bool:
    """Whether this is a DuckDB connection; imports nothing.

    Examples
    --------
    >>> import duckdb
    >>> is_connection(duckdb.connect()), is_connection("embedded")
    (True, False)
    """
    return _root(data) in {"duckdb", "_duckdb"} and type(data).__name__ == "DuckDBPyConnection"


def as_handed(out: Any, data: Any, labels: int = -1) -> Any:
    """The result for a frame from `at_hand`, in the kind of frame that was handed over.

    Parameters
    ----------
    labels : int
        Where the index of a frame of the pandas interface of Spark begins: one that is aligned with no other.
    """
    if is_ibis_table(data):
        return ibis_table_of(out, data)
    return _on_spark(out, labels) if is_pandas_on_spark(data) else out


def _on_spark(out: Any, labels: int) -> Any:
    name = "__privpipe_index"
    label = f"CAST({labels} AS BIGINT) - monotonically_increasing_id() AS {name}"
    found = out.selectExpr("*", label).pandas_api(index_col=name)
    found.index.name = None
    return found


def made_like(frame: Any, handed: Any) -> Any:
    """The frame whose kind a result takes before `as_handed`; None for Arrow.

    Connections of Ibis look at no Python frames, so no relation of theirs can be made of a result.
    """
    return None if is_ibis_table(handed) and _is_relation(frame) else frame


def is_unordered(data: Any) -> bool:
    """Whether the rows of a local frame have no order, as those of a query."""
    return _is_relation(data)


@reading("the frame")
def arrow_of(data: Any) -> pa.Table | pa.RecordBatchReader | Any:
    """A local frame as Arrow, copying as little as its library allows; a pandas index is left behind (see `at_hand`).

    Returns
    -------
    pyarrow.Table, or a reader or dataset for what need not fit into memory. A reader can be read once.

    Raises
    ------
    DataError
        A pandas object column that mixes types (column name), duplicate names, a query of DuckDB that fails.
    UsageError
        Not a frame that speaks Arrow; a lazy one; the name of a table, which only a catalogue can resolve.
    """
    if isinstance(data, TableName):
        raise refuse_table(data, "chosen")
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if is_ibis_table(data):
        return arrow_of(native_frame_of(data))
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _root(data) == "pandas":
        return _arrow_of_pandas(data)
    if _is_dataset(data):
        return data
    if _is_relation(data):
        return _reader_of_relation(data)
    if type(data).__name__ == "LazyFrame":
        raise UsageError("a lazy frame holds no data yet; collect() it first")
    if _root(data) == "polars":
        return data.to_arrow()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    raise UsageError(
        f"cannot read a {type(data).__module__}.{type(data).__name__}; give a path or a pandas, polars, pyarrow, "
        "DuckDB, Dask or Spark frame"
    )


def _reader_of_relation(relation: Any) -> pa.RecordBatchReader:
    with _query_of_caller():
        read = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_arrow_reader
        reader = read(131072)
    return pa.RecordBatchReader.from_batches(reader.schema, _batches(reader))


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        with _query_of_caller():
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _query_of_caller() -> Iterator[None]:
    """Errors of a caller's query without their texts, which quote cells; pyarrow passes them on as its own."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        kind = type(error).__name__ if isinstance(error, duckdb.Error) else str(error).partition(":")[0]
        raise DataError(f"DuckDB cannot compute the relation ({kind})") from None


def _arrow_of_pandas(frame: Any) -> pa.Table:
    import pandas as pd

    from privpipe.engines.base.logical_types import check_names

    names = list(frame.columns)
    check_names(names)
    arrays = []
    for at, name in enumerate(names):
        column = _without_intervals(frame.iloc[:, at])
        if (begins := _begins_of_periods(column)) is not None:
            arrays.append(begins)
            continue
        lists = None
        held = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
        found = pd.api.types.infer_dtype(held, skipna=True) if held.dtype == object else ""
        if found in _MOMENTS:
            _require_one_kind_of_moments(name, held)
        strange = column.dtype == object and found not in _KINDS_OF_ONE_TYPE
        if strange and not _is_of_mappings(column) and (lists := _lists_of(column)) is None:
            raise DataError(
                f"column {name!r} mixes types ({found}); make it one type, as in frame[{name!r}].astype('string')"
            )
        try:
            arrays.append(pa.array(column, from_pandas=True) if lists is None else pa.array(map(_listed, lists)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # The text of the library's error quotes cells.
            raise DataError(f"column {name!r} ({column.dtype}) holds values of no one Arrow type") from None
    return pa.table(arrays, names=names)


_MOMENTS = ("date", "datetime", "datetime64")


def _require_one_kind_of_moments(name: str, held: Any) -> None:
    """Refuse objects that are dates and moments which Arrow would make equal.

    pyarrow takes the type of the first value: it cuts a time of day after a date, takes moments without a time zone
    for UTC next to those with one, and nanoseconds of Timestamps away.

    Raises
    ------
    DataError
    """
    from privpipe.engines.base.logical_types import inexact_error

    values = held[held.notna()]
    kinds = {"dates" if not isinstance(each, datetime) else _zone_kind(each) for each in values}
    if len(kinds) > 1:
        raise DataError(
            f"column {name!r} mixes types ({', '.join(sorted(kinds))}); make it one type, as in "
            f"pandas.to_datetime(frame[{name!r}])"
        )
    if any(getattr(each, "nanosecond", 0) for each in values):
        raise inexact_error(name, pa.timestamp("ns"))


def _zone_kind(moment: datetime) -> str:
    return "moments without a time zone" if moment.tzinfo is None else "moments with a time zone"


def _without_intervals(column: Any) -> Any:
    """A column of intervals, or of such categories, as ordered categories of their texts; any other as is."""
    import pandas as pd

    if isinstance(column.dtype, pd.IntervalDtype):
        column = pd.Series(pd.Categorical(column, ordered=True), index=column.index)
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) and isinstance(kind.categories.dtype, pd.IntervalDtype):
        return column.cat.rename_categories(kind.categories.astype(str))
    return column


def _begins_of_periods(column: Any) -> pa.Array | None:
    """When each period begins, as a year, a day, or the moment where it is shorter than a day; None for no periods."""
    import pandas as pd

    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) and isinstance(kind.categories.dtype, pd.PeriodDtype):
        column, kind = column.astype(kind.categories.dtype), kind.categories.dtype
    if not isinstance(kind, pd.PeriodDtype):
        return None
    unit = kind.freq.rule_code.partition("-")[0]
    if unit in ("Y", "A", "YE"):
        return pa.array(column.dt.year, pa.int64(), mask=column.isna().to_numpy(), from_pandas=True)
    begins = pa.array(column.dt.to_timestamp(how="start"), from_pandas=True)
    return begins.cast(pa.date32()) if unit in ("Q", "QE", "M", "ME", "W", "B", "D") else begins


def _is_of_mappings(column: Any) -> bool:
    """Whether the values of an object column are mappings, which become structs."""
    return all(isinstance(value, dict) for value in column.dropna())


def _lists_of(column: Any) -> list[Any] | None:
    """Values of an object column of lists, tuples, sets or one-dimensional arrays, None where missing; else None."""
    held = column.where(column.notna(), None).tolist()
    return held if all(value is None or _is_list(value) for value in held) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) or getattr(value, "ndim", None) == 1


def _listed(value: Any) -> list[Any] | None:
    """A value as a list; a set in the order of its items, which no hash decides."""
    if value is None:
        return None
    return sorted(value) if isinstance(value, set | frozenset) else list(value)


def frame_like(table: pa.Table, like: Any, form: ReturnForm = AS_THEY_ARE) -> Any:
    """An Arrow table as a frame of the kind of `like`; the table itself for None and unknown kinds.

    pandas: integers with missing values become the nullable ``Int64``, text is ``str`` with None. Columns that
    `like` has come in its types, see `typed_as_before`. The index is one that is aligned with no other.

    Examples
    --------
    >>> frame_like(pa.table({"a": [1, None]}), None).num_rows
    2
    """
    table = in_types(table, form.types)
    if like is None or isinstance(like, pa.Table):
        return table
    if _root(like) == "pandas":
        out = typed_as_before(_pandas_of(table, like), like)
        out.attrs.update(like.attrs)
        return out if form is AS_THEY_ARE else out.set_axis(fresh_labels(len(out), form.labels), axis=0)
    if _root(like) == "polars":
        import polars

        return typed_as_before(polars.from_arrow(table), like, form.untouched if form.whole else ())
    if isinstance(like, pa.RecordBatch):
        return table.combine_chunks().to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema)
    if isinstance(like, pa.RecordBatchReader):
        return table.to_reader()
    if _is_dataset(like):
        import pyarrow.dataset

        return pyarrow.dataset.dataset(table)
    return _relation_of(table, like, form) if _is_relation(like) else table


def _relation_of(table: pa.Table, like: Any, form: ReturnForm) -> Any:
    """A table as a relation of another relation's connection; nothing is left in its catalogue."""
    import duckdb

    privpipe_rows = table  # found by its name, where the connection looks at Python's
    try:
        return like.query("privpipe_input", f"SELECT {_in_types_of(table, like, form)} FROM privpipe_rows")
    except duckdb.CatalogException:
        del privpipe_rows
        raise UsageError(
            "the connection of the DuckDB relation looks at no Python frames, so no relation of it can be made of the "
            "result: SET python_enable_replacements = true, or hand over relation.to_arrow_table()"
        ) from None


def _in_types_of(table: pa.Table, like: Any, form: ReturnForm) -> str:
    """The columns of a table, those that no stage changed in DuckDB's own types where Arrow lacks them."""
    known = dict(zip(like.columns, like.types, strict=True))
    columns = []
    for name in table.column_names:
        quoted = '"' + name.replace('"', '""') + '"'
        kind = known.get(name) if name in form.untouched else None
        if kind is not None and kind.id == "enum":
            found = set(table.column(name).unique().to_pylist())
            declared = dict(kind.children)["values"]
            words = [word.replace("'", "''") for word in declared if form.whole or word in found]
            listed = ", ".join(f"'{word}'" for word in words)
            columns.append(f"{quoted}::ENUM({listed}) AS {quoted}" if words else quoted)
        elif kind is not None and kind.id in _DUCKDB_ONLY:
            columns.append(f"{quoted}::{kind} AS {quoted}")
        else:
            columns.append(quoted)
    return ", ".join(columns)


def _pandas_of(table: pa.Table, like: Any) -> Any:
    import pandas as pd

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    known = dict(zip(like.columns, like.dtypes, strict=True))

    def column_of(name: str, column: pa.ChunkedArray) -> Any:
        own = getattr(known.get(name), "pyarrow_dtype", None)
        if own is not None and own == column.type:
            return column.to_pandas(types_mapper=pd.ArrowDtype)
        return column.to_pandas(types_mapper=nullable.get) if column.null_count else column.to_pandas()

    found = zip(table.column_names, table.columns, strict=True)
    return pd.DataFrame({name: column_of(name, column) for name, column in found}, columns=table.column_names)


def taken_from(like: Any, before: pa.Table, rows: pa.Table, places: Any) -> Any:
    """Rows that came from a frame, as a frame of its kind; unchanged columns are as they were there.

    Parameters
    ----------
    like : frame
        What they came from, `before` as Arrow.
    rows : pyarrow.Table
        What became of those at `places`, in that order.
    places : ndarray of int64, optional
        A pandas index is taken along. None: all of them.
    """
    whole = places is None
    rows, same = as_before(rows, before if whole else before.take(pa.array(places)), whole=whole)
    out = frame_like(rows, like)
    if _root(like) == "polars":
        # Gathered texts would share the memory of all texts, also of those that are gone.
        own = [name for name in same if like.schema[name].is_numeric() or like.schema[name].is_temporal()]
        out = out.with_columns(
            [like.get_column(name) if whole else like.get_column(name).gather(places) for name in own]
        )
        return typed_as_before(out, like, same if whole else ())
    if _root(like) != "pandas":
        return out
    out.index = named_alone(like.index if whole else like.index.take(places))
    for name in same:
        out[name] = like[name].copy() if whole else like[name].iloc[places]
    out.attrs.update(like.attrs)
    return typed_as_before(out, like)


def _nothing() -> None:
    """Held rows live as long as the frame."""


@dataclass(frozen=True)
class Held:
    """A frame, or a table of an engine, whose rows are evaluated and do not change.

    Parameters
    ----------
    rows : frame or Table
        Of the kind of what was evaluated.
    release : callable
        Lets go of the rows, which cannot be read afterwards.
    """

    rows: Any = field(repr=False)
    release: Callable[[], None] = field(default=_nothing, repr=False)

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Releases rows that are not handed over because the body raises."""
        try:
            yield
        except BaseException:  # also an interrupt: rows would stay in memory
            self.release()
            raise


def spooled(frame: Any) -> pa.Table:
    """The rows of a query or a dataset, read once and kept on disk, from where the needed ones are loaded.

    The file has no name any more when this returns, and is gone with the table.

    Raises
    ------
    DataError
        A file of the dataset is not readable, or the query fails.
    EngineError
        The disk has no room for them.
    """
    found = arrow_of(frame)
    batches = found if isinstance(found, pa.RecordBatchReader) else found.to_batches()
    try:
        with scratch_folder("held") as folder:
            path = str(folder / "rows.arrow")
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, found.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            return pa.ipc.open_stream(pa.memory_map(path)).read_all()
    except (OSError, pa.ArrowException) as error:  # the text of either may quote cells
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else type(error).__name__
        kind = EngineError if number == errno.ENOSPC else DataError
        problem = kind(f"the rows of the {type(frame).__name__} cannot be read and held ({reason})")
    raise problem

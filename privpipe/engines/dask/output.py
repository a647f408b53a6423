"""Output of the Dask engine: part files in keyed order, frames collected, and Dask DataFrames left in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.base.contract import NO_TYPES, Written
from privpipe.engines.base.frames import Held, frame_like
from privpipe.engines.base.logical_types import is_carried
from privpipe.engines.base.part_files import files_of, write_part
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm, fresh_labels, in_types
from privpipe.engines.dask.dask_table import DaskTable
from privpipe.engines.dask.exchange import Pieces, Sent, meet, sorted_parts
from privpipe.engines.dask.graph import Node, foreign_nodes, graph_of
from privpipe.engines.dask.row_functions import CutById
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.sources import is_dask_frame, require_held
from privpipe.engines.distributed.collection import of_columns
from privpipe.engines.distributed.orders import keyed_order
from privpipe.engines.readers.source import Format
from privpipe.errors import EngineError, UnsupportedError
from privpipe.kernels.grouping.word_groups import split_order
from privpipe.kernels.ids.record_ids import partners

__all__ = ["ToPandas", "collected", "frame_of_nodes", "held_frame", "lying", "written"]


def written(
    runtime: Runtime,
    table: DaskTable,
    folder: str,
    format: Format,
    stream: Stream,
    escape: bool,
    types: Mapping[str, pa.DataType] = NO_TYPES,
) -> Written:
    """Write the visible columns, rows and files in keyed order (without ids: in the order of all values)."""
    if format not in ("parquet", "csv", "json"):
        raise UnsupportedError(f"a release is written as parquet, csv or json, not {format}")
    # By the released records alone: by partitions, the number of files would reveal how large the source was.
    sizes = runtime.compute("count records", [runtime.task("count", len, part) for part in table.parts])
    parts = ordered(runtime, table, stream, files_of(sum(sizes), len(table.schema)))
    write = _WriteFile(folder, format, table.schema, escape, types)
    tasks = [runtime.task("write file", write, part, number=number) for number, part in enumerate(parts)]
    written = runtime.compute("write files", tasks)
    return Written(sum(each.records for each in written), tuple(name for each in written for name in each.files))


def collected(runtime: Runtime, table: DaskTable, like: Any, form: ReturnForm = AS_THEY_ARE) -> Any:
    """The visible columns as one frame, or as a Dask DataFrame.

    A Dask DataFrame made on worker processes that the engine started lives as long as the engine.
    """
    parts = ordered(runtime, table, None, len(table.parts))
    if is_dask_frame(like):
        to_pandas = ToPandas.of(table.schema, like, form)
        nodes = [runtime.task("convert to pandas", to_pandas, part, part=at) for at, part in enumerate(parts)]
        return frame_of_nodes(nodes, to_pandas.meta(table.schema))
    batches = runtime.compute("collect records", parts, of_columns("the records", table.schema.names))
    rows = pa.Table.from_batches([batch.select(table.schema.names) for batch in batches], table.schema)
    return frame_like(rows, like, form)


def ordered(runtime: Runtime, table: DaskTable, stream: Stream | None, places: int) -> list[Node]:
    """Parts in keyed order of the ids (without a stream: of the ids themselves); without ids, of all values."""
    if not table.has_record_ids:
        return sorted_parts(runtime, table.parts, places, table.schema.names)
    sent = [runtime.task("cut by order", _CutByOrder(stream, places), part) for part in table.parts]
    return meet(runtime, "sort records", sent, places, _SortByOrder(stream))


def _order(rows: RowBlock, stream: Stream | None) -> Ints:
    return rows.record_ids[:, 0] if stream is None else stream.order(rows.record_ids)


@dataclass(frozen=True, repr=False)
class _CutByOrder:
    stream: Stream | None
    places: int

    def __call__(self, batch: pa.RecordBatch) -> Sent:
        # Order words and ids are evenly spread: equal ranges need no sample.
        order, offsets = split_order(_order(RowBlock(batch), self.stream), self.places)
        return Sent(Pieces(batch.take(pa.array(order)), offsets), order)


@dataclass(frozen=True, repr=False)
class _SortByOrder:
    stream: Stream | None

    def __call__(self, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        batch = joined(pieces)
        rows = RowBlock(batch)
        return batch.take(keyed_order(_order(rows, self.stream), rows.record_ids))


@dataclass(frozen=True, repr=False)
class _WriteFile:
    folder: str
    format: Format
    schema: pa.Schema
    escape: bool
    types: Mapping[str, pa.DataType]

    def __call__(self, batch: pa.RecordBatch, number: int) -> Written:
        columns = [batch.column(field.name).cast(field.type) for field in self.schema]
        rows = pa.record_batch(columns, schema=self.schema)
        into = partial(write_part, [rows], self.schema, self.folder, self.format)
        return into(number=number, escape=self.escape, types=self.types)


def frame_of_nodes(nodes: Sequence[Any], meta: Any, divisions: Any = None) -> Any:
    """Tasks that yield pandas frames as a Dask DataFrame."""
    import dask
    import dask.dataframe as dd
    from dask.delayed import Delayed

    graph = graph_of(nodes)
    frames = [Delayed(node.key, graph) for node in nodes]
    # Else objects, such as lists, would become texts.
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_delayed(frames, meta=meta, divisions=divisions, verify_meta=False)


@dataclass(frozen=True, kw_only=True)
class ToPandas:
    """Batches as pandas frames: what no stage changed in the dtypes that it came in, the rest in Arrow's.

    Parameters
    ----------
    dtypes : mapping of column to pandas dtype
    form : ReturnForm
        Without the original.
    """

    names: tuple[str, ...]
    dtypes: Mapping[str, Any]
    form: ReturnForm

    @classmethod
    def of(cls, schema: pa.Schema, like: Any, form: ReturnForm) -> Self:
        """Of a table that is handed back as a frame like another."""
        known = like._meta.dtypes
        dtypes = {
            name: _dtype(known[name], form.whole) for name in schema.names if name in form.untouched & {*known.index}
        }
        return cls(names=tuple(schema.names), dtypes=dtypes, form=replace(form, original=None))

    def __call__(self, batch: pa.RecordBatch, part: int = 0) -> Any:
        import pandas as pd

        rows = in_types(pa.Table.from_batches([batch.select(list(self.names))]), self.form.types)
        # Types backed by Arrow: integers with nulls stay integers.
        out = rows.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
        for name, dtype in self.dtypes.items():
            if isinstance(dtype, pd.ArrowDtype):
                out[name] = out[name].astype(dtype)
            elif dtype is not None:
                out[name] = _numpy(rows.column(name), dtype)
        return out.set_axis(fresh_labels(len(out), self.form.labels, part), axis=0)

    def meta(self, schema: pa.Schema) -> Any:
        """The frame without rows."""
        from dask.dataframe.utils import clear_known_categories

        found = self(pa.RecordBatch.from_pylist([], schema))
        return found if self.form.whole else clear_known_categories(found)


def _dtype(known: Any, whole: bool) -> Any:
    """The dtype that an untouched column keeps; None: that of Arrow. A category that no record has must not show."""
    import pandas as pd

    if not isinstance(known, pd.CategoricalDtype) or whole:
        return known
    return None if known.ordered else pd.CategoricalDtype()


def _numpy(column: pa.ChunkedArray, dtype: Any) -> Any:
    import pandas as pd

    if pd.api.types.is_object_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype):
        found = pd.Series(column.to_pylist(), dtype=object)
        return found.astype(dtype)
    return column.to_pandas().astype(dtype)


def held_frame(runtime: Runtime, frame: Any) -> Held:
    """A Dask DataFrame with its rows as they are now, partition for partition; see `Runtime.hold`."""
    delayed = frame.optimize().to_delayed()
    require_held(delayed)
    nodes, release = runtime.hold("evaluate the frame", foreign_nodes(delayed))
    # The user's scheduler does not know how our values are represented in a graph.
    bare = [runtime.task("read held rows", _same, node) for node in nodes]
    return Held(frame_of_nodes(bare, frame._meta, frame.divisions if frame.known_divisions else None), release)


def _same(rows: Any) -> Any:
    return rows


def lying(
    runtime: Runtime,
    table: DaskTable,
    like: Any,
    keeps_places: bool,
    form: ReturnForm = AS_THEY_ARE,
    places: int = 1,
) -> Any:
    """The visible columns, partition for partition; nothing runs.

    Parameters
    ----------
    keeps_places : bool
        Each record is where it lay in `like`: its index and divisions hold. Else records find their index by the
        ids of `form.original`, and the divisions are unknown; without it the index is one that is aligned with no
        other.
    places : int
        Where records and their index meet.
    """
    if not is_dask_frame(like):
        return collected(runtime, table, like, form)
    as_pandas = ToPandas.of(table.schema, like, form)
    meta = as_pandas.meta(table.schema)
    same = [name for name in meta.columns if name in form.untouched]
    exact = [name for name in same if name in form.types and is_carried(form.types[name])]
    exact += [name for name in same if _has_two_blanks(like._meta[name].dtype)]
    if keeps_places and len(table.parts) == like.npartitions:
        meta.index = like._meta.index
        own = foreign_nodes(like[exact].to_delayed())
        parts = zip(table.parts, own, strict=True)
        nodes = [runtime.task("keep the index", _indexed, part, index, as_pandas=as_pandas) for part, index in parts]
        return frame_of_nodes(nodes, meta, like.divisions if like.known_divisions else None)
    original = form.original
    if original is None or not table.has_record_ids:
        nodes = [runtime.task("convert to pandas", as_pandas, part, part=at) for at, part in enumerate(table.parts)]
        return frame_of_nodes(nodes, meta)
    meta.index = like._meta.index
    own = foreign_nodes(like[exact].to_delayed())
    cut, cut_index = CutById(tuple(table.schema.names), places), _CutIndex(places)
    sent = [
        *(runtime.task("cut index by id", cut_index, *each) for each in zip(original.parts, own, strict=True)),
        *(runtime.task("cut by id", cut, part) for part in table.parts),
    ]
    return frame_of_nodes(meet(runtime, "find the index", sent, places, _Found(len(original.parts), as_pandas)), meta)


def _indexed(batch: pa.RecordBatch, own: Any, as_pandas: ToPandas) -> Any:
    out = as_pandas(batch).set_axis(own.index, axis=0)
    return _with_own(out, own)


def _has_two_blanks(dtype: Any) -> bool:
    """Whether a column may hold NaN and missing values, which are one to every count."""
    import pandas as pd

    return bool(pd.api.types.is_extension_array_dtype(dtype) and pd.api.types.is_float_dtype(dtype))


def _with_own(out: Any, own: Any) -> Any:
    """Rows with cells of their originals, which are in the same order."""
    for name in own.columns:
        out[name] = own[name].array
    return out


@dataclass(frozen=True)
class _CutIndex:
    """The index of a partition with the ids of its records, cut as `CutById` cuts rows."""

    places: int

    def __call__(self, batch: pa.RecordBatch, own: Any) -> Sent:
        order, offsets = split_order(batch.column(ID_COLUMNS[0]).to_numpy(), self.places)
        ids = {name: batch.column(name).to_numpy() for name in ID_COLUMNS}
        return Sent(Pieces(own.assign(**ids).iloc[order], offsets), order)


@dataclass(frozen=True)
class _Found:
    """The rows that came to one place, under the index of their originals."""

    originals: int
    as_pandas: ToPandas

    def __call__(self, pieces: Sequence[Any]) -> Any:
        import pandas as pd

        index = pd.concat(pieces[: self.originals])
        rows = RowBlock(joined(pieces[self.originals :]))
        before, after = partners(index[list(ID_COLUMNS)].to_numpy(), rows.record_ids)
        if len(after) != len(rows):
            raise EngineError("dask engine: records of the result are none of the frame")
        out = self.as_pandas(rows.take(after).to_batch())
        own = index.iloc[before].drop(columns=list(ID_COLUMNS))
        return _with_own(out.set_axis(own.index, axis=0), own)

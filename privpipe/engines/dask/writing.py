"""Tables out: part files in keyed order, each written where its range is sorted; frames brought back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.base.contract import Written
from privpipe.engines.base.frames import frame_like
from privpipe.engines.base.part_files import files_of, write_part
from privpipe.engines.base.source import Format
from privpipe.engines.dask.exchange import Pieces, Sent, meet
from privpipe.engines.dask.frame_parts import is_dask_frame
from privpipe.engines.dask.graph import Node, graph_of
from privpipe.engines.dask.ranges import sorted_parts
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.errors import UnsupportedError
from privpipe.kernels.grouping.word_groups import split_order

__all__ = ["ToPandas", "collected", "written"]

Ints = NDArray[np.int64]


def written(runtime: Runtime, table: DaskTable, folder: str, format: Format, stream: Stream, escape: bool) -> Written:
    """Write the visible columns, rows and files in keyed order (without ids: in the order of all values)."""
    if format not in ("parquet", "csv", "json"):
        raise UnsupportedError(f"a release is written as parquet, csv or json, not {format}")
    # By the released records alone: by partitions, the number of files would tell how large the source was.
    sizes = runtime.compute("count records", [runtime.task("count", len, part) for part in table.parts])
    parts = ordered(runtime, table, stream, files_of(sum(sizes), len(table.schema)))
    write = _WriteFile(folder, format, table.schema, escape)
    tasks = [runtime.task("write file", write, part, number=number) for number, part in enumerate(parts)]
    written = runtime.compute("write files", tasks)
    return Written(sum(each.records for each in written), tuple(name for each in written for name in each.files))


def collected(runtime: Runtime, table: DaskTable, like: Any) -> Any:
    """The visible columns as one frame, or as a Dask DataFrame.

    A Dask DataFrame made on worker processes that the engine started lives as long as the engine.
    """
    parts = ordered(runtime, table, None, len(table.parts))
    if is_dask_frame(like):
        return _dask_frame(runtime, parts, table.schema)
    batches = runtime.compute("collect records", parts)
    rows = pa.Table.from_batches([batch.select(table.schema.names) for batch in batches], table.schema)
    return frame_like(rows, like)


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
        ids = rows.record_ids
        order = np.lexsort((ids[:, 1], ids[:, 0], _order(rows, self.stream)))
        return batch.take(pa.array(order))


@dataclass(frozen=True, repr=False)
class _WriteFile:
    folder: str
    format: Format
    schema: pa.Schema
    escape: bool

    def __call__(self, batch: pa.RecordBatch, number: int) -> Written:
        columns = [batch.column(field.name).cast(field.type) for field in self.schema]
        rows = pa.record_batch(columns, schema=self.schema)
        return write_part([rows], self.schema, self.folder, self.format, number=number, escape=self.escape)


def _dask_frame(runtime: Runtime, parts: Sequence[Node], schema: pa.Schema) -> Any:
    import dask.dataframe as dd
    from dask.delayed import Delayed

    to_pandas = ToPandas(tuple(schema.names))
    nodes = [runtime.task("convert to pandas", to_pandas, part) for part in parts]
    graph = graph_of(nodes)
    frames = [Delayed(node.key, graph) for node in nodes]
    meta = to_pandas(pa.RecordBatch.from_pylist([], schema))
    return dd.from_delayed(frames, meta=meta, verify_meta=False)


@dataclass(frozen=True)
class ToPandas:
    names: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> Any:
        import pandas as pd

        # Types backed by Arrow: integers with nulls stay integers.
        return batch.select([name for name in self.names if name not in ID_COLUMNS]).to_pandas(
            types_mapper=pd.ArrowDtype
        )

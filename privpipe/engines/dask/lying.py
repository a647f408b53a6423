"""Tables as Dask DataFrames whose rows lie where they lay; for who keeps the rows, not for a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.engines.base.batches import joined
from privpipe.engines.base.carried_cells import is_carried
from privpipe.engines.base.held_frames import Held
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.dask.exchange import Pieces, Sent, meet
from privpipe.engines.dask.frame_parts import is_dask_frame, require_held
from privpipe.engines.dask.graph import foreign_nodes
from privpipe.engines.dask.rows import CutById
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.engines.dask.writing import ToPandas, collected, frame_of_nodes
from privpipe.errors import EngineError
from privpipe.kernels.grouping.word_groups import split_order
from privpipe.kernels.ids.partners import partners

__all__ = ["held_frame", "lying"]


def held_frame(runtime: Runtime, frame: Any) -> Held:
    """A Dask DataFrame with its rows as they are now, partition for partition; see `Runtime.hold`."""
    delayed = frame.optimize().to_delayed()
    require_held(delayed)
    nodes, release = runtime.hold("evaluate the frame", foreign_nodes(delayed))
    # The user's scheduler knows nothing of how values of ours stand in a graph.
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
        Each record lies where it lay in `like`: its index and divisions hold. Else records find their index by the
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
    """Rows with cells of their originals, which lie in the same order."""
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

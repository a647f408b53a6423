"""Tables as Dask DataFrames whose rows lie where they lay; for who keeps the rows, not for a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from privpipe.engines.base.held_frames import Held
from privpipe.engines.dask.frame_parts import is_dask_frame
from privpipe.engines.dask.graph import Node, foreign_nodes, graph_of
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.engines.dask.writing import ToPandas, collected

__all__ = ["held_frame", "lying"]


def held_frame(runtime: Runtime, frame: Any) -> Held:
    """A Dask DataFrame with its rows as they are now, partition for partition; see `Runtime.hold`."""
    frame = frame.optimize()
    nodes, release = runtime.hold("evaluate the frame", foreign_nodes(frame.to_delayed()))
    # The user's scheduler knows nothing of how values of ours stand in a graph.
    bare = [runtime.task("read held rows", _same, node) for node in nodes]
    return Held(_frame(_delayed(bare), frame._meta, frame.divisions if frame.known_divisions else None), release)


def _same(rows: Any) -> Any:
    return rows


def lying(runtime: Runtime, table: DaskTable, like: Any, keeps_places: bool) -> Any:
    """The visible columns, partition for partition; nothing runs.

    Parameters
    ----------
    keeps_places : bool
        Each record lies where it lay in `like`: its index and divisions hold. Else the index is new in each partition,
        and the divisions are unknown.
    """
    if not is_dask_frame(like):
        return collected(runtime, table, like)
    as_pandas = ToPandas(tuple(table.schema.names))
    meta = as_pandas(pa.RecordBatch.from_pylist([], table.schema))
    nodes = [runtime.task("convert to pandas", as_pandas, part) for part in table.parts]
    if not (keeps_places and len(nodes) == like.npartitions):
        return _frame(_delayed(nodes), meta)
    meta.index = like._meta.index
    return _frame(_indexed(nodes, like), meta, like.divisions if like.known_divisions else None)


def _delayed(nodes: Sequence[Node]) -> list[Any]:
    from dask.delayed import Delayed

    graph = graph_of(nodes)
    return [Delayed(node.key, graph) for node in nodes]


def _indexed(nodes: Sequence[Node], like: Any) -> list[Any]:
    import dask

    with_index = dask.delayed(_with_index, pure=False)
    return [with_index(rows, own) for rows, own in zip(_delayed(nodes), like[[]].to_delayed(), strict=True)]


def _with_index(rows: Any, own: Any) -> Any:
    return rows.set_axis(own.index, axis=0)


def _frame(parts: Sequence[Any], meta: Any, divisions: Any = None) -> Any:
    import dask.dataframe as dd

    return dd.from_delayed(parts, meta=meta, divisions=divisions, verify_meta=False)

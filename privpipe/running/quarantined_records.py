"""The records of a source that its release leaves out: found by their ids where they are, and kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.row_reductions import NothingLeft, without_suppressed
from privpipe.running.run_context import RunContext
from privpipe.running.staging import Staged
from privpipe.sinks.records import Quarantine

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["keep_left_out", "left_out_records"]


RELEASED = "__privpipe_released"
ROWS_AT_ONCE = 50_000


def keep_left_out(context: RunContext, staged: Staged, quarantine: Quarantine, run_id: str) -> tuple[str, int]:
    """Stage the records that a release leaves out; the folder where they will be, and their number."""
    table = left_out_records(context, staged)
    folder = quarantine.stage(run_id)
    written = context.engine.write(table, str(folder), "parquet", staged.run.rows("records left out"))
    quarantine.close(folder)
    if not written.records:
        quarantine.settle(None)
        return "", 0
    return str(quarantine.home / run_id), written.records


def left_out_records(context: RunContext, staged: Staged) -> Any:
    """Records of the source, as they came in, that are not in the released table or carry nothing but marks there."""
    import pyarrow as pa

    engine, original, released = context.engine, staged.original, staged.table
    nothing = NothingLeft(tuple(released.schema.names), context.policy.suppression_mark)
    released = without_suppressed(engine, released, nothing)
    schema = original.schema
    labelled = pa.schema([*schema, pa.field(RELEASED, pa.bool_())])
    rows = engine.append(
        engine.map_rows(original, _Labelled(labelled, released=False), labelled),
        engine.map_rows(released, _Labelled(labelled, released=True), labelled),
    )
    groups = 1 << (engine.count(original) // ROWS_AT_ONCE).bit_length()
    return engine.map_groups(rows, _Group(groups), _without_released, schema)


@dataclass(frozen=True)
class _Labelled:
    """Rows with a column that says whether they are of the release; of these the ids alone are kept."""

    schema: pa.Schema
    released: bool

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        said = pa.array(np.full(len(rows), self.released))
        kept = [
            pa.nulls(len(rows), field.type) if self.released else rows.column(field.name)
            for field in self.schema
            if field.name != RELEASED
        ]
        return rows.with_batch(pa.record_batch([*kept, said], schema=self.schema))


@dataclass(frozen=True)
class _Group:
    """Some number of groups by the ids, which are evenly distributed."""

    groups: int

    def __call__(self, rows: RowBlock) -> NDArray[np.int64]:
        return rows.record_ids[:, 1] & (self.groups - 1)


def _without_released(rows: RowBlock, group: int) -> RowBlock:
    import pyarrow as pa
    import pyarrow.compute as pc

    words = np.ascontiguousarray(rows.record_ids)
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])
    released = rows.column(RELEASED)
    gone = pc.and_(pc.invert(released), pc.invert(pc.is_in(ids, value_set=ids.filter(released))))
    return rows.take(np.flatnonzero(gone.to_numpy(zero_copy_only=False))).drop([RELEASED])

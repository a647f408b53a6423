"""Classes by hashes of their keys: what a worker must know to drop or to mark their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.arrays import Bools
from privpipe.blocks.row_reductions import Blanked
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.class_failures import EVERY_WAY, judged_sets

__all__ = ["KeysDropped", "with_marked", "with_unknown_marked"]


@dataclass(frozen=True)
class KeysDropped:
    """Removes the records of some classes, known by a 128-bit null-safe hash of their key."""

    keys: tuple[str, ...]
    hashes: Any = field(repr=False)

    @classmethod
    def of(cls, keys: Sequence[str], classes: Any) -> KeysDropped:
        """From a pyarrow Table of at least one class key."""
        return cls(tuple(keys), _hashes(keys, classes.combine_chunks().to_batches()[0]))

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(~self.holds(rows.batch)))

    def holds(self, rows: Any) -> Bools:
        """Which rows of an Arrow batch, or of a table of at least one row, are of these classes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        batch = rows.combine_chunks().to_batches()[0] if isinstance(rows, pa.Table) else rows
        found = pc.is_in(_hashes(self.keys, batch), value_set=self.hashes)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _hashes(keys: Sequence[str], batch: Any) -> Any:
    import pyarrow as pa

    from privpipe.kernels.ids.record_ids import content_hash

    words = np.ascontiguousarray(content_hash(batch.select(list(keys)), Seed.public("privpipe/class keys")))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])


def with_marked(engine: Primitives, table: Any, kept: Any, context: StageContext) -> Any:
    """The table with every record that is not among those kept blanked: nothing of a person is left in it.

    Classes go as a whole, so the combinations of judged quasi-identifiers that are gone determine which records are.
    Text becomes the mark, anything else a missing value, also identifiers to be released as pseudonyms; those that the
    run itself needs and that are not released keep theirs.

    Raises
    ------
    UsageError
        A judged quasi-identifier that is not text: a mark could not stand in it.
    """
    keys = judged_sets(context, serves=EVERY_WAY).columns
    if not keys:
        return kept
    every, left = engine.distinct(table, list(keys)), engine.distinct(kept, list(keys))
    gone = every.select(list(keys))
    if every.num_rows == left.num_rows:
        return table
    _require_text(gone.schema, context)
    if left.num_rows:
        stays = KeysDropped.of(keys, left.select(list(keys)))
        gone = gone.filter(~stays.holds(gone))
    blank = Blanked(table.schema, context.mark, context.unreleased)
    return engine.map_rows(table, _Marked((KeysDropped.of(keys, gone),), blank), table.schema)


def with_unknown_marked(
    engine: Primitives, table: Any, before: Any, unknown: tuple[KeysDropped, ...], context: StageContext
) -> Any:
    """A table with the records that left it for a value their hierarchy lacks, blanked as others that are suppressed.

    Parameters
    ----------
    table : Table
        Without them.
    before : Table
        As it was when their values were looked up.
    unknown : tuple of KeysDropped
        Reports them there, column by column.
    """
    blank = Blanked(table.schema, context.mark, context.unreleased)
    return engine.append(table, engine.map_rows(before, _Marked(unknown, blank, alone=True), table.schema))


@dataclass(frozen=True)
class _Marked:
    """Blanks the records of some classes; leaves the others out where they alone are asked for."""

    keys: tuple[KeysDropped, ...]
    blank: Blanked
    alone: bool = False

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = np.zeros(len(rows), dtype=np.bool_)
        for keys in self.keys:
            found |= keys.holds(rows.batch)
        if self.alone:
            return self.blank(rows.take(np.flatnonzero(found)))
        if not found.any():
            return rows
        blank, chosen = self.blank(rows), pa.array(found)
        columns = [pc.if_else(chosen, blank.column(name), rows.column(name)) for name in rows.schema.names]
        return rows.with_batch(pa.record_batch(columns, names=rows.schema.names))


def _require_text(schema: Any, context: StageContext) -> None:
    import pyarrow as pa

    other = [field.name for field in schema if not pa.types.is_string(field.type)]
    if other:
        raise UsageError(
            f"{context.place}: mark cannot be in {other[0]!r}, which is no text; give it a hierarchy, or leave mark out"
        )

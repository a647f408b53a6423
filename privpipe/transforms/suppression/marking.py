"""Suppressed records that stay, as rows of the suppression mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.suppressed import Blanked
from privpipe.errors import UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.class_failures import EVERY_WAY, judged_sets
from privpipe.transforms.suppression.class_keys import KeysDropped

__all__ = ["with_marked", "with_unknown_marked"]


def with_marked(engine: Primitives, table: Any, kept: Any, context: StageContext) -> Any:
    """The table with every record that is not among those kept blanked: nothing of a person is left in it.

    Classes go as a whole, so the combinations of judged quasi-identifiers that are gone determine which records are.
    Text becomes the mark, anything else a missing value, also identifiers to be released as pseudonyms; those that the
    run itself needs and that are not released keep theirs.

    Raises
    ------
    UsageError
        A judged quasi-identifier that is no text: a mark could not stand in it.
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
        Tells them there, column by column.
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
            f"{context.place}: mark cannot stand in {other[0]!r}, which is no text; give it a hierarchy, or leave "
            "mark out"
        )

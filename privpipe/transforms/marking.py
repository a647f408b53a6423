"""Suppressed records that stay, as rows of the suppression mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpipe.blocks import Primitives, RowBlock
from privpipe.errors import UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.class_failures import EVERY_WAY, judged_sets
from privpipe.transforms.suppression import KeysDropped

__all__ = ["with_marked"]


def with_marked(engine: Primitives, table: Any, kept: Any, context: StageContext) -> Any:
    """The table with every record that is not among those kept turned into a row of the mark.

    Classes go as a whole, so the combinations of judged quasi-identifiers that are gone tell which records are. Text
    becomes the mark, anything else a missing value, also identifiers to be released as pseudonyms; those that the run
    itself needs and that are not released keep theirs.

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
    return engine.map_rows(table, KeysMarked(KeysDropped.of(keys, gone), context), table.schema)


@dataclass(frozen=True)
class KeysMarked:
    """Turns the records of some classes into rows of the mark."""

    keys: KeysDropped
    context: StageContext

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pa.array(self.keys.holds(rows.batch))
        if not pc.any(found).as_py():
            return rows
        held = {*self.context.held_columns}.intersection(self.context.roles.identifiers)
        for name in rows.schema.names:
            if name in held and name not in self.context.released_identifiers:
                continue
            column = rows.column(name)
            # A pseudonym of the mark would be a value; a missing identifier has none.
            blank = pa.types.is_string(column.type) and name not in self.context.released_identifiers
            mark = self.context.mark if blank else None
            rows = rows.replace(name, pc.if_else(found, pa.scalar(mark, column.type), column))
        return rows


def _require_text(schema: Any, context: StageContext) -> None:
    import pyarrow as pa

    other = [field.name for field in schema if not pa.types.is_string(field.type)]
    if other:
        raise UsageError(
            f"{context.place}: mark cannot stand in {other[0]!r}, which is no text; give it a hierarchy, or leave "
            "mark out"
        )

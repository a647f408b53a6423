"""Functions of one partition: what a stage returned, values by a codebook; and whether a column is unique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import ID_COLUMNS, ClassBlock, ClassQuery, Facts, FactsRequest, Primitives, RowBlock
from privpipe.engines.base.batches import as_type
from privpipe.engines.base.class_blocks import group_key
from privpipe.engines.base.conversion import normalised
from privpipe.engines.base.logical_types import check_record_ids, require_columns
from privpipe.errors import DataError, EngineError

__all__ = [
    "Codebook",
    "codebooks_of",
    "fitted",
    "recoded_schema",
    "require_unique",
    "unknown_values",
]


def fitted(rows: RowBlock, schema: pa.Schema) -> pa.RecordBatch:
    """What a stage returned, in the types it promised, its ids after it.

    Raises
    ------
    EngineError
        Other columns than promised, or values that do not fit their types.
    """
    batch = rows.to_batch()
    names = [name for name in batch.schema.names if name not in ID_COLUMNS]
    if sorted(names) != sorted(schema.names):
        raise EngineError(f"a stage promised the columns {schema.names} and returned {names}")
    try:
        columns = [as_type(normalised(batch.column(field.name), field.name), field.type) for field in schema]
    except pa.ArrowInvalid:
        raise EngineError("a stage returned values that do not fit the types it promised") from None
    ids = [name for name in ID_COLUMNS if name in batch.schema.names]
    return pa.record_batch([*columns, *(batch.column(name) for name in ids)], names=[*schema.names, *ids])


@dataclass(frozen=True, repr=False)
class Codebook:
    """The labels of the values of one column, each value once."""

    values: pa.Array
    labels: pa.Array

    @classmethod
    def of(cls, values: pa.Array, labels: pa.Array, kind: pa.DataType) -> Codebook:
        """Values as they are compared when counted; of equal ones the first decides."""
        values = group_key(values).cast(kind)
        first = pc.index_in(values.unique(), value_set=values)
        return cls(values.take(first), labels.take(first))

    def positions(self, column: pa.Array) -> pa.Array:
        """Position of each value, null for a value that it lacks."""
        return pc.index_in(group_key(column), value_set=self.values)

    def labels_of(self, column: pa.Array) -> pa.Array:
        """The label of each value."""
        return self.labels.take(self.positions(column))


def codebooks_of(table: Any, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> dict[str, Codebook]:
    """The codebooks of a `Recoding` in the types of its table."""
    require_columns(table, codebooks)
    return {name: Codebook.of(*pair, table.schema.field(name).type) for name, pair in codebooks.items()}


def recoded_schema(schema: pa.Schema, books: Mapping[str, Codebook]) -> pa.Schema:
    """A schema whose columns with a codebook have the type of its labels."""
    return pa.schema(
        [field.with_type(books[field.name].labels.type) if field.name in books else field for field in schema]
    )


def unknown_values(name: str, count: int) -> DataError:
    """What is wrong where so many records have a value that the codebook of their column lacks."""
    records = f"{count:,} record{'s hold values' if count != 1 else ' holds a value'}"
    return DataError(f"column {name!r}: {records} that the codebook lacks")


class _Number:
    """How many classes there are."""

    def measure(self, block: ClassBlock, facts: Facts) -> int:
        return len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


def require_unique(engine: Primitives, table: Any, column: str) -> None:
    """Refuse a column of record ids that is not unique and complete; values are distinguished as classes are.

    Raises
    ------
    DataError
    """
    require_columns(table, [column])
    facts = engine.facts(table, FactsRequest(nulls=(column,)))
    missing = facts.nulls[column]
    distinct = (engine.reduce_classes(table, ClassQuery(keys=(column,)), _Number(), Facts()) or 0) - (missing > 0)
    check_record_ids(column, facts.records, missing, facts.records - missing - distinct)

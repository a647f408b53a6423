"""An engine of dictionaries: what a model's author tests against before any real engine is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, FactsRequest, Histogram, RowBlock
from privpipe.blocks.oracle_classes import plain_cell
from privpipe.engines import Source
from privpipe.errors import DataError
from privpipe.roles import case_collisions

__all__ = ["PlainEngine", "PlainTable", "histogram_of"]


@dataclass(frozen=True)
class PlainTable:
    """Columns as Python values, every missing one None, and their Arrow schema."""

    schema: Any
    columns: dict[str, list[Any]]
    has_record_ids: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))


@dataclass(frozen=True)
class PlainEngine:
    """Counts class tables in plain Python; serves `assess` with models that read classes, and nothing else.

    Parameters
    ----------
    classes_a_block : int
        Small, so that merging is put to the test too.

    Examples
    --------
    >>> import pyarrow as pa
    >>> engine = PlainEngine()
    >>> table = engine.scan(Source(data=pa.table({"zip": ["a", "b", "a"], "illness": ["flu", "flu", "cold"]})))
    >>> [block.sizes.tolist() for block in engine.classes(table, ClassQuery(keys=("zip",)))]
    [[1, 2]]
    """

    classes_a_block: int = 3
    name: ClassVar[str] = "plain"

    def scan(self, source: Source) -> PlainTable:
        """Read an Arrow-speaking or pandas frame."""
        import pyarrow as pa

        data = source.data
        if not isinstance(data, pa.Table):
            try:
                data = pa.Table.from_pandas(data, preserve_index=False)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                # Arrow's message quotes the offending cell.
                raise DataError("a column mixes types that do not convert to one another") from None
        for names in case_collisions(data.schema.names):
            raise DataError(f"columns {', '.join(map(repr, names))} are one column to some engines")
        columns = {name: [plain_cell(value) for value in data.column(name).to_pylist()] for name in data.schema.names}
        raw = PlainTable(data.schema, columns)
        schema = pa.schema([(name, _plain_type(raw, name)) for name in data.schema.names])
        return PlainTable(schema, columns)

    def stack(self, table: PlainTable, other: PlainTable, columns: Sequence[str], tag: str) -> PlainTable:
        """The rows of both, distinguished by a tag."""
        import pyarrow as pa

        fields = [pa.field(name, table.schema.field(name).type) for name in columns]
        rows = {name: [*table.columns[name], *other.columns[name]] for name in columns}
        return PlainTable(pa.schema([*fields, (tag, pa.int64())]), {**rows, tag: [0] * len(table) + [1] * len(other)})

    def count(self, table: PlainTable) -> int:
        """Number of records."""
        return len(table)

    def facts(self, table: PlainTable, request: FactsRequest) -> Facts:
        """Histograms and null counts."""
        return Facts(
            records=len(table),
            histograms={name: histogram_of(table.columns[name]) for name in request.histograms},
            nulls={name: table.columns[name].count(None) for name in request.nulls},
        )

    def classes(self, table: PlainTable, query: ClassQuery) -> Iterator[ClassBlock]:
        """The class table, the class met last first."""
        keys = list(zip(*(table.columns[name] for name in query.keys), strict=True)) or [()] * len(table)
        members: dict[Any, list[int]] = {}
        for row, key in enumerate(keys):
            members.setdefault(key, []).append(row)
        groups = list(reversed(members.items()))
        for start in range(0, len(groups), self.classes_a_block):
            yield _block(groups[start : start + self.classes_a_block], table, query)

    def map_rows(self, table: PlainTable, function: Any, schema: Any) -> PlainTable:
        """Every row through a function of blocks, one row a block."""
        import pyarrow as pa

        found: dict[str, list[Any]] = {name: [] for name in schema.names}
        for row in range(len(table)):
            cells = [pa.array([table.columns[name][row]], type=_plain_type(table, name)) for name in table.schema.names]
            made = function(RowBlock(pa.record_batch(cells, names=table.schema.names)))
            for name in schema.names:
                found[name] += [plain_cell(value) for value in made.column(name).to_pylist()]
        return PlainTable(schema, found)

    def keep_classes(self, table: PlainTable, query: ClassQuery, passing: Any) -> PlainTable:
        """The records whose class passes; one class at a time."""
        keys = list(zip(*(table.columns[name] for name in query.keys), strict=True)) or [()] * len(table)
        members: dict[Any, list[int]] = {}
        for row, key in enumerate(keys):
            members.setdefault(key, []).append(row)
        fine = {key for key, rows in members.items() if passing(_block([(key, rows)], table, query))[0]}
        kept = [row for row, key in enumerate(keys) if key in fine]
        return PlainTable(table.schema, {name: [cells[row] for row in kept] for name, cells in table.columns.items()})

    def known_histogram(self, table: PlainTable, column: str) -> None:
        """Nothing is remembered."""

    def reduce_rows(self, table: PlainTable, columns: Sequence[str], reduction: Any, facts: Facts) -> Any:
        """Measure each row by itself and merge; None for a table without records."""
        import pyarrow as pa

        merged = None
        for row in range(len(table)):
            cells = [pa.array([table.columns[name][row]], type=_plain_type(table, name)) for name in columns]
            figure = reduction.measure(RowBlock(pa.record_batch(cells, names=list(columns))), facts)
            merged = figure if merged is None else reduction.merge(figure, merged)
        return merged

    def reduce_classes(self, table: PlainTable, query: ClassQuery, reduction: Any, facts: Facts) -> Any:
        """Measure each block and merge; None for a table without records."""
        merged = None
        for block in self.classes(table, query):
            figure = reduction.measure(block, facts)
            merged = figure if merged is None else reduction.merge(figure, merged)
        return merged


def histogram_of(values: Sequence[Any]) -> Histogram:
    """Distinct values in the order of their type, missing ones last, with their counts.

    Examples
    --------
    >>> histogram_of(["flu", None, "cold", "flu"]).counts.tolist()
    [1, 2, 1]
    """
    import pyarrow as pa

    counts = Counter(plain_cell(value) for value in values)
    distinct = sorted(value for value in counts if value is not None)
    if None in counts:
        distinct.append(None)
    kind = pa.float64() if any(isinstance(value, float) for value in distinct) else None
    return Histogram(pa.array(distinct, type=kind), np.array([counts[value] for value in distinct], dtype=np.int64))


def _block(groups: list[tuple[Any, list[int]]], table: PlainTable, query: ClassQuery) -> ClassBlock:
    import pyarrow as pa

    sizes = np.array([len(rows) for _, rows in groups], dtype=np.int64)
    cells = {}
    for column in query.columns:
        codes = _codes(table.columns[column], query.dictionaries.get(column), column)
        counted = [sorted(Counter(codes[row] for row in rows).items()) for _, rows in groups]
        offsets = np.cumsum([0, *map(len, counted)])
        pairs = np.array([pair for pairs in counted for pair in pairs], dtype=np.int64).reshape(-1, 2)
        cells[column] = Cells(offsets, pairs[:, 0].copy(), pairs[:, 1].copy())
    texts = [pa.types.is_string(_plain_type(table, name)) for name in query.keys]
    blank = tuple(query.mark if text else None for text in texts)
    marked = [query.mark is not None and bool(key) and key == blank for key, _ in groups]
    return ClassBlock(sizes, cells, np.array(marked, dtype=np.bool_))


def _codes(values: list[Any], dictionary: Histogram | None, column: str) -> list[int]:
    if dictionary is None:
        # Any code will do that distinguishes values: far from 0 and unrelated to their order.
        seen = {value: 1_000_003 * place for place, value in enumerate(reversed(dict.fromkeys(values)))}
        return [seen[value] for value in values]
    places = {plain_cell(value): place for place, value in enumerate(dictionary.values.to_pylist())}
    missing = sum(value not in places for value in values)
    if missing:
        raise DataError(f"base does not cover the released values: {missing:,} records of column {column!r}")
    return [places[value] for value in values]


def _plain_type(table: PlainTable, column: str) -> Any:
    """The type of a column's cells, whatever encodes them."""
    import pyarrow as pa

    kind = table.schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind

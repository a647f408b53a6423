"""What transformers and searches may ask of any engine, and what an engine may ask of a reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.class_block import ClassBlock, ClassQuery
from privpipe.blocks.facts import Facts, FactsRequest, Histogram
from privpipe.blocks.rank_exchange import RankExchange
from privpipe.blocks.row_block import RowBlock

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed, Stream

__all__ = ["Primitives", "Reduction", "Table"]

B = TypeVar("B", contravariant=True)
R = TypeVar("R")


class Reduction(Protocol[B, R]):
    """Something learnt from blocks: `merge` is associative and commutative, so blocks come in any order."""

    def measure(self, block: B, facts: Facts) -> R:
        """The figure of one block."""

    def merge(self, left: R, right: R) -> R:
        """The figure of two sets of blocks together."""


class Table(Protocol):
    """A handle on a table of an engine; opaque but for what stands here."""

    @property
    def schema(self) -> pa.Schema:
        """Logical schema of the visible columns, as `scan` recorded it and the stages changed it."""

    @property
    def has_record_ids(self) -> bool:
        """Whether the hidden id columns are attached."""


class Primitives(Protocol):
    """The part of the engine contract that stages are written in. Functions must pickle."""

    def count(self, table: Any) -> int:
        """Number of records."""

    def facts(self, table: Any, request: FactsRequest) -> Facts:
        """Count what is asked, exactly and in one pass where the engine can."""

    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        """The class table, collected: whole classes in blocks, in no promised order."""

    def reduce_classes(
        self, table: Any, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
    ) -> R | None:
        """Measure every class once, where it lies or on the driver; None for a table without records."""

    def reduce_rows(
        self, table: Any, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts
    ) -> R | None:
        """Measure every record once, where it lies."""

    def known_histogram(self, table: Any, column: str) -> Histogram | None:
        """The histogram of a column that was counted before; nothing is counted for it."""

    def distinct(self, table: Any, columns: Sequence[str]) -> pa.Table:
        """The distinct combinations of these columns, sorted by them, with their count in `__count`."""

    def estimated_distinct(self, table: Any, columns: Sequence[str]) -> dict[str, int]:
        """Estimates of the distinct values of columns; nothing where there are none."""

    def keep_classes(self, table: Any, query: ClassQuery, passing: Callable[[ClassBlock], NDArray[np.bool_]]) -> Any:
        """The records whose class passes."""

    def recode(self, table: Any, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> Any:
        """Replace values by labels, column by column: (distinct raw values, null included; their labels)."""

    def map_rows(self, table: Any, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> Any:
        """Every block through `function`, one record in, at most one out; ids travel with the rows."""

    def map_groups(
        self,
        table: Any,
        key: Callable[[RowBlock], NDArray[np.int64]],
        function: Callable[[RowBlock, int], RowBlock],
        schema: pa.Schema,
    ) -> Any:
        """All records of one key together through `function(rows, key)`."""

    def map_ranked(
        self,
        table: Any,
        column: str,
        stream: Stream,
        function: Callable[[RowBlock, NDArray[np.int64]], RowBlock],
        schema: pa.Schema,
    ) -> Any:
        """Blocks with each record's 0-based global rank of `column`, ties by `stream.order`; null ranks -1."""

    values_held: ClassVar[int]
    ranks_held: ClassVar[int]
    forwards_ranks: ClassVar[bool]

    def exchange_ranks(self, table: Any, column: str, stream: Stream, exchange: RankExchange) -> Any:
        """The values of a column given away by rank (see `map_ranked`); nulls stay where they are."""

    def stack(self, table: Any, other: Any, columns: Sequence[str], tag: str) -> Any:
        """The rows of two tables as one: these columns, and `tag`, 0 for the first table's and 1 for the other's."""

    def append(self, table: Any, other: Any) -> Any:
        """The records of two tables of one schema as one table; ids travel along."""

    def numbers(self, count: int, seed: Seed) -> Any:
        """A new table: one column, `number`, holding 0 .. count - 1, with record ids."""

    def select(self, table: Any, columns: Sequence[str]) -> Any:
        """These columns, in this order; ids stay."""

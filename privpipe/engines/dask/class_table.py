"""The class table of the Dask engine: classes counted in partitions, then measured or kept where they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery, Facts
from privpipe.blocks.arrays import Bools, Ints
from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import grouping_columns, may_be_marked, require_query_columns
from privpipe.engines.dask.dask_table import DaskTable
from privpipe.engines.dask.exchange import Pieces, answers, meet
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.class_parts import (
    CellReader,
    Met,
    PartReader,
    met,
    reader_of,
    value_columns,
)
from privpipe.engines.distributed.codes import Encoded, encode, grouped, tuple_hashes
from privpipe.engines.distributed.collection import of_columns
from privpipe.kernels.grouping.word_groups import ordered_by_group, split_order

__all__ = ["collected_blocks", "kept_parts", "measured_classes"]


@dataclass(frozen=True, repr=False)
class ClassPlan:
    """How a class query is counted.

    Parameters
    ----------
    reader : CellReader or PartReader
        Reads classes where they meet.
    places : int
        Meeting places over which classes are spread.
    seed : Seed
        One-time key of the words of classes: a keyed hash of their keys.
    """

    reader: CellReader | PartReader
    places: int
    seed: Seed = field(default_factory=Seed.from_os)

    @classmethod
    def of(cls, table: DaskTable, query: ClassQuery, places: int) -> ClassPlan:
        """The plan of a query on a table."""
        plan = cls(reader_of(query, table.schema, None), places)
        reader = plan.reader
        if may_be_marked(query):
            kinds = [table.schema.field(name).type for name in query.keys]
            marks = [encode(pa.array([query.mark if pa.types.is_string(kind) else None], kind)) for kind in kinds]
            high, low = tuple_hashes(marks, plan.seed, 1)[0].tolist()
            reader = replace(reader, marked=(high, low))
        if isinstance(reader, PartReader):
            reader = replace(reader, packing=pa.large_binary())
        return replace(plan, reader=reader)


@dataclass(frozen=True, repr=False)
class Located:
    """One partition's classes or cells, and which of them each of its rows is in."""

    pieces: Pieces
    positions: Ints

    def piece(self, place: int) -> pa.RecordBatch:
        """The classes or cells that go to one place."""
        return self.pieces.piece(place)


def count_classes(batch: pa.RecordBatch, plan: ClassPlan) -> Pieces:
    """The partition's classes in parts, or its cells, cut by the place of their class."""
    return locate_classes(batch, plan).pieces


def locate_classes(batch: pa.RecordBatch, plan: ClassPlan) -> Located:
    """As `count_classes`, with the way back from rows to what was counted."""
    reader, query = plan.reader, plan.reader.query
    encoded = {name: encode(batch.column(name)) for name in grouping_columns(query)}
    keys = [encoded[name] for name in query.keys]
    values = [encoded[name] for name in value_columns(query)]
    joint = isinstance(reader, CellReader)
    groups, firsts = grouped(list(encoded.values()) if joint else keys, batch.num_rows)
    words = tuple_hashes([column.take(firsts) for column in keys], plan.seed, len(firsts))
    by_place, cuts = split_order(words[:, 0], plan.places)
    ranks = np.empty(len(by_place), dtype=np.int64)
    ranks[by_place] = np.arange(len(by_place))
    groups, firsts, words = ranks[groups], firsts[by_place], words[by_place]
    if isinstance(reader, CellReader):
        chosen = [_values(column.take(firsts)) for column in values]
        rows = reader.cells(words, chosen, np.bincount(groups, minlength=len(firsts)))
    else:
        rows = reader.counted(Met(words, groups, *ordered_by_group(groups, len(firsts))), values)
    return Located(Pieces(rows, cuts), groups)


def _values(column: Encoded) -> pa.Array:
    return column.values.take(pa.array(column.codes))


def _read(pieces: Sequence[pa.RecordBatch], plan: ClassPlan) -> tuple[ClassBlock | None, Ints]:
    """The whole classes of one place, if any, and the class of each part or cell that came."""
    rows = pa.Table.from_batches(pieces)
    found = met(rows)
    return plan.reader.block(rows, found) if len(rows) else None, found.classes


def measured_classes(
    runtime: Runtime, table: DaskTable, query: ClassQuery, reduction: Any, facts: Facts, places: int
) -> list[Any]:
    """The figure of each meeting place's classes, None where it has none."""
    plan, sent = _sent(runtime, table, query, places)
    shared = (runtime.place(plan), runtime.place(facts))
    tasks = meet(runtime, "measure classes", sent, places, _Measure(reduction), *shared)
    what = of_columns("figures of the classes", grouping_columns(query))
    return list(runtime.compute("measure classes", tasks, what))


def collected_blocks(runtime: Runtime, table: DaskTable, query: ClassQuery, places: int) -> list[ClassBlock]:
    """The class table, a block a meeting place; none without classes."""
    plan, sent = _sent(runtime, table, query, places)
    tasks = meet(runtime, "collect classes", sent, places, _block, runtime.place(plan))
    what = of_columns("the classes", grouping_columns(query))
    return [block for block in runtime.compute("collect classes", tasks, what) if block is not None]


def kept_parts(
    runtime: Runtime,
    table: DaskTable,
    query: ClassQuery,
    passing: Callable[[ClassBlock], Bools],
    places: int,
) -> list[Node]:
    """Partitions with the records of passing classes; only answers travel back, no keys are joined."""
    require_query_columns(table.schema, query)
    plan = runtime.place(ClassPlan.of(table, query, places))
    sent = [runtime.task("count classes", locate_classes, part, plan) for part in table.parts]
    replies = meet(runtime, "judge classes", sent, places, _Judge(passing), plan)
    each = [[part, out] for part, out in zip(table.parts, sent, strict=True)]
    return meet(runtime, "keep records", replies, len(sent), kept_rows, each=each)


def kept_rows(replies: Sequence[Bools], batch: pa.RecordBatch, located: Located) -> pa.RecordBatch:
    """The records whose class was answered with a yes."""
    return batch.filter(pa.array(np.concatenate(replies)[located.positions]))


@dataclass(frozen=True, repr=False)
class _Measure:
    reduction: Any

    def __call__(self, pieces: Sequence[pa.RecordBatch], plan: ClassPlan, facts: Facts) -> Any:
        block = _block(pieces, plan)
        return None if block is None else self.reduction.measure(block, facts)


@dataclass(frozen=True, repr=False)
class _Judge:
    passing: Callable[[ClassBlock], Bools]

    def __call__(self, pieces: Sequence[pa.RecordBatch], plan: ClassPlan) -> Pieces:
        block, classes = _read(pieces, plan)
        passes = np.empty(0, np.bool_) if block is None else np.asarray(self.passing(block), np.bool_)
        return answers(passes[classes], pieces)


def _sent(runtime: Runtime, table: DaskTable, query: ClassQuery, places: int) -> tuple[ClassPlan, list[Node]]:
    require_query_columns(table.schema, query)
    plan = ClassPlan.of(table, query, places)
    shared = runtime.place(plan)
    parts = table.coded(grouping_columns(query))
    return plan, [runtime.task("count classes", count_classes, part, shared) for part in parts]


def _block(pieces: Sequence[pa.RecordBatch], plan: ClassPlan) -> ClassBlock | None:
    return _read(pieces, plan)[0]

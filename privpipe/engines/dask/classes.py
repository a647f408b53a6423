"""Class queries over a whole table: measured where classes meet, collected, or sent back as kept records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery, Facts
from privpipe.engines.base.assembly import grouping_columns, may_be_marked, require_query_columns
from privpipe.engines.base.histograms import find_codes, group_key, not_covered
from privpipe.engines.dask.cells import CellPlan, Located, Unfit, assemble, class_block, count_cells, locate_cells
from privpipe.engines.dask.class_parts import class_parts, met_classes
from privpipe.engines.dask.exchange import Pieces, answers, meet
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.errors import DataError

__all__ = ["collected_blocks", "kept_parts", "measured_classes"]

Ints = NDArray[np.int64]


def measured_classes(
    runtime: Runtime, table: DaskTable, query: ClassQuery, reduction: Any, facts: Facts, places: int
) -> list[Any]:
    """The figure of each meeting place's classes, None where it has none."""
    plan, sent = _sent(runtime, table, query, places)
    shared = (runtime.place(plan), runtime.place(facts))
    tasks = meet(runtime, "measure classes", sent, places, _Measure(reduction), *shared)
    return list(_computed(runtime, table, query, "measure classes", tasks))


def collected_blocks(runtime: Runtime, table: DaskTable, query: ClassQuery, places: int) -> list[ClassBlock]:
    """The class table, a block a meeting place; none without classes."""
    plan, sent = _sent(runtime, table, query, places)
    tasks = meet(runtime, "collect classes", sent, places, _block, runtime.place(plan))
    return [block for block in _computed(runtime, table, query, "collect classes", tasks) if len(block)]


def kept_parts(
    runtime: Runtime,
    table: DaskTable,
    query: ClassQuery,
    passing: Callable[[ClassBlock], NDArray[np.bool_]],
    places: int,
) -> list[Node]:
    """Partitions with the records of passing classes; only answers travel back, no keys are joined."""
    require_query_columns(table.schema, query)
    plan = runtime.place(_plan(table, query, places))
    sent = [runtime.task("count cells", locate_cells, part, plan) for part in table.parts]
    replies = meet(runtime, "judge classes", sent, places, _Judge(passing), plan)
    each = [[part, out] for part, out in zip(table.parts, sent, strict=True)]
    return meet(runtime, "keep records", replies, len(sent), kept_rows, each=each)


def kept_rows(replies: Sequence[NDArray[np.bool_]], batch: pa.RecordBatch, located: Located) -> pa.RecordBatch:
    """The records whose cell was answered with a yes."""
    return batch.filter(pa.array(np.concatenate(replies)[located.positions]))


@dataclass(frozen=True, repr=False)
class _Measure:
    reduction: Any

    def __call__(self, pieces: Sequence[Any], plan: CellPlan, facts: Facts) -> Any:
        block = _block(pieces, plan)
        return self.reduction.measure(block, facts) if len(block) else None


@dataclass(frozen=True, repr=False)
class _Judge:
    passing: Callable[[ClassBlock], NDArray[np.bool_]]

    def __call__(self, pieces: Sequence[Ints], plan: CellPlan) -> Pieces:
        block, class_of_cell = assemble(pieces, plan)
        passes = np.asarray(self.passing(block), dtype=np.bool_) if len(block) else np.empty(0, dtype=np.bool_)
        return answers(passes[class_of_cell], pieces)


def _plan(table: DaskTable, query: ClassQuery, places: int) -> CellPlan:
    types = tuple(table.schema.field(name).type for name in query.keys) if may_be_marked(query) else None
    return CellPlan(query, places, types=types)


def _sent(runtime: Runtime, table: DaskTable, query: ClassQuery, places: int) -> tuple[CellPlan, list[Node]]:
    require_query_columns(table.schema, query)
    plan = _plan(table, query, places)
    shared = runtime.place(plan)
    parts = table.coded(grouping_columns(query))
    count = count_cells if _joint(query) else class_parts
    return plan, [runtime.task("count cells", count, part, shared) for part in parts]


def _joint(query: ClassQuery) -> bool:
    """Whether the classes are made of joint cells."""
    return query.person is not None or query.weight is not None


def _block(pieces: Sequence[Any], plan: CellPlan) -> ClassBlock:
    return class_block(pieces, plan) if _joint(plan.query) else met_classes(pieces, plan)


def _computed(runtime: Runtime, table: DaskTable, query: ClassQuery, step: str, tasks: Sequence[Node]) -> list[Any]:
    try:
        return runtime.compute(step, tasks)
    except Unfit:
        pass  # one partition knows that something is amiss; say how much over all of them
    raise misfit(runtime, table, query)


def misfit(runtime: Runtime, table: DaskTable, query: ClassQuery) -> DataError:
    """What is wrong with the columns of a query, counted over the whole table."""
    needed = [name for name in (query.person, query.weight) if name is not None]
    columns = [*needed, *query.dictionaries]
    tasks = [runtime.task("look for misfits", misfits_of, part, query=query) for part in table.holding(columns)]
    found = runtime.compute("look for misfits", tasks)
    for name in needed:
        missing = sum(nulls[name] for nulls, _lacking in found)
        if missing:
            what = "weight" if name == query.weight else "person"
            return DataError(f"{what} column {name!r} has {missing:,} missing values; a record needs a {what}")
    for name in query.columns:
        lacking = [values[name] for _nulls, values in found if name in values]
        distinct = len(pa.chunked_array(lacking).unique()) if lacking else 0
        if distinct:
            return not_covered(name, distinct)
    return DataError("the table changed while it was read")


def misfits_of(batch: pa.RecordBatch, query: ClassQuery) -> tuple[dict[str, int], dict[str, pa.Array]]:
    """Nulls where none may be, and the distinct values that a dictionary lacks."""
    nulls = {
        name: group_key(batch.column(name)).null_count for name in (query.person, query.weight) if name is not None
    }
    lacking = {}
    for name, dictionary in query.dictionaries.items():
        values = pc.unique(group_key(batch.column(name)))
        lacking[name] = values.filter(pa.array(find_codes(values, dictionary) < 0))
    return nulls, lacking

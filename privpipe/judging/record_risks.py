"""Risk of every single record, for those who may see the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import DistinctBlock, Guarantee
from privpipe.blocks.arrays import Ints
from privpipe.blocks.row_reductions import weight_faults
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.judging.judged_table import JudgedTable
from privpipe.judging.rules import JudgingRules, keys_of
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["record_risks"]


def record_risks(
    engine: Engine, table: Any, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules, record_id: str
) -> pa.Table:
    """A table of the record id and one column for each figure that an entry has of a single record.

    Suppressed records are left out; rows are in the order of the id.

    Parameters
    ----------
    engine : Engine
    table : Table
    entries : sequence of Guarantee
        Those without such a figure are passed over.
    roles : Roles
    rules : JudgingRules
    record_id : str
        Column that distinguishes records.

    Raises
    ------
    UsageError
        No entry has a figure of single records.
    DataError
        A column is missing, or the id does not distinguish records.
    """
    import pyarrow as pa

    telling = [entry.with_roles(roles) for entry in entries if entry.gives_record_figures]
    if not telling:
        raise UsageError(
            "no entry of the policy measures the risk of single records; individual_risk does, for example"
        )
    columns = _columns(telling, roles, record_id)
    for column in columns:
        if column not in table.schema.names:
            raise DataError(f"column {column!r} is not in the table{did_you_mean(column, list(table.schema.names))}")
    judged_table = JudgedTable.of(engine, table, rules)
    for weight in dict.fromkeys(name for entry in telling if (name := entry.weight_column()) is not None):
        if why := weight_faults(engine, judged_table.left, weight):
            raise DataError(why)
    rows = engine.distinct(judged_table.left, columns)
    if (rows["__count"].to_numpy() > 1).any() or len(rows[record_id].unique()) < rows.num_rows:
        raise DataError(f"record_id {record_id!r} does not distinguish records")
    found = {record_id: rows[record_id]}
    for entry in telling:
        keys = keys_of(entry, roles)
        wildcard = rules.wildcard if rules.nulls == "wildcard" else None
        block = DistinctBlock.from_table(rows, keys, wildcard=wildcard, weight=entry.weight_column())
        household = entry.household_column()
        homes = None if household is None else _codes(rows[household])
        for name, values in entry.record_figures(block, homes, rules.nulls == "wildcard").items():
            found[_free(name, found)] = pa.chunked_array([pa.array(values)])
    return pa.table(found)


def _columns(entries: Sequence[Guarantee], roles: Roles, record_id: str) -> tuple[str, ...]:
    own = [column for entry in entries for column in (*keys_of(entry, roles), *entry.record_columns())]
    return tuple(dict.fromkeys([record_id, *own, *roles.quasi_identifiers]))


def _codes(column: pa.ChunkedArray) -> Ints:
    """A number for each value, -1 where there is none."""
    codes = column.combine_chunks().dictionary_encode().indices.fill_null(-1)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, numbered where an entry before has it."""
    at = 2
    while (found := name if at == 2 and name not in taken else f"{name}_{at}") in taken:
        at += 1
    return found

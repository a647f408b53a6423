"""Hierarchies whose levels are other columns: what goes with what is read from the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privpipe.engines import Engine
from privpipe.errors import DataError, did_you_mean
from privpipe.hierarchies import HierarchySpec, canonical_text
from privpipe.hierarchies.from_columns import FromColumns
from privpipe.roles import column_type_of

__all__ = ["with_columns_read"]


def with_columns_read(
    engine: Engine, table: Any, hierarchies: Mapping[str, HierarchySpec], types: Mapping[str, str]
) -> dict[str, HierarchySpec]:
    """The hierarchies, those by `from_columns` with what the table says.

    One count of distinct combinations for each, on every engine.

    Parameters
    ----------
    engine : Engine
    table : Table
        The source, with every column.
    hierarchies : mapping of column to HierarchySpec
    types : mapping of column to declared type

    Raises
    ------
    DataError
        A column that the table lacks.
    HierarchyError
        A value goes with several values of a level.
    """
    return {name: _read(engine, table, name, spec, types) for name, spec in hierarchies.items()}


def _read(engine: Engine, table: Any, column: str, spec: HierarchySpec, types: Mapping[str, str]) -> HierarchySpec:
    if not isinstance(spec.builder, FromColumns):
        return spec
    wanted = [column, *spec.builder.columns]
    names = table.schema.names
    for name in wanted:
        if name not in names:
            raise DataError(
                f"hierarchy of column {column!r} (from_columns): {name!r} is not in the data{did_you_mean(name, names)}"
            )
    rows = engine.distinct(table, wanted)
    texts = []
    for name in wanted:
        values = rows.column(name).combine_chunks()
        texts.append(canonical_text(values, types.get(name) or column_type_of(values.type), column=name).to_pylist())
    found: dict[str, list[tuple[str | None, ...]]] = {}
    for value, *beside in zip(*texts, strict=True):
        if value is not None:
            found.setdefault(value, []).append(tuple(beside))
    return replace(spec, builder=spec.builder.read(found, column))

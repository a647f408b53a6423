"""Columns as their source has them: bytes, and levels of hierarchies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.engines import Engine
from privpipe.engines.base.logical_types import is_carried
from privpipe.errors import DataError, UnsupportedError, did_you_mean
from privpipe.hierarchies import HierarchySpec, canonical_text
from privpipe.hierarchies.from_columns import FromColumns
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = ["is_bytes", "require_bytes_unjudged", "require_file_of_bytes", "require_flat", "with_columns_read"]


def is_bytes(kind: object) -> bool:
    """Whether a column's logical type is bytes, which no policy can declare.

    Examples
    --------
    >>> is_bytes("binary"), is_bytes("string")
    (True, False)
    """
    return str(kind) == "binary"


def require_bytes_unjudged(table: Any, policy: Policy) -> None:
    """Refuse columns of bytes that would be judged or transformed: they have no values that people compare.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [
        name
        for name in _bytes(table)
        if policy.columns[name].role not in ("insensitive", "identifier", "carried", "drop")
    ]
    if wrong:
        raise UnsupportedError(
            f"columns of bytes are neither quasi-identifiers nor sensitive ({', '.join(map(repr, wrong))}): give them "
            "the role insensitive or identifier, or make them text before (base64 or hexadecimal digits)"
        )


def require_file_of_bytes(table: Any, policy: Policy, written: str) -> None:
    """Refuse a sink whose format has no bytes, before anything is learnt.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [name for name in _bytes(table) if policy.columns[name].role in ("insensitive", "carried")]
    if wrong and written in ("csv", "json"):
        raise UnsupportedError(
            f"{written} holds no bytes ({', '.join(map(repr, wrong))}): publish as `format: parquet`, leave the "
            "columns out as identifiers, or make them text before"
        )


def require_flat(found: pa.Schema, policy: Policy) -> None:
    """Refuse columns that only Parquet files hold, before anything is learnt, where the sink is none of such files.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [each.name for each in found if each.name in policy.roles.carried and is_carried(each.type)]
    if wrong:
        raise UnsupportedError(
            f"lists, structs, maps and times are carried into folders of Parquet files alone "
            f"({', '.join(map(repr, wrong))}): publish as `sink: {{path: ..., format: parquet}}`, or give the columns "
            "the role drop"
        )


def _bytes(table: Any) -> list[str]:
    return [field.name for field in table.schema if is_bytes(field.type)]


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

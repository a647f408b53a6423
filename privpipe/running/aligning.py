"""Pair the records of a finished table with those of its original: by a record id both hold, or by position."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.positions import POSITION, positioned
from privpipe.errors import DataError
from privpipe.running.reading import scanned

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["Align", "aligned", "compares_tables", "reads_pairs"]

Align = Literal["record_id", "position"]


def reads_pairs(policy: Policy) -> bool:
    """Whether an entry of the policy compares the release with its original."""
    return any(entry.way.aligned for entry in policy.entries)


def compares_tables(policy: Policy) -> bool:
    """Whether an entry of the policy compares whole tables, without pairing their records."""
    return any(entry.way.in_keyed_order for entry in policy.entries)


def aligned(
    engine: Engine, released: Source, original: Source, policy: Policy, align: Align, seed: Seed
) -> tuple[Any, Any]:
    """Both tables with record ids by which records are paired; as scanned where nothing pairs them.

    Parameters
    ----------
    released, original : Source
    align : {"record_id", "position"}
        By the policy's `record_id` column, which both tables must hold, or by row number.

    Returns
    -------
    (Table, Table)
        Released, original. Without ids where the released table lacks the record id: entries over pairs are then
        errors.

    Raises
    ------
    DataError
        By position, tables of different length.
    UnsupportedError
        By position, a source that has no order.
    """
    if align == "position":
        return _by_position(engine, released, original, seed)
    key = policy.record_id
    first = scanned(engine, original)
    if key is None:
        return scanned(engine, released), first
    kind = policy.types.get(key)
    second = scanned(engine, released)
    if key not in second.schema.names or key not in first.schema.names:
        return second, first
    if kind is not None and released.types.get(key) != kind:
        second = scanned(engine, replace(released, types={**released.types, key: kind}))
    return engine.with_record_ids(second, key, seed), engine.with_record_ids(first, key, seed)


def _by_position(engine: Engine, released: Source, original: Source, seed: Seed) -> tuple[Any, Any]:
    tables = [positioned(engine.held(released)), positioned(engine.held(original))]
    if tables[0].num_rows != tables[1].num_rows:
        raise DataError(
            f"the tables cannot be aligned by position: one has {tables[0].num_rows:,} records, the original "
            f"{tables[1].num_rows:,}; align by a record_id"
        )
    sides = []
    for table, source in zip(tables, (released, original), strict=True):
        found = scanned(engine, Source(data=table, types=source.types))
        found = engine.with_record_ids(found, POSITION, seed)
        sides.append(engine.select(found, [name for name in found.schema.names if name != POSITION]))
    return sides[0], sides[1]

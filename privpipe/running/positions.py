"""Positions of records in released files and in the original, for measures of what the order of rows discloses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.row_positions import RowPositions
from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.base.positions import POSITION, positioned
from privpipe.errors import UnsupportedError
from privpipe.judging.class_memory import hashed_rows
from privpipe.running.reading import run_columns
from privpipe.running.run_context import RunContext

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = ["finished_positions", "reads_positions", "run_positions"]

Ints = NDArray[np.int64]
NO_MATCH = "the records of the release were not all found in the original's order."


def reads_positions(policy: Policy) -> bool:
    """Whether an entry of the policy asks for positions."""
    return any(entry.way.of_positions for entry in policy.entries)


def run_positions(
    context: RunContext, source: Source, released: Any, files: Source, order: Stream
) -> RowPositions | str:
    """Of the records of a run: the files' order is compared, row by row, with the keyed one they were written in.

    Parameters
    ----------
    source : Source
        The original.
    released : Table
        The staged records, with their ids.
    files : Source
        As they were written.
    order : Stream
        The sink's.

    Returns
    -------
    RowPositions or str
        Why there are none: a source or files without an order.
    """
    try:
        first, written = positioned(context.engine.held(source)), positioned(files)
    except UnsupportedError as error:
        return f"{error}."
    engine, seed = context.engine, context.seed
    names = list(released.schema.names)
    ids, hashes = hashed_rows(engine, released, names, seed)
    keyed = order.arrange(ids)
    proved = bool(np.array_equal(_row_hashes(written, names, seed), hashes[keyed]))
    places = np.empty(len(ids), dtype=np.int64)
    places[keyed] = np.arange(len(ids))
    own, at = _original_ids(context, source, first)
    found = _found(own, ids)
    if (found < 0).any():
        return NO_MATCH
    return RowPositions(classes=_numbers(hashes), released=places, original=at[found], proved=proved)


def finished_positions(
    policy: Policy, released: Source, original: Source, align: Literal["record_id", "position"]
) -> RowPositions | str:
    """Of the rows of a finished table and its original, as they stand in their files or frames."""
    seed = Seed.from_os()
    key = policy.record_id
    try:
        last, first = positioned(released), positioned(original)
    except UnsupportedError as error:
        return f"{error}."
    names = [name for name in last.schema.names if name not in (POSITION, key)]
    positions = np.arange(last.num_rows)
    if align == "position":
        places = positions
    elif key is None or key not in last.schema.names or key not in first.schema.names:
        return "needs the original beside the release, aligned by record id, or by position."
    else:
        places = _found(_row_hashes(first, [key], seed), _row_hashes(last, [key], seed))
        if (places < 0).any():
            return NO_MATCH
    return RowPositions(
        classes=_numbers(_row_hashes(last, names, seed)),
        released=positions,
        original=places,
        ordered=_in_order(last, names),
    )


def _original_ids(context: RunContext, source: Source, first: pa.Table) -> tuple[Ints, Ints]:
    """The record ids of the original and the position of each; rows that are identical are taken as they come."""
    from privpipe.kernels.ids.record_ids import content_hash, declared_id, ordinals, record_id

    engine, policy, seed = context.engine, context.policy, context.seed
    table = engine.collect(engine.scan(Source(data=first, types=source.types)))
    at = table[POSITION].to_numpy()
    if policy.record_id is not None:
        return declared_id(table[policy.record_id], seed), at
    words = content_hash(table.select(run_columns(table.drop_columns([POSITION]).schema.names, policy)), seed)
    return record_id(words, ordinals(words), seed), at


def _row_hashes(table: pa.Table, names: Sequence[str], seed: Seed) -> Ints:
    import pyarrow as pa

    from privpipe.judging.class_memory import row_texts
    from privpipe.kernels.ids.record_ids import content_hash

    return content_hash(pa.table(row_texts(table, names)), seed)


def _found(ids: Ints, asked: Ints) -> Ints:
    from privpipe.judging.class_memory import places_of

    return places_of(ids, asked)


def _numbers(hashes: Ints) -> Ints:
    from privpipe.kernels.grouping.word_groups import group_rows

    return group_rows(hashes)[0]


def _in_order(table: pa.Table, names: Sequence[str]) -> bool:
    import pyarrow.compute as pc

    if not names or not table.num_rows:
        return True
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return bool((np.diff(order.to_numpy().astype(np.int64)) == 1).all())

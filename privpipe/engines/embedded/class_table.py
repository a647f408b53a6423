"""The class table of the embedded engine: packed keys where columns have them, else joint cells; sizes counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import Any, TypeVar

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Reduction
from privpipe.engines.base.batches import in_order, reduce_blocks
from privpipe.engines.base.class_blocks import KnownSizes, WithSizes, may_be_marked, require_query_columns
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.joint_cells import JointCells
from privpipe.engines.embedded.packed_keys import PackedClasses
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.stored_rows import SmallRows

__all__ = ["classes_of", "known_sizes", "reduce_class_table"]


R = TypeVar("R")


def classes_of(session: Session, table: EmbeddedTable, query: ClassQuery) -> Iterator[ClassBlock]:
    """See `Engine.classes`."""
    small = SmallRows.of(session, table)
    if small is not None:
        return small.blocks(query)
    packed = PackedClasses.of(session, table, query)
    if packed is not None:
        return packed.blocks()
    joint = JointCells(session, table, query)
    # What was handed over cannot be taken back when memory runs out: the blocks of a round come together.
    rounds = joint.rounds(lambda batches: list(in_order(joint.block, batches, session.threads)))
    return (block for blocks in rounds for block in blocks)


def reduce_class_table(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """See `Engine.reduce_classes`."""
    small = SmallRows.of(session, table)
    if small is not None:
        return reduce_blocks(reduction, small.blocks(query), facts, session.threads)
    if not query.keys or query.person is not None:
        return _counted(session, table, query, reduction, facts)
    if query.columns or query.weight is not None:
        return _noted(session, table, query, reduction, facts)
    with table.counting.setdefault(frozenset(query.keys), Lock()):
        sizes = known_sizes(table, query)
        if sizes is None:
            return _noted(session, table, query, reduction, facts)
    return reduce_blocks(reduction, sizes.blocks(query), facts, session.threads)


def known_sizes(table: EmbeddedTable, query: ClassQuery) -> KnownSizes | None:
    """What is known already of a table and answers a query."""
    require_query_columns(table.schema, query)
    found = table.sizes.get(frozenset(query.keys))
    return found if found is not None and found.answers(query) else None


def _noted(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """The outcome of a reduction; the sizes of the classes are known of the table from now on."""
    noting = WithSizes(reduction, query.mark if may_be_marked(query) else None)
    outcome, sizes = _counted(session, table, query, noting, facts) or (None, None)
    if sizes is not None:
        table.sizes[frozenset(query.keys)] = sizes
    return outcome


def _counted(
    session: Session, table: EmbeddedTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    packed = PackedClasses.of(session, table, query)
    if packed is not None:
        return reduce_blocks(reduction, packed.blocks(), facts, session.threads)
    joint = JointCells(session, table, query)
    measured = _Measured(joint.block, reduction)
    rounds = joint.rounds(lambda batches: reduce_blocks(measured, batches, facts, session.threads))
    found = [each for each in rounds if each is not None]
    return reduce(reduction.merge, found) if found else None


@dataclass(frozen=True)
class _Measured:
    """A reduction of raw batches, so that decoding them runs on the threads too."""

    block: Callable[[Any], ClassBlock]
    inner: Reduction[ClassBlock, Any]

    def measure(self, batch: Any, facts: Facts) -> Any:
        return self.inner.measure(self.block(batch), facts)

    def merge(self, left: Any, right: Any) -> Any:
        return self.inner.merge(left, right)

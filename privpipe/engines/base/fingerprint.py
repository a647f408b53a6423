"""A keyed fingerprint of a table: equal for equal records in any order, meaningless without the seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privpipe.blocks import Facts, RowBlock
from privpipe.draws import Seed
from privpipe.engines.base.contract import Engine

__all__ = ["KeyedFingerprint", "counted_fingerprint", "fingerprint"]

_MODULUS = 1 << 128


@dataclass(frozen=True, repr=False)
class KeyedFingerprint:
    """Sum of the records' keyed 128-bit content hashes, and their number: a hash of the multiset.

    The hash is of visible columns in order of name, so neither row order nor column order matters.
    """

    seed: Seed = field(repr=False)

    def measure(self, block: RowBlock, facts: Facts) -> tuple[int, int]:
        """(records, sum of hashes modulo 2^128) of a block."""
        from privpipe.kernels.ids.record_ids import content_hash, sum_of_hashes

        words = content_hash(block.batch, self.seed)
        return len(words), sum_of_hashes(words)

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        """Add up."""
        return left[0] + right[0], (left[1] + right[1]) % _MODULUS


def fingerprint(engine: Engine, table: Any, seed: Seed) -> str:
    """The keyed fingerprint of a table's visible columns, as text.

    Returns
    -------
    str
        ``sum-siphash128:<32 hexadecimal digits>``; of an empty table, zeros.
    """
    return counted_fingerprint(engine, table, seed)[1]


def counted_fingerprint(engine: Engine, table: Any, seed: Seed) -> tuple[int, str]:
    """The number of records and the keyed fingerprint, by one look at the table."""
    found = engine.known_content(table, seed)
    if found is None:
        found = engine.reduce_rows(table, list(table.schema.names), KeyedFingerprint(seed), Facts())
    records, total = found or (0, 0)
    return records, f"sum-siphash128:{total:032x}"

"""What is made of contributions before they are added up: clipped values, and keys of their contributors."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.draws import Seed
from privpipe.hierarchies import canonical_text

__all__ = ["PURPOSE", "ContributionRows", "key_of_sums", "record_key"]

PURPOSE = "privpipe/record-key/1"
DIGITS = 16


def key_of_sums(seed: Seed, purpose: str, measure: str) -> bytes:
    """What keys the record keys of a measure: counts have the purpose itself, each sum one of its own."""
    return seed.bound(PURPOSE, *([purpose] if measure == "count" else [purpose, measure]))


def record_key(key: bytes, contributor: str) -> int:
    """The first four bytes, big-endian, of the HMAC-SHA256 of a contributor's canonical text.

    Examples
    --------
    >>> 0 <= record_key(b"key", "7") < 2**32
    True
    """
    return int.from_bytes(hmac.digest(key, contributor.encode(), "sha256")[:4], "big")


@dataclass(frozen=True, kw_only=True)
class ContributionRows:
    """A function of a block of contributions, one row for each contributor and cell.

    Parameters
    ----------
    person : str or None
        Column of the contributor; None: each row is one, and its record id distinguishes it.
    bounds : mapping of column to (int, int)
        What contributions are clipped to, in units; null stays null.
    keys : mapping of str to (bytes, str or None)
        Columns that are added: record keys under a key, of all rows, or 0 where this column is null or 0.
    """

    person: str | None
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    keys: Mapping[str, tuple[bytes, str | None]] = field(default_factory=dict, repr=False)

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Columns that come out."""
        return pa.schema([*source, *((name, pa.int64()) for name in self.keys)])

    def __call__(self, rows: RowBlock) -> RowBlock:
        columns = {name: rows.column(name) for name in rows.schema.names}
        own, place = self._contributors(rows) if self.keys else ([], np.zeros(0, dtype=np.int64))
        for name, (key, contribution) in self.keys.items():
            drawn = np.array([record_key(key, text) for text in own], dtype=np.int64)[place]
            if contribution is not None:
                given = pc.fill_null(columns[contribution], 0).to_numpy(zero_copy_only=False)
                drawn = np.where(given != 0, drawn, 0)
            columns[name] = pa.array(drawn, pa.int64())
        for name, (least, most) in self.bounds.items():
            columns[name] = pc.min_element_wise(
                pc.max_element_wise(columns[name], least, skip_nulls=False), most, skip_nulls=False
            )
        return rows.with_batch(pa.record_batch(list(columns.values()), names=list(columns)))

    def _contributors(self, rows: RowBlock) -> tuple[list[str], NDArray[np.int64]]:
        """Texts of the contributors, each once, and which of them each row is of."""
        if self.person is not None:
            coded = canonical_text(rows.column(self.person), None).dictionary_encode()
            place = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            return coded.dictionary.to_pylist(), place
        words = np.ascontiguousarray(rows.record_ids).view(np.uint64).reshape(len(rows), -1)
        return ["".join(f"{word:0{DIGITS}x}" for word in row) for row in words.tolist()], np.arange(len(rows))

"""Values that differ by their spelling alone, and missing ones that count as values: the figures without them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Cells, ClassBlock, Facts, Guarantee, RowBlock, Tally

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Fold", "Known", "folded", "is_text"]

SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"


def folded(values: pa.Array) -> pa.Array:
    """Texts without what is only spelling: case, surrounding spaces, Unicode form (NFKC); missing ones stay missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> folded(pa.array(["Flu", " flu ", "GRIPPE\\u0301", "grippé", None])).to_pylist()
    ['flu', 'flu', 'grippé', 'grippé', None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.ascii_trim(pc.ascii_lower(values), characters=SPACES)
    foreign = np.flatnonzero(pc.fill_null(pc.invert(pc.string_is_ascii(values)), False).to_numpy(zero_copy_only=False))
    if not len(foreign):
        return plain
    texts = values.take(pa.array(foreign)).to_pylist()
    fine = [unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip() for text in texts]
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[foreign] = True
    return pc.replace_with_mask(plain, pa.array(mask), pa.array(fine, plain.type))


@dataclass(frozen=True)
class Fold:
    """Rows in which the texts of a column are folded."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.replace(self.column, folded(rows.column(self.column)))


@dataclass(frozen=True)
class Known:
    """A reduction: what an entry makes of classes in which a missing value is none, unless there is no other.

    Parameters
    ----------
    entry : Guarantee
    column : str
    missing : int
        Code of the missing value.
    """

    entry: Guarantee
    column: str
    missing: int

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        """The entry's figure of some whole classes."""
        cells, held = block.cells[self.column], block.held.get(self.column)
        lengths = np.diff(cells.offsets)
        kept = (cells.codes != self.missing) | (np.repeat(lengths, lengths) == 1)
        sums = np.concatenate([[0], np.cumsum(kept)])
        offsets = sums[cells.offsets].astype(np.int64)
        known = Cells(offsets, cells.codes[kept], cells.counts[kept])
        others = dict(block.held)
        if held is not None:
            others[self.column] = held.rows((held.codes != self.missing) | (lengths == 1)[held.classes])
        changed = ClassBlock(block.sizes, {**block.cells, self.column: known}, held=others)
        return self.entry.measure(changed, facts)

    def merge(self, left: Tally, right: Tally) -> Tally:
        """The entry's own."""
        return self.entry.merge(left, right)


def is_text(table: Any, column: str) -> bool:
    """Whether a column of a table holds text."""
    import pyarrow as pa

    return column in table.schema.names and pa.types.is_string(table.schema.field(column).type)

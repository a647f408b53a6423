"""The distinct table of some columns: codes and counts, no values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DistinctBlock", "weights_of"]


@dataclass(frozen=True)
class DistinctBlock:
    """Every combination of some columns as codes, with its records; what the codes stand for stays behind.

    Parameters
    ----------
    columns : tuple of str
        m of them.
    codes : ndarray of int64, shape (t, m)
        Equal codes of a column are equal values; a missing value has a code of its own.
    counts : ndarray of int64, shape (t,)
        Records of each combination, all at least 1.
    blanks : ndarray of bool, shape (t, m), or None
        Cells without a value, or with the text that stands for any; None: none.
    weights : ndarray of float64, shape (t,), or None
        Sampling weight of every record of the combination; one that occurs with several weights stands there for each.
    """

    columns: tuple[str, ...]
    codes: NDArray[np.int64] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    blanks: NDArray[np.bool_] | None = field(default=None, repr=False)
    weights: NDArray[np.float64] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def records(self) -> int:
        """Records counted."""
        return int(self.counts.sum())

    def of(self, columns: Sequence[str]) -> DistinctBlock:
        """Some of the columns; combinations may then occur several times."""
        places = [self.columns.index(column) for column in columns]
        blanks = None if self.blanks is None else self.blanks[:, places]
        return DistinctBlock(tuple(columns), self.codes[:, places], self.counts, blanks, self.weights)

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        columns: Sequence[str],
        *,
        wildcard: str | None = None,
        weight: str | None = None,
    ) -> DistinctBlock:
        """The codes of an engine's distinct table.

        A cell without a value, or with the text `wildcard`, is blank. With `weight` the table is also distinct on that
        column.

        Raises
        ------
        DataError
            A record without a weight.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"zip": ["a", None, "*"], "__count": [2, 3, 4]})
        >>> block = DistinctBlock.from_table(table, ["zip"], wildcard="*")
        >>> block.blanks.tolist(), block.records
        ([[False], [True], [True]], 9)
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        counts = table["__count"].to_numpy().astype(np.int64)
        codes = np.zeros((len(counts), len(columns)), dtype=np.int64)
        blanks = np.zeros((len(counts), len(columns)), dtype=np.bool_)
        for at, column in enumerate(columns):
            encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
            encoded = pa.concat_arrays(encoded.chunks) if isinstance(encoded, pa.ChunkedArray) else encoded
            codes[:, at] = encoded.indices.to_numpy(zero_copy_only=False)
            text = pa.types.is_string(table[column].type) or pa.types.is_large_string(table[column].type)
            blanks[:, at] = table[column].is_null(nan_is_null=True).to_numpy()
            if text and wildcard is not None:
                blanks[:, at] |= pc.equal(table[column], wildcard).fill_null(False).to_numpy()
        weights = None if weight is None else weights_of(table[weight], counts, weight)
        return cls(tuple(columns), codes, counts, blanks, weights)


def weights_of(values: pa.ChunkedArray, counts: NDArray[np.int64], column: str) -> NDArray[np.float64]:
    """The weight of every row.

    Raises
    ------
    DataError
        Records without one, or a column that holds no numbers.
    """
    import pyarrow as pa
    import pyarrow.types as pt

    kind = values.type
    if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        raise DataError(f"weight column {column!r} is {kind}; weights must be numbers")
    weights: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    missing = int(counts[np.isnan(weights)].sum())
    if missing:
        raise DataError(f"weight column {column!r} has {missing:,} missing values; a record needs a weight")
    return weights

"""Sparse matrices of integers whose products are exact or refused."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.errors import DataError

__all__ = ["Integers", "Matrix", "matrix_of", "product"]

Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = "scipy.sparse.csr_array[Any, tuple[int, int]]"
"""In rows, int64, without stored zeros."""


def matrix_of(values: Integers, rows: Integers, columns: Integers, shape: tuple[int, int]) -> Matrix:
    """The matrix with these entries; entries at one place are added."""
    found = cast(Any, scipy.sparse.csr_array)((values, (rows, columns)), shape=shape, dtype=np.int64)
    found.eliminate_zeros()
    return cast("Matrix", found)


def product(matrix: Matrix, values: Integers) -> Integers:
    """The exact product of a matrix and a vector.

    Raises
    ------
    DataError
        If a sum might leave 64 bits.
    """
    if matrix.nnz == 0:
        return np.zeros(matrix.shape[0], dtype=np.int64)
    longest = int(np.diff(matrix.indptr).max(initial=0))
    most = max(abs(int(values.max())), abs(int(values.min())))
    if most * int(np.abs(matrix.data).max()) * longest >= 2**62:
        raise DataError("figures of the table are too large to be added exactly in 64 bits; use fewer decimals")
    return np.asarray(matrix @ values, dtype=np.int64)

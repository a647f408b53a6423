"""Names for the types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Ints", "Words"]

Bools = NDArray[np.bool_]
Codes = NDArray[np.int32]
"""Values of a column as numbers from 0 on."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Hashes and keyed draws, 64 bits each."""

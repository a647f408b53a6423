"""How arrays are handed to compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["read_only"]


def read_only(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """A contiguous view that cannot be written, converted to `dtype` only if it must be.

    Compiled code is specialised by type, and whether an array may be written is part of it: Arrow's buffers may
    not, numpy's may. One kind for both halves the compilation.

    Examples
    --------
    >>> read_only([1, 2], np.int64).flags.writeable
    False
    """
    view = np.ascontiguousarray(values, dtype=dtype).view()
    view.flags.writeable = False
    return view

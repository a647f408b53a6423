"""Integers of thousands of bits, added in compiled code as rows of 32-bit limbs.

A number enters as part x 2^(place - 1074) with a signed part of 64 bits: a finite double has a part of 53 bits, an
integer is its own part at place 1074.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws.siphash import high_product

__all__ = ["FINEST", "INFINITE", "LIMBS", "MISSING", "add_up", "carry", "split_floats", "split_integers"]

U = np.uint64
FINEST = 1074
LIMB = 0xFFFFFFFF
LIMBS = 136  # products reach 2^(2 * 2045 + 128), with room for carries
MISSING, INFINITE = 1, 2


@njit(nogil=True, cache=True)
def carry(limbs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bring every limb into 0 .. 2^32 - 1; what is left over at the top is the sign."""
    tops = np.zeros(len(limbs), np.int64)
    for row in range(len(limbs)):
        over = 0
        for k in range(limbs.shape[1]):
            value = limbs[row, k] + over
            limbs[row, k] = value & LIMB
            over = value >> 32
        tops[row] = over
    return tops


@njit(nogil=True, cache=True)
def split_floats(
    column: NDArray[np.float64],
    gaps: NDArray[np.bool_],
    parts: NDArray[np.int64],
    places: NDArray[np.int64],
    absent: NDArray[np.uint8],
    extremes: NDArray[np.float64],
) -> int:
    """Write each value as part and place, mark records without a finite one, widen the extremes."""
    infinite = 0
    for r in range(len(column)):
        x = column[r]
        bits = np.float64(x).view(np.int64)
        if (len(gaps) > 0 and gaps[r]) or np.isnan(x):
            absent[r] |= MISSING
        elif np.isinf(x):
            absent[r] |= INFINITE
            infinite += 1
        else:
            part = bits & 0xFFFFFFFFFFFFF
            place = (bits >> 52) & 0x7FF
            if place > 0:
                part |= 0x10000000000000
                place -= 1
            parts[r] = -part if bits < 0 else part
            places[r] = place
            positive = x + 0.0  # of -0.0 and 0.0, which are equal, the order of the cells would choose
            extremes[0] = np.fmin(extremes[0], positive)
            extremes[1] = np.fmax(extremes[1], positive)
    return infinite


def split_integers(
    column: NDArray[np.int64],
    gaps: NDArray[np.bool_],
    parts: NDArray[np.int64],
    places: NDArray[np.int64],
    absent: NDArray[np.uint8],
    extremes: NDArray[np.float64],
) -> int:
    """As `split_floats`, of integers."""
    parts[: len(column)] = column
    places[: len(column)] = FINEST
    present = column
    if len(gaps):
        absent |= gaps
        present = column[~gaps]
    if len(present):
        extremes[0] = np.fmin(extremes[0], np.float64(present.min()))
        extremes[1] = np.fmax(extremes[1], np.float64(present.max()))
    return 0


@njit(nogil=True, cache=True)
def _add(limbs: NDArray[np.int64], high: U, low: U, place: int, sign: int) -> None:
    """Add sign x (high 2^64 + low) x 2^place."""
    k, shift = place >> 5, U(place & 31)
    first = low << shift
    second = (high << shift) | ((low >> U(1)) >> (U(63) - shift))
    third = (high >> U(1)) >> (U(63) - shift)
    limbs[k] += sign * np.int64(first & U(LIMB))
    limbs[k + 1] += sign * np.int64(first >> U(32))
    limbs[k + 2] += sign * np.int64(second & U(LIMB))
    limbs[k + 3] += sign * np.int64(second >> U(32))
    limbs[k + 4] += sign * np.int64(third)


@njit(nogil=True, cache=True)
def _magnitude(part: int) -> U:
    magnitude: U = U(-part) if part < 0 else U(part)
    return magnitude


@njit(nogil=True, cache=True)
def add_up(
    parts: NDArray[np.int64],
    places: NDArray[np.int64],
    absent: NDArray[np.uint8],
    limbs: NDArray[np.int64],
) -> None:
    """Add the records present in all columns: a row of limbs for each column, then one for each pair."""
    s = len(parts)
    for i in range(s):
        for r in range(len(absent)):
            if absent[r]:
                parts[i, r] = 0
                places[i, r] = 0
            part = parts[i, r]
            _add(limbs[i], U(0), _magnitude(part), places[i, r], -1 if part < 0 else 1)
    row = s
    for i in range(s):
        for j in range(i, s):
            for r in range(len(absent)):
                a, b = _magnitude(parts[i, r]), _magnitude(parts[j, r])
                sign = -1 if (parts[i, r] ^ parts[j, r]) < 0 else 1
                _add(limbs[row], high_product(a, b), a * b, places[i, r] + places[j, r], sign)
            row += 1

"""New groups grown from the records of a neighbourhood, by look-ups in a table of their inner products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws.siphash import high_product, word_of_2

__all__ = ["LANES", "grow", "inner_products", "padded"]

LANES = 8

U = np.uint64


@njit(nogil=True, cache=True)
def padded(m: int) -> int:
    """Room for so many records and a few more, in whole vector registers: rows have it, and what stands there is moot.

    Examples
    --------
    >>> padded(9)
    16
    """
    return (m + LANES - 1) // LANES * LANES


@njit(nogil=True, cache=True)
def inner_products(
    points: NDArray[np.float64],
    members: NDArray[np.int64],
    m: int,
    local: NDArray[np.float64],
    gram: NDArray[np.float64],
) -> None:
    """Inner products of the freed records relative to their mean, into gram[:m, :m]; `local` is room by column."""
    s, stop = points.shape[1], padded(m)
    for j in range(s):
        mean = 0.0
        for i in range(m):
            local[j, i] = points[members[i], j]
            mean += local[j, i]
        mean /= m
        for i in range(m):
            local[j, i] -= mean
    for i in range(m):
        first, last, row = U(i // LANES * LANES), U(stop), gram[i]
        for u in range(first, last):
            row[u] = 0.0
        for j in range(0, s - 1, 2):  # two columns at a time spare memory
            column, other, x, y = local[j], local[j + 1], local[j, i], local[j + 1, i]
            for u in range(first, last):
                row[u] = (row[u] + x * column[u]) + y * other[u]
        if s % 2 == 1:
            column, x = local[s - 1], local[s - 1, i]
            for u in range(first, last):
                row[u] += x * column[u]
        for u in range(i + 1, m):
            gram[u, i] = gram[i, u]


@njit(nogil=True, cache=True, error_model="numpy")
def grow(
    key: tuple[U, U],
    step: int,
    t: int,
    k: int,
    gram: NDArray[np.float64],
    labels: NDArray[np.int64],
    sizes: NDArray[np.int64],
    dots: NDArray[np.float64],
) -> None:
    """New groups of the freed records: labels, sizes, and dots[g, i], the product of a group's sum and a record."""
    m = len(labels)
    stop = padded(m)
    # `rest`: products with the sum of those left, 0 at the start
    left, rest, near = np.arange(m), np.zeros(stop, np.float64), np.empty(stop, np.float64)
    diagonal = np.zeros(stop, np.float64)
    for i in range(m):
        diagonal[i] = gram[i, i]
    count = m
    for g in range(t):
        seed = 0
        coin = word_of_2(key[0], key[1], U(step), U(1000 + g))
        if coin & U(1):
            seed = np.int64(high_product(coin, U(count)))  # type: ignore[assignment]
        else:
            best = -np.inf
            for at in range(count):
                far = diagonal[left[at]] - 2.0 * rest[left[at]] / count
                if far > best:
                    best, seed = far, at
        row = dots[g]
        for i in range(U(0), U(stop)):
            row[i] = 0.0
        for size in range(1, k + 1):
            if size > 1:
                for i in range(U(0), U(stop)):
                    near[i] = diagonal[i] - 2.0 * row[i] / (size - 1)
                best = np.inf
                for at in range(count):
                    if near[left[at]] < best:
                        best, seed = near[left[at]], at
            record = left[seed]
            labels[record] = g
            count -= 1
            left[seed] = left[count]
            products = gram[record]
            for i in range(U(0), U(stop)):
                row[i] += products[i]
                rest[i] -= products[i]
        sizes[g] = k
    _give_out(left[:count], t, k, gram, m, labels, sizes, dots)


@njit(nogil=True, cache=True)
def _own_square(g: int, m: int, labels: NDArray[np.int64], dots: NDArray[np.float64]) -> float:
    total = 0.0
    for i in range(m):
        if labels[i] == g:
            total += dots[g, i]
    return total


@njit(nogil=True, cache=True)
def _give_out(
    left: NDArray[np.int64],
    t: int,
    k: int,
    gram: NDArray[np.float64],
    m: int,
    labels: NDArray[np.int64],
    sizes: NDArray[np.int64],
    dots: NDArray[np.float64],
) -> None:
    """Each record left goes to the group whose SSE grows least, of those that stay below 2k."""
    squares = np.empty(t, np.float64)
    for i in left:
        labels[i] = -1
    for g in range(t):
        squares[g] = _own_square(g, m, labels, dots)
    for i in left:
        best, target = np.inf, 0
        for g in range(t):
            if sizes[g] >= 2 * k - 1:
                continue
            n = np.float64(sizes[g])
            growth = n / (n + 1.0) * (gram[i, i] - 2.0 * dots[g, i] / n + squares[g] / (n * n))
            if growth < best:
                best, target = growth, g
        labels[i] = target
        sizes[target] += 1
        squares[target] += 2.0 * dots[target, i] + gram[i, i]
        for u in range(padded(m)):
            dots[target, u] += gram[i, u]

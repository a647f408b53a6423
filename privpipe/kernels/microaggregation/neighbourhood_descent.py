"""New groups inside one neighbourhood, and moves and swaps between them, by look-ups in a table of inner products.

Rows are padded to whole vector registers; entries beyond the records are not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.compiled import njit
from privpipe.draws.siphash import high_product, word_of_2

__all__ = ["LANES", "LEAST_GAIN", "Inside", "descend_inside", "grow", "inner_products", "padded"]


LANES = 8

U = np.uint64


@njit(nogil=True, cache=True)
def padded(m: int) -> int:
    """Length of a row for m records, padded to whole vector registers; the padding is not used.

    Examples
    --------
    >>> padded(9)
    16
    """
    return (m + LANES - 1) // LANES * LANES


@njit(nogil=True, cache=True)
def inner_products(
    points: Floats,
    members: Ints,
    m: int,
    local: Floats,
    gram: Floats,
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
        for j in range(0, s - 1, 2):  # two columns at a time save memory traffic
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
    gram: Floats,
    labels: Ints,
    sizes: Ints,
    dots: Floats,
) -> None:
    """New groups of the freed records: labels, sizes, and dots[g, i], the product of a group's sum and a record."""
    m = len(labels)
    stop = padded(m)
    # `rest`: products with the sum of the remaining ones, 0 at the start
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
def _own_square(g: int, m: int, labels: Ints, dots: Floats) -> float:
    total = 0.0
    for i in range(m):
        if labels[i] == g:
            total += dots[g, i]
    return total


@njit(nogil=True, cache=True)
def _give_out(
    left: Ints,
    t: int,
    k: int,
    gram: Floats,
    m: int,
    labels: Ints,
    sizes: Ints,
    dots: Floats,
) -> None:
    """Each remaining record goes to the group whose SSE grows least, among those that stay below 2k."""
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


LEAST_GAIN = 1e-9
PASSES = 100


class Inside(NamedTuple):
    """For each freed record: its square, its product with the sum of its group, and the size of that; for records it
    may swap with: their products with the sum of a group, and the SSE that the swap adds.
    """

    diagonal: Floats
    own: Floats
    size_of: Floats
    across: Floats
    rise: Floats


@njit(nogil=True, cache=True, error_model="numpy")
def _best_swap(
    i: int,
    m: int,
    gram: Floats,
    labels: Ints,
    dots: Floats,
    room: Inside,
    gain: float,
) -> tuple[float, int]:
    a, first, stop = labels[i], U((i + 1) // LANES * LANES), U(padded(m))
    row, of_a, column = gram[i], dots[a], dots[:, i]
    at_a, square, inverse_a = of_a[i], room.diagonal[i], 1.0 / room.size_of[i]
    for u in range(first, stop):
        room.across[u] = column[U(labels[u])]
    for u in range(first, stop):
        apart = room.diagonal[u] + square - 2.0 * row[u]
        change = (2.0 * (room.own[u] - room.across[u]) - apart) / room.size_of[u]
        change -= (2.0 * (of_a[u] - at_a) + apart) * inverse_a
        room.rise[u] = np.inf if labels[u] == a else change
    partner = -1
    for u in range(i + 1, m):
        if room.rise[u] < gain:
            gain, partner = room.rise[u], u
    return gain, partner


@njit(nogil=True, cache=True, error_model="numpy")
def _best_move(
    i: int,
    k: int,
    gram: Floats,
    squares: Floats,
    labels: Ints,
    sizes: Ints,
    dots: Floats,
    gain: float,
) -> tuple[float, int]:
    a = labels[i]
    size = np.float64(sizes[a])
    lost = (gram[i, i] - 2.0 * dots[a, i] / size + squares[a] / (size * size)) * size / (size - 1.0)
    target = -1
    for b in range(len(squares)):
        if b != a and sizes[b] < 2 * k - 1:
            n = np.float64(sizes[b])
            delta = (gram[i, i] - 2.0 * dots[b, i] / n + squares[b] / (n * n)) * n / (n + 1.0) - lost
            if delta < gain:
                gain, target = delta, b
    return gain, target


@njit(nogil=True, cache=True)
def _exchange(
    m: int,
    gone: Floats,
    back: Floats,
    of_a: Floats,
    of_b: Floats,
    both: bool,
) -> None:
    """Products with the sums of two groups after a record went from a to b and, if `both`, another came back."""
    stop = U(padded(m))
    if both:
        for u in range(U(0), stop):
            of_a[u] += back[u] - gone[u]
            of_b[u] += gone[u] - back[u]
    else:
        for u in range(U(0), stop):
            of_a[u] -= gone[u]
            of_b[u] += gone[u]


@njit(nogil=True, cache=True)
def _renew(
    m: int,
    a: int,
    b: int,
    labels: Ints,
    sizes: Ints,
    dots: Floats,
    room: Inside,
) -> None:
    """Update the members of two groups: the product with the sum of their group, and its size."""
    of_a, of_b, own, size_of = dots[a], dots[b], room.own, room.size_of
    size_a, size_b = float(sizes[a]), float(sizes[b])
    for u in range(U(0), U(padded(m))):
        own[u] = of_a[u] if labels[u] == a else (of_b[u] if labels[u] == b else own[u])
        size_of[u] = size_a if labels[u] == a else (size_b if labels[u] == b else size_of[u])


@njit(nogil=True, cache=True)
def _add_squares(m: int, labels: Ints, own: Floats, squares: Floats, stale: Bools) -> None:
    """The squares of the sums of the groups that changed."""
    for g in range(len(squares)):
        if stale[g]:
            squares[g] = 0.0
    for u in range(m):
        if stale[labels[u]]:
            squares[labels[u]] += own[u]
    stale[:] = False


@njit(nogil=True, cache=True, error_model="numpy")
def descend_inside(
    m: int,
    t: int,
    k: int,
    gram: Floats,
    labels: Ints,
    sizes: Ints,
    dots: Floats,
    room: Inside,
) -> float:
    """Moves and swaps until none helps; returns the spread between the groups."""
    squares, stale = np.zeros(t, np.float64), np.ones(t, np.bool_)
    for i in range(m):
        room.diagonal[i] = gram[i, i]
        room.own[i] = dots[labels[i], i]
        room.size_of[i] = sizes[labels[i]]
    quiet = 0
    for _ in range(PASSES):
        for i in range(m):
            if quiet == m:
                break
            quiet += 1
            a = labels[i]
            gain, partner = _best_swap(i, m, gram, labels, dots, room, -LEAST_GAIN)
            target = -1
            if sizes[a] > k:
                _add_squares(m, labels, room.own, squares, stale)
                gain, target = _best_move(i, k, gram, squares, labels, sizes, dots, gain)
            if target < 0 and partner < 0:
                continue
            quiet = 0
            b = target if target >= 0 else labels[partner]
            labels[i] = b
            if target >= 0:
                sizes[a] -= 1
                sizes[b] += 1
                _exchange(m, gram[i], gram[i], dots[a], dots[b], False)
            else:
                labels[partner] = a
                _exchange(m, gram[i], gram[partner], dots[a], dots[b], True)
            _renew(m, a, b, labels, sizes, dots, room)
            stale[a] = stale[b] = True
        if quiet == m:
            break
    _add_squares(m, labels, room.own, squares, stale)
    total = 0.0
    for g in range(t):
        total += squares[g] / sizes[g]
    return total

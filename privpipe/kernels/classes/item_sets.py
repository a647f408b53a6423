"""Combinations of items and the records that hold them, without comparing records with one another.

A combination is identified by a 128-bit hash of its size and of its items in a fixed order; an item by a 128-bit hash.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks.arrays import Bools, Ints
from privpipe.compiled import njit
from privpipe.draws import Seed
from privpipe.draws.siphash import absorb, close_128, key_words, start_128
from privpipe.kernels.ids.record_ids import content_hash

__all__ = ["Baskets", "Supports", "baskets_of", "merged_supports", "supports_of"]

U = np.uint64
SEED = Seed.public("privpipe/items")


@dataclass(frozen=True)
class Baskets:
    """Some records' sets of items.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Items of record r are ``words[offsets[r]:offsets[r + 1]]``, distinct, in the order of their hash.
    words : ndarray of int64, shape (n_items, 2)
        Hash of each item.
    """

    offsets: Ints
    words: Ints

    @property
    def lengths(self) -> Ints:
        """Items of each record, shape (n,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Supports:
    """Combinations and how many records hold each.

    Parameters
    ----------
    words : ndarray of int64, shape (c, 2)
        Hash of each combination, ascending and distinct.
    counts : ndarray of int64, shape (c,)
    asked : ndarray of bool, shape (c,)
        Whether it must occur often enough; the others are counted only because a shorter record may be equal to
        them.
    """

    words: Ints
    counts: Ints
    asked: Bools

    def __len__(self) -> int:
        return len(self.counts)


def baskets_of(texts: pa.Array, separator: str | None) -> Baskets:
    """The items of each text: its parts between separators, without empty and repeated ones; none for a missing text.

    Parts are not normalised: blanks and case distinguish items. Without a separator a JSON array of texts is the
    set of its texts (engines read a column of lists in this form), and any other text is split at commas.

    Examples
    --------
    >>> baskets_of(pa.array(["milk,beer", "beer,,beer", None, "", '["a,b","c"]']), None).lengths.tolist()
    [2, 1, 0, 0, 2]
    """
    texts = texts.cast(pa.string()).fill_null("")
    parts = pc.split_pattern(texts, separator or ",")
    arrays = pc.and_(pc.starts_with(texts, "["), pc.ends_with(texts, "]"))
    if separator is None and pc.any(arrays).as_py():
        split = zip(texts.to_pylist(), arrays.to_pylist(), parts.to_pylist(), strict=True)
        parts = pa.array([_listed(text, items) if array else items for text, array, items in split], parts.type)
    owner = pc.list_parent_indices(parts).to_numpy(zero_copy_only=False).astype(np.int64)
    encoded = parts.flatten().dictionary_encode()
    distinct, codes = encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)
    hashes = content_hash(pa.record_batch({"item": distinct}), SEED)
    filled = pc.not_equal(distinct, "").to_numpy(zero_copy_only=False)[codes]
    owner, words = owner[filled], hashes[codes[filled]]
    order = np.lexsort((words[:, 1], words[:, 0], owner))
    owner, words = owner[order], words[order]
    first = np.ones(len(owner), dtype=np.bool_)
    first[1:] = (owner[1:] != owner[:-1]) | (words[1:] != words[:-1]).any(axis=1)
    lengths = np.bincount(owner[first], minlength=len(texts))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Baskets(offsets, np.ascontiguousarray(words[first]))


def _listed(text: str, otherwise: list[str]) -> list[str]:
    """The items of a JSON array of texts; nulls are not items."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    if not all(item is None or isinstance(item, str) for item in items):
        return otherwise
    return [item for item in items if item is not None]


def supports_of(baskets: Baskets, most: int, shorter: tuple[int, ...]) -> Supports:
    """Combinations of `most` items, and of as many as some shorter records have, with the records that hold them.

    Required are those of `most` items and those that are a whole shorter record: smaller subsets of longer records
    are held by at least as many records as the combinations that contain them.

    Parameters
    ----------
    most : int
        m, at least 1.
    shorter : tuple of int
        Lengths below m that records of the whole table have.

    Examples
    --------
    In (a, b), (a, b, c) and (a), pairs are held by 2, 1 and 1 records, the single item a by all three:

    >>> found = supports_of(baskets_of(pa.array(["a b", "a b c", "a"]), " "), 2, (1,))
    >>> sorted(found.counts[found.asked].tolist()), sorted(found.counts.tolist())
    ([1, 1, 2, 3], [1, 1, 1, 2, 2, 3])
    """
    sizes = np.array(sorted({most, *shorter}), dtype=np.int64)
    total = _count(baskets.offsets, sizes)
    words = np.empty((total, 2), dtype=np.int64)
    required = np.empty(total, dtype=np.bool_)
    k0, k1 = key_words(SEED.key("combinations"))
    _combine(baskets.offsets, baskets.words, sizes, most, k0, k1, words, required)
    return _compact(words, np.ones(total, dtype=np.int64), required)


def merged_supports(left: Supports, right: Supports) -> Supports:
    """The supports over two sets of records together."""
    return _compact(
        np.concatenate([left.words, right.words]),
        np.concatenate([left.counts, right.counts]),
        np.concatenate([left.asked, right.asked]),
    )


def _compact(words: Ints, counts: Ints, required: Bools) -> Supports:
    if not len(counts):
        return Supports(words, counts, required)
    order = np.lexsort((words[:, 1], words[:, 0]))
    words, counts, required = words[order], counts[order], required[order]
    first = np.ones(len(counts), dtype=np.bool_)
    first[1:] = (words[1:] != words[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    return Supports(words[starts], np.add.reduceat(counts, starts), np.logical_or.reduceat(required, starts))


@njit(cache=True, nogil=True)
def _choices(items: int, size: int) -> int:
    """Binomial coefficient."""
    if size > items:
        return 0
    found = 1
    for step in range(min(size, items - size)):
        found = found * (items - step) // (step + 1)
    return found


@njit(cache=True, nogil=True)
def _count(offsets: Ints, sizes: Ints) -> int:
    total = 0
    for record in range(len(offsets) - 1):
        for size in sizes:
            total += _choices(offsets[record + 1] - offsets[record], size)
    return total


@njit(cache=True, nogil=True)
def _combine(
    offsets: Ints,
    items: Ints,
    sizes: Ints,
    most: int,
    k0: np.uint64,
    k1: np.uint64,
    words: Ints,
    required: Bools,
) -> None:
    """Hash every combination of these sizes of every record."""
    at = 0
    chosen = np.empty(sizes.max(), np.int64)
    for record in range(len(offsets) - 1):
        begin, length = offsets[record], offsets[record + 1] - offsets[record]
        for size in sizes:
            if size > length:
                break
            for place in range(size):
                chosen[place] = place
            while True:
                v0, v1, v2, v3 = start_128(k0, k1)
                v0, v1, v2, v3 = absorb(v0, v1, v2, v3, U(size))
                for place in range(size):
                    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, U(items[begin + chosen[place], 0]))
                    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, U(items[begin + chosen[place], 1]))
                high, low = close_128(v0, v1, v2, v3, U(2 * size + 1))
                words[at, 0], words[at, 1] = np.int64(high), np.int64(low)
                required[at] = size in (most, length)
                at += 1
                last = size - 1
                while last >= 0 and chosen[last] == length - size + last:
                    last -= 1
                if last < 0:
                    break
                chosen[last] += 1
                for place in range(last + 1, size):
                    chosen[place] = chosen[place - 1] + 1

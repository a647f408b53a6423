"""SipHash-2-4 of 64 and of 128 bits over 8-byte words, compiled.

Source: Aumasson, Bernstein, SipHash: a fast short-input PRF, Indocrypt 2012, and its reference code for the
128-bit variant. Messages here are whole little-endian words, which is all that ids and draws need. Every
constant is wrapped in np.uint64, since an unsigned and a signed integer would be promoted to a float. As plain
Python the functions take arrays of words: arrays of numpy wrap around silently, its scalars warn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit

__all__ = [
    "absorb",
    "absorb_each",
    "below_bound",
    "close_64",
    "close_128",
    "close_each",
    "counter_words",
    "hash_pairs",
    "high_product",
    "key_words",
    "record_words",
    "start",
    "start_128",
    "word_of_2",
    "word_of_3",
]

U = np.uint64
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
AT_ONCE = 1024
"""Messages whose states fit into the cache together."""

C0, C1 = U(0x736F6D6570736575), U(0x646F72616E646F6D)
C2, C3 = U(0x6C7967656E657261), U(0x7465646279746573)


def key_words(key: bytes) -> tuple[np.uint64, np.uint64]:
    """The two little-endian words of a key of 16 bytes."""
    first, second = np.frombuffer(key, dtype="<u8", count=2)
    return U(first), U(second)


@njit(nogil=True, cache=True)
def sip_round(v0: U, v1: U, v2: U, v3: U) -> State:
    v0 = v0 + v1
    v2 = v2 + v3
    v1 = (v1 << U(13)) | (v1 >> U(51))
    v3 = (v3 << U(16)) | (v3 >> U(48))
    v1 = v1 ^ v0
    v3 = v3 ^ v2
    v0 = (v0 << U(32)) | (v0 >> U(32))
    v2 = v2 + v1
    v0 = v0 + v3
    v1 = (v1 << U(17)) | (v1 >> U(47))
    v3 = (v3 << U(21)) | (v3 >> U(43))
    v1 = v1 ^ v2
    v3 = v3 ^ v0
    v2 = (v2 << U(32)) | (v2 >> U(32))
    return v0, v1, v2, v3


@njit(nogil=True, cache=True)
def start(k0: U, k1: U) -> State:
    """State of the 64-bit hash before the first word."""
    return C0 ^ k0, C1 ^ k1, C2 ^ k0, C3 ^ k1


@njit(nogil=True, cache=True)
def start_128(k0: U, k1: U) -> State:
    """State of the 128-bit hash before the first word."""
    return C0 ^ k0, C1 ^ k1 ^ U(0xEE), C2 ^ k0, C3 ^ k1


@njit(nogil=True, cache=True)
def absorb(v0: U, v1: U, v2: U, v3: U, word: U) -> State:
    """State after one more word."""
    v3 = v3 ^ word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@njit(nogil=True, cache=True)
def four_rounds(v0: U, v1: U, v2: U, v3: U) -> State:
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@njit(nogil=True, cache=True)
def close_64(v0: U, v1: U, v2: U, v3: U, words: U) -> U:
    """The hash of 64 bits of a message of `words` words."""
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, words << U(59))  # byte length modulo 256 in the top byte
    v0, v1, v2, v3 = four_rounds(v0, v1, v2 ^ U(0xFF), v3)
    return v0 ^ v1 ^ v2 ^ v3


@njit(nogil=True, cache=True)
def close_128(v0: U, v1: U, v2: U, v3: U, words: U) -> tuple[U, U]:
    """The two words of the hash of 128 bits of a message of `words` words."""
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, words << U(59))
    v0, v1, v2, v3 = four_rounds(v0, v1, v2 ^ U(0xEE), v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = four_rounds(v0, v1 ^ U(0xDD), v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@njit(nogil=True, cache=True)
def word_of_2(k0: U, k1: U, a: U, b: U) -> U:
    """The 64-bit hash of two words."""
    v0, v1, v2, v3 = start(k0, k1)
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, a)
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, b)
    word: U = close_64(v0, v1, v2, v3, U(2))
    return word


@njit(nogil=True, cache=True)
def word_of_3(k0: U, k1: U, a: U, b: U, c: U) -> U:
    """The 64-bit hash of three words."""
    v0, v1, v2, v3 = start(k0, k1)
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, a)
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, b)
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, c)
    word: U = close_64(v0, v1, v2, v3, U(3))
    return word


@njit(nogil=True, cache=True)
def _start_each(state: NDArray[np.uint64], own: State) -> None:
    """Set many messages, one per column, to the same state."""
    for part in range(4):
        state[part] = own[part]


@njit(nogil=True, cache=True)
def absorb_each(state: NDArray[np.uint64], of_messages: NDArray[np.uint64]) -> None:
    """Absorb one more word of each message: few rounds without a branch, which run in vector registers."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(len(of_messages)):
        v0[i], v1[i], v2[i], v3[i] = absorb(v0[i], v1[i], v2[i], v3[i], of_messages[i])


@njit(nogil=True, cache=True)
def _four_rounds_each(state: NDArray[np.uint64], count: int) -> None:
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(count):
        v0[i], v1[i], v2[i], v3[i] = four_rounds(v0[i], v1[i], v2[i], v3[i])


@njit(nogil=True, cache=True)
def close_each(state: NDArray[np.uint64], lengths: NDArray[np.uint64], long: bool, out: NDArray[np.uint64]) -> None:
    """The hashes of messages, given their lengths in words, which are overwritten; of 64 bits, with `long` of 128.

    Parameters
    ----------
    out : ndarray of uint64, shape (n, 1) or (n, 2)
    """
    count = len(lengths)
    for i in range(count):
        lengths[i] <<= U(59)
    absorb_each(state, lengths)
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(count):
        v2[i] ^= U(0xEE) if long else U(0xFF)
    _four_rounds_each(state, count)
    for i in range(count):
        out[i, 0] = v0[i] ^ v1[i] ^ v2[i] ^ v3[i]
    if long:
        for i in range(count):
            v1[i] ^= U(0xDD)
        _four_rounds_each(state, count)
        for i in range(count):
            out[i, 1] = v0[i] ^ v1[i] ^ v2[i] ^ v3[i]


@njit(nogil=True, cache=True)
def hash_pairs(
    own: State, pairs: NDArray[np.int64], thirds: NDArray[np.uint64], long: bool, out: NDArray[np.uint64]
) -> None:
    """The hashes of messages of three words, into `out` as in `close_each`, from the state before the first word.

    Parameters
    ----------
    pairs : ndarray of int64, shape (n, 2)
    thirds : ndarray of uint64, shape (n,) or (1,)
        The last word of each, or of all.
    """
    state, words = np.empty((4, AT_ONCE), U), np.empty(AT_ONCE, U)
    for begin in range(0, len(pairs), AT_ONCE):
        count = min(AT_ONCE, len(pairs) - begin)
        _start_each(state, own)
        for at in range(2):
            for i in range(count):
                words[i] = U(pairs[begin + i, at])
            absorb_each(state, words[:count])
        for i in range(count):
            words[i] = thirds[begin + i if len(thirds) > 1 else 0]
        absorb_each(state, words[:count])
        words[:] = U(3)
        close_each(state, words[:count], long, out[begin : begin + count])


@njit(nogil=True, cache=True)
def high_product(a: U, b: U) -> U:
    """The upper 64 bits of the 128-bit product."""
    low = U(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> U(32), b & low, b >> U(32)
    middle = a1 * b0 + ((a0 * b0) >> U(32))
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> U(32)) + (other >> U(32))


def _record_words(k0: U, k1: U, ids: NDArray[np.int64], word: U) -> NDArray[np.uint64]:
    first, second = ids[:, 0].astype(U), ids[:, 1].astype(U)
    return np.asarray(word_of_3(np.full(1, k0), np.full(1, k1), first, second, np.full(1, word)))


@njit(small=SMALL, plain=_record_words, nogil=True, cache=True)
def record_words(k0: U, k1: U, ids: NDArray[np.int64], word: U) -> NDArray[np.uint64]:
    out = np.empty((len(ids), 1), np.uint64)
    hash_pairs(start(k0, k1), ids, np.full(1, word), False, out)
    return out[:, 0]


def _counter_words(k0: U, k1: U, first: U, count: int, word: U) -> NDArray[np.uint64]:
    numbers = np.full(1, first) + np.arange(count, dtype=U)
    return np.asarray(word_of_2(np.full(1, k0), np.full(1, k1), numbers, np.full(1, word)))


@njit(small=SMALL, plain=_counter_words, nogil=True, cache=True)
def counter_words(k0: U, k1: U, first: U, count: int, word: U) -> NDArray[np.uint64]:
    out = np.empty(count, np.uint64)
    for i in range(count):
        out[i] = word_of_2(k0, k1, first + U(i), word)
    return out


def _below_bound(words: NDArray[np.uint64], bound: U) -> NDArray[np.int64]:
    return np.asarray(high_product(words, np.full(1, bound))).astype(np.int64)


@njit(small=SMALL, plain=_below_bound, nogil=True, cache=True)
def below_bound(words: NDArray[np.uint64], bound: U) -> NDArray[np.int64]:
    out = np.empty(len(words), np.int64)
    for i in range(len(words)):
        out[i] = np.int64(high_product(words[i], bound))
    return out

"""The compiled hash against the published vectors, and against a second implementation written from the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.compiled import load
from privpipe.draws import Stream, siphash

KEY = bytes(range(16))
MASK = (1 << 64) - 1


def rotate(x: int, b: int) -> int:
    return ((x << b) | (x >> (64 - b))) & MASK


def rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & MASK
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)


def sip(key: bytes, message: bytes, size: int) -> bytes:
    """SipHash-2-4 with an output of 8 or 16 bytes, for messages of any length."""
    k = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")]
    names = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [name ^ k[i % 2] for i, name in enumerate(names)]
    if size == 16:
        v[1] ^= 0xEE
    whole = len(message) // 8 * 8
    last = message[whole:].ljust(7, b"\0") + bytes([len(message) & 255])
    for at in range(0, whole + 8, 8):
        word = int.from_bytes(message[at : at + 8] if at < whole else last, "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE if size == 16 else 0xFF
    rounds(v, 4)
    out = (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    if size == 16:
        v[1] ^= 0xDD
        rounds(v, 4)
        out += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return out


def unsigned(state: tuple[int, ...]) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(word) for word in state)  # compiled code hands plain integers back to Python


def compiled(key: bytes, words: list[int], size: int) -> bytes:
    keys = siphash.key_words(key)
    state = unsigned(siphash.start_128(*keys) if size == 16 else siphash.start(*keys))
    for word in words:
        state = unsigned(siphash.absorb(*state, np.uint64(word)))
    count = np.uint64(len(words))
    if size == 16:
        return b"".join(int(half).to_bytes(8, "little") for half in siphash.close_128(*state, count))
    return int(siphash.close_64(*state, count)).to_bytes(8, "little")


def words_of(message: bytes) -> list[int]:
    return [int.from_bytes(message[i : i + 8], "little") for i in range(0, len(message), 8)]


# Source: the reference implementation's vectors.h (Aumasson, Bernstein): key 00..0f, message 00..(length - 1).
PUBLISHED_64 = {
    0: "310e0edd47db6f72",
    1: "fd67dc93c539f874",
    2: "5a4fa9d909806c0d",
    8: "6224939a79f5f593",
    15: "e545be4961ca29a1",
}
PUBLISHED_128 = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    24: "2db479ae78bd50d8882a8a178a6132ad",
    63: "5150d1772f50834a503e069a973fbd7c",
}


@pytest.mark.parametrize(("size", "vectors"), [(8, PUBLISHED_64), (16, PUBLISHED_128)])
def test_the_published_vectors_hold(size: int, vectors: dict[int, str]) -> None:
    for length, expected in vectors.items():
        message = bytes(range(length))
        assert sip(KEY, message, size).hex() == expected
        if length % 8 == 0:
            assert compiled(KEY, words_of(message), size).hex() == expected


def test_the_check_value_of_the_paper() -> None:
    assert int.from_bytes(sip(KEY, bytes(range(15)), 8), "little") == 0xA129CA6149BE45E5


@given(st.binary(min_size=16, max_size=16), st.lists(st.integers(0, MASK), max_size=40))
def test_compiled_and_plain_agree_on_any_words(key: bytes, words: list[int]) -> None:
    message = b"".join(word.to_bytes(8, "little") for word in words)
    for size in (8, 16):
        assert compiled(key, words, size) == sip(key, message, size)


@given(st.integers(0, MASK), st.integers(0, MASK))
def test_the_upper_half_of_a_product(a: int, b: int) -> None:
    assert int(siphash.high_product(np.uint64(a), np.uint64(b))) == (a * b) >> 64


def test_the_words_of_records_and_counters_are_hashes_of_their_ids() -> None:
    stream = Stream(KEY)
    ids = np.array([[1, 2], [-1, -(2**63)]], dtype=np.int64)
    for row, word in zip(ids, stream.words(ids, word=3).tolist(), strict=True):
        message = row.astype("<i8").tobytes() + (3).to_bytes(8, "little")
        assert word == int.from_bytes(sip(KEY, message, 8), "little")
    message = (9).to_bytes(8, "little") + (2).to_bytes(8, "little")
    assert stream.counter(9, 1, word=2).tolist() == [int.from_bytes(sip(KEY, message, 8), "little")]


def test_many_records_have_the_words_of_each() -> None:
    load()
    stream, ids = Stream(KEY), np.random.default_rng(2).integers(-(2**63), 2**63 - 1, (2_050, 2))
    words = stream.words(ids, word=2**64 - 1)
    for row in (0, 1023, 1024, 2047, 2048, 2049):
        message = ids[row].astype("<i8").tobytes() + bytes([255] * 8)
        assert int(words[row]) == int.from_bytes(sip(KEY, message, 8), "little")

"""Draws bound to values: the message against the definition, and what a value is."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtri

from privpipe.blocks import RowBlock
from privpipe.draws import Stream, siphash
from privpipe.kernels.ids.value_draws import value_normals, value_uniforms, value_words

STREAM = Stream(bytes(range(16)))


def ids_of(count: int) -> NDArray[np.int64]:
    return np.column_stack([np.arange(count) * 7919 - 10**12, -np.arange(count)])


def block(ids: NDArray[np.int64] | None = None, **columns: Any) -> RowBlock:
    batch = pa.record_batch(columns)
    return RowBlock(batch, ids_of(batch.num_rows) if ids is None else ids)


def drawn(ids: list[int], words: list[int], word: int) -> int:
    state: Any = siphash.start(*STREAM.key_words)
    for each in (*ids, *words, word):
        state = siphash.absorb(*(np.uint64(v) for v in state), np.uint64(each & (2**64 - 1)))
    return int(siphash.close_64(*(np.uint64(v) for v in state), np.uint64(len(ids) + len(words) + 1)))


def cell(value: Any) -> list[int]:
    """A cell as `privpipe.kernels.ids.record_ids` words it."""
    if value is None or value != value:
        return [0]
    if isinstance(value, str):
        payload = value.encode()
        words = [struct.unpack("<Q", payload[at : at + 8].ljust(8, b"\0"))[0] for at in range(0, len(payload), 8)]
        return [4 | len(payload) << 8, *words]
    tag, form = (2, "<q") if isinstance(value, int) else (3, "<d")
    return [tag | 8 << 8, struct.unpack("<Q", struct.pack(form, value + 0))[0]]


@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(width=64),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(max_size=20),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 3),
)
def test_the_message_is_id_values_and_number(rows: list[tuple[Any, Any, Any]], word: int) -> None:
    x, n, t = (list(column) for column in zip(*rows, strict=True))
    given_rows = block(x=pa.array(x, pa.float64()), n=pa.array(n, pa.int64()), t=pa.array(t, pa.string()))
    for names in (["x"], ["n"], ["t"], ["t", "x", "n"]):
        wanted = [
            drawn(ids, [w for name in names for w in cell({"x": x, "n": n, "t": t}[name][at])], word)
            for at, ids in enumerate(given_rows.record_ids.tolist())
        ]
        assert value_words(STREAM, given_rows, names, word).tolist() == wanted


def test_many_rows_in_any_partition_draw_the_same() -> None:
    n = 10_000
    x = np.where(np.arange(n) % 7 == 0, np.nan, np.arange(n) / 3)
    whole = block(x=pa.array(x, from_pandas=True), t=[f"value {at % 501}" for at in range(n)])
    for names in (["x"], ["t"], ["x", "t"]):
        words = value_words(STREAM, whole, names)
        for first, stop in ((0, 4095), (4095, 4097), (4097, n)):
            part = whole.take(np.arange(first, stop))
            assert (value_words(STREAM, part, names) == words[first:stop]).all()
        shuffled = np.random.default_rng(3).permutation(n)
        assert (value_words(STREAM, whole.take(shuffled), names) == words[shuffled]).all()


def test_what_counts_as_the_same_value() -> None:
    one = np.zeros((2, 2), np.int64)

    def same(column: pa.Array) -> bool:
        words = value_words(STREAM, block(one, x=column), ["x"])
        return bool(words[0] == words[1])

    assert same(pa.array([0.0, -0.0]))
    assert same(pa.array([None, float("nan")], pa.float64()))
    assert same(pa.array(["a", "a"]).dictionary_encode())
    assert not same(pa.array([2**53, 2**53 + 1]))
    assert not same(pa.array([0.0, None]))
    assert not same(pa.array(["", None]))
    assert not same(pa.array(["a", "a "]))
    assert not same(pa.array([decimal.Decimal("1.00"), decimal.Decimal("1.01")]))
    assert not same(pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]))
    assert value_words(STREAM, block(one, x=pa.array(["a", None]).dictionary_encode()), ["x"]).tolist() == (
        value_words(STREAM, block(one, x=pa.array(["a", None])), ["x"]).tolist()
    )


def test_a_tuple_is_no_run_of_its_parts() -> None:
    rows = block(np.zeros((2, 2), np.int64), a=["x", "xy"], b=["yz", "z"])
    assert len(set(value_words(STREAM, rows, ["a", "b"]).tolist())) == 2


@pytest.mark.deep
@pytest.mark.parametrize("value", ["same", "own"])
def test_distributions_are_what_they_are_called(value: str) -> None:
    n = 200_000
    rows = block(x=np.full(n, 3.5) if value == "same" else np.arange(n) / 2)
    u, z = value_uniforms(STREAM, rows, ["x"]), value_normals(STREAM, rows, ["x"])
    assert z == pytest.approx(ndtri(u), rel=1e-12, abs=1e-14)
    counts = np.bincount((u * 64).astype(int), minlength=64)
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 63 + 6 * np.sqrt(126)
    others = [
        value_uniforms(STREAM, rows, ["x"], word=1),
        value_uniforms(STREAM.child("other"), rows, ["x"]),
        value_uniforms(STREAM, block(x=rows["x"] + 1), ["x"]),
    ]
    for other in others:
        assert abs(np.corrcoef(u, other)[0, 1]) < 5 / np.sqrt(n)


def test_no_rows_no_draws() -> None:
    assert len(value_normals(STREAM, block(np.empty((0, 2), np.int64), x=pa.array([], pa.float64())), ["x"])) == 0

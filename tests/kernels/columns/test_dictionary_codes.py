"""Cells as numbers of a dictionary: renumbered, counted and packed as a plain loop would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.compiled import load
from privpipe.kernels.columns import codes as dictionary_codes
from privpipe.kernels.columns.codes import append_digits, placed, renumbered

KINDS = ("int8", "int32", "int64")


@given(
    indices=st.lists(st.integers(0, 4), max_size=60),
    numbers=st.lists(st.sampled_from([0, 1, 7, 255, 256, 65_535]), min_size=5, max_size=5),
    kind=st.sampled_from(KINDS),
    compiled=st.booleans(),
)
def test_each_cell_has_the_number_of_its_value(
    indices: list[int], numbers: list[int], kind: Any, compiled: bool
) -> None:
    load()
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(dictionary_codes, "_renumber", dictionary_codes._renumber_plain)
        codes, counts = renumbered(np.array(indices, kind), np.array(numbers, np.uint16))
    assert codes.tolist() == [numbers[index] for index in indices]
    assert counts.tolist() == [codes.tolist().count(number) for number in range(max(numbers) + 1)]
    assert codes.itemsize == (1 if max(numbers) < 256 else 2)


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_that_is_none_of_the_dictionary_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match="outside a dictionary of 2 values"):
        renumbered(np.array([0, index], np.int32), np.array([1, 2], np.uint16))


@given(
    rows=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 5)), max_size=60),
    places=st.lists(st.integers(-1, 9), min_size=4, max_size=6),
    kind=st.sampled_from(["int32", "int64"]),
    compiled=st.booleans(),
)
def test_a_word_gets_the_digit_of_its_code(
    rows: list[tuple[int, int]], places: list[int], kind: Any, compiled: bool
) -> None:
    load()
    words = np.array([word for word, _ in rows], np.int64)
    codes = np.array([code for _, code in rows], np.uint8)
    digits = [places[code] if code < len(places) else -1 for code in codes.tolist()]
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(dictionary_codes, "_append", dictionary_codes._append_plain)
            patch.setattr(dictionary_codes, "_place", dictionary_codes._place_plain)
        found = placed(np.array(places, kind), codes)
        made = append_digits(words, 10, np.array(places, kind), codes)
    assert made == (found is not None) == all(digit >= 0 for digit in digits)
    assert found is None or (found.tolist() == digits and found.dtype == np.dtype(kind))
    if made:
        assert words.tolist() == [10 * word + digit for (word, _), digit in zip(rows, digits, strict=True)]


def test_no_cell_is_no_word() -> None:
    none = np.zeros(0, np.int64)
    assert append_digits(none, 10, np.zeros(0, np.int32), np.zeros(0, np.uint8))
    found = placed(np.zeros(0, np.int32), np.zeros(0, np.uint8))
    assert found is not None
    assert found.shape == (0,)
    assert placed(np.zeros(0, np.int32), np.zeros(1, np.uint8)) is None
    assert not append_digits(np.zeros(1, np.int64), 10, np.zeros(0, np.int32), np.zeros(1, np.uint8))

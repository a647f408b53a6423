"""Where CSV records begin, against Python's csv module."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.columns.csv_text import csv_structure

FIELDS = st.text(alphabet='ab",;\n ä', max_size=6)


def structure(text: str, places: list[int], delimiter: str = ",") -> object:
    return csv_structure(np.frombuffer(text.encode(), dtype=np.uint8), delimiter, places)


@given(st.lists(st.lists(FIELDS, min_size=2, max_size=3), max_size=8), st.sampled_from([",", ";"]), st.integers(1, 20))
def test_cutting_changes_no_record(rows, delimiter, size):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    data = out.getvalue().encode()
    found = csv_structure(np.frombuffer(data, dtype=np.uint8), delimiter, list(range(size, len(data), size)))
    assert (found.astray, found.unclosed) == (0, False)
    edges = [0, *found.cuts, len(data)]
    blocks = [data[start:end].decode() for start, end in pairwise(edges)]
    read = [row for block in blocks for row in csv.reader(io.StringIO(block, newline=""), delimiter=delimiter)]
    assert read == rows


@pytest.mark.parametrize(
    ("text", "astray", "unclosed"),
    [
        ('a,"b', 0, True),
        ('a,"b"', 0, False),
        ('a,"b""', 0, True),
        ('a,5" pipe\n', 0, False),
        ('a,"b"c,"d" \n', 2, False),
        ('"a"\r\n"b"\r\n', 0, False),
        ("", 0, False),
    ],
)
def test_what_is_malformed_is_counted(text, astray, unclosed):
    found = structure(text, [])
    assert (found.astray, found.unclosed) == (astray, unclosed)


def test_places_behind_the_last_record_have_no_cut():
    assert structure("a\nb\n", [1, 3, 4, 9]).cuts == (2,)

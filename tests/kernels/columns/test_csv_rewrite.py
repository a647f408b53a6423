"""CSV of any signs against Python's csv module, rewritten and cut."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.columns.csv_text import CsvSigns, csv_structure, rewritten_csv

FIELDS = st.text(alphabet="ab',;\"\\#\nä ", max_size=6)
ROWS = st.lists(st.lists(FIELDS, min_size=2, max_size=3), max_size=8)


def written(rows: list[list[str]], **dialect: object) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n", **dialect).writerows(rows)  # type: ignore[arg-type]
    return out.getvalue().encode()


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))


@given(ROWS, st.sampled_from(["'", '"', "|"]), st.booleans(), st.integers(1, 20))
def test_quotes_and_escapes_become_rfc_4180(rows, quote, escapes, size):
    dialect = {"escapechar": "\\", "doublequote": False} if escapes else {}
    data = written(rows, quotechar=quote, **dialect)
    signs = CsvSigns(",", quote, "\\" if escapes else None)
    assert read(rewritten_csv(data, signs)) == rows
    cuts = csv_structure(np.frombuffer(data, dtype=np.uint8), signs, range(size, len(data), size))
    assert (cuts.astray, cuts.unclosed) == (0, False)
    blocks = [data[start:end] for start, end in pairwise([0, *cuts.cuts, len(data)])]
    assert [row for block in blocks for row in read(rewritten_csv(block, signs))] == rows


@given(ROWS)
def test_without_quotes_only_escapes_count(rows):
    data = written(rows, quoting=csv.QUOTE_NONE, escapechar="\\", quotechar=None)
    assert read(rewritten_csv(data, CsvSigns(",", None, "\\"))) == rows


@given(ROWS, st.lists(st.text(alphabet="\"',a ", max_size=5), max_size=5))
def test_comments_are_left_out_wherever_a_record_may_begin(rows, comments):
    rows = [row for row in rows if not row[0].startswith("#")]
    data = b"".join(written([row]) + b"#" + text.encode() + b"\n" for row, text in zip(rows, comments, strict=False))
    assert read(rewritten_csv(data, CsvSigns(",", comment="#"))) == rows[: len(comments)]


@given(ROWS.map(lambda rows: [row for row in rows if any(row)]), st.integers(0, 4), st.integers(0, 2))
def test_a_footer_is_that_many_records(rows, footer, blanks):
    data = written(rows) + b"\n" * blanks
    found = csv_structure(np.frombuffer(data, dtype=np.uint8), ",", [], footer=footer)
    kept = rows[: max(len(rows) - footer, 0)] if footer else rows
    assert [row for row in read(data[: found.end]) if row] == kept


@pytest.mark.parametrize(
    ("text", "second"),
    [("a,b\n1,2\n", 4), ('#x,"\n\n1', 6), ('#x\n"a\nb",c\n1', 11), ("a", 1), ("", 0), ("#\n#", 3)],
)
def test_the_header_ends_where_its_record_does(text, second):
    signs = CsvSigns(",", comment="#")
    assert csv_structure(np.frombuffer(text.encode(), dtype=np.uint8), signs, []).second == second


def test_marks_inside_are_counted():
    text = "\ufeffa\n\ufeffb\nc\ufeff\n".encode()
    assert csv_structure(np.frombuffer(text, dtype=np.uint8)[3:], ",", []).marks == 1

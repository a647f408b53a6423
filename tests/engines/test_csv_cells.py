"""Cells of CSV files, sign by sign the same on every engine: blanks, quotes, line ends, empty and quoted empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source

RECORDS = [
    (b"1; lead;trail ", " lead", "trail "),
    (b'2;"quo""te";"new\nline"', 'quo"te', "new\nline"),
    (b'3;;""', "", ""),
    (b'4;" both ";"  "', " both ", "  "),
    (b'5;NA;"NA"', "NA", "NA"),
    (b'6;\xc3\xa9;";"', "é", ";"),
    (b'7;a"b;in "the" middle', 'a"b', 'in "the" middle'),
    (b"8;\t;\xc2\xa0", "\t", "\xa0"),
    (b'9;"two\r\nlines";"""all"""', "two\r\nlines", '"all"'),
    (b"10;null;NaN", "null", "NaN"),
]


@pytest.mark.parametrize("null_values", [("",), (), ("NA",), (" ", "", "NA")], ids=repr)
def test_cells_are_what_the_file_says(tmp_path: Path, engine: Engine, null_values: tuple[str, ...]) -> None:
    """A cell is missing where its text, quoted or not, is one of `null_values`, and nothing is trimmed."""
    read = []
    for name, line_end, last in (("unix", b"\n", b"\n"), ("windows", b"\r\n", b"")):
        path = tmp_path / f"{name}.csv"
        path.write_bytes(line_end.join([b"id;a;b", *(record for record, _, _ in RECORDS)]) + last)
        source = Source(data=str(path), format="csv", delimiter=";", null_values=null_values, types={"id": "integer"})
        rows = engine.collect(engine.scan(source)).sort_by("id")
        read.append([tuple(row.values()) for row in rows.select(["a", "b"]).to_pylist()])
    expected = [tuple(None if cell in null_values else cell for cell in cells) for _, *cells in RECORDS]
    assert read == [expected, expected]


def test_what_is_written_reads_back(tmp_path: Path, engine: Engine) -> None:
    """Blanks, quotes and line ends survive a release; an empty text is written as it would be read: missing."""
    path = tmp_path / "cells.csv"
    path.write_bytes(b"\n".join([b"id;a;b", *(record for record, _, _ in RECORDS)]) + b"\n")
    table = engine.scan(Source(data=str(path), format="csv", delimiter=";"))
    folder = tmp_path / "out"
    folder.mkdir()
    engine.write(
        engine.with_record_ids(table, "id", Seed.insecure(1)),
        str(folder),
        "csv",
        Draws(Seed.insecure(1), 0, "x").of("o"),
    )
    again = engine.scan(Source(data=str(folder), format="csv"))
    assert engine.collect(again).sort_by("id").to_pylist() == engine.collect(table).sort_by("id").to_pylist()


def test_an_empty_text_and_a_missing_one_are_distinguished(tmp_path: Path, engine: Engine) -> None:
    """Our own files quote the empty text alone, and read so they hold what was written."""
    path = tmp_path / "cells.csv"
    path.write_bytes(b'id,a,n\n1,"",\n2,NA,3\n3,x,NA\n')
    types = {"id": "integer", "n": "integer"}
    table = engine.scan(Source(data=str(path), format="csv", null_values=("NA",), types=types))
    folder = tmp_path / "out"
    folder.mkdir()
    engine.write(
        engine.with_record_ids(table, "id", Seed.insecure(1)),
        str(folder),
        "csv",
        Draws(Seed.insecure(1), 0, "x").of("o"),
    )
    again = engine.scan(Source(data=str(folder), format="csv", types=types, quoted_nulls=False))
    found = [tuple(row.values()) for row in engine.collect(again).sort_by("id").to_pylist()]
    assert found == [(1, "", None), (2, None, 3), (3, "x", None)]
    loose = engine.collect(engine.scan(Source(data=str(folder), format="csv", types=types))).sort_by("id")
    assert loose["a"].to_pylist() == [None, None, "x"]


def test_what_is_missing_in_a_single_column_reads_back(tmp_path: Path, engine: Engine) -> None:
    """It is quoted, so that its line is a record to every reader."""
    path = tmp_path / "cells.csv"
    path.write_bytes(b"a\nx\nNA\n")
    table = engine.scan(Source(data=str(path), format="csv", null_values=("NA",)))
    folder = tmp_path / "out"
    folder.mkdir()
    engine.write(
        engine.with_record_ids(table, None, Seed.insecure(1)),
        str(folder),
        "csv",
        Draws(Seed.insecure(1), 0, "x").of("o"),
    )
    again = engine.collect(engine.scan(Source(data=str(folder), format="csv", quoted_nulls=False)))
    assert sorted(again["a"].to_pylist(), key=str) == [None, "x"]

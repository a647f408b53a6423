"""Files that are not what their source says: a typed error on every engine, which quotes no cell."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pytest

from privpipe.engines import Engine, Source
from privpipe.engines.readers.text_forms import TextForm
from privpipe.engines.readers.text_records import CsvDialect, csv_blocks, read_csv_block
from privpipe.errors import DataError, UsageError

SECRET = "Jürgen-4711"
PEOPLE = f"name,pay\n{SECRET},1\nÅsa,2\n"


def zip_of(*names: str, data: bytes = PEOPLE.encode()) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, data)
    return out.getvalue()


def encrypted() -> bytes:
    """A zip whose one file says that it is encrypted."""
    data = bytearray(zip_of("a.csv"))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    return bytes(data)


BOMB = b"name,pay\n" + b"x,1\n" * 300_000
CASES = {
    "latin-1 under utf-8": (PEOPLE.encode("latin-1"), {}, {}, "not UTF-8 text"),
    "utf-16 under utf-8": (PEOPLE.encode("utf-16"), {}, {}, "byte order mark of utf-16"),
    "utf-8 under latin-1": (PEOPLE.encode(), {"encoding": "latin-1"}, {}, "all of its text is UTF-8"),
    "utf-8 mark under latin-1": (b"\xef\xbb\xbfa,b\n", {"encoding": "latin-1"}, {}, "byte order mark of utf-8"),
    "utf-8 under utf-16": (PEOPLE.encode(), {"encoding": "utf-16"}, {}, "with a byte order mark"),
    "half a utf-16": (PEOPLE.encode("utf-16")[:-1], {"encoding": "utf-16"}, {}, "not UTF-16 text"),
    "cp1252 under latin-1": ("name,pay\n€,1\n".encode("cp1252"), {"encoding": "latin-1"}, {}, "is it windows-1252"),
    "no cp1252": (b"name,pay\n\x81\xe9,1\n", {"encoding": "windows-1252"}, {}, "not Windows-1252 text"),
    "a mark inside": (PEOPLE.encode() + b"\xef\xbb\xbf" + PEOPLE.encode(), {}, {}, "1 byte order mark stands inside"),
    "unbalanced quotes": (b'name,pay\n"' + SECRET.encode() + b",1\n", {}, {}, "ends inside a quoted field"),
    "unbalanced apostrophes": (b"name,pay\n'a,1\nb',2\n'c,1\n", {"quote": "'"}, {}, "ends inside a quoted field"),
    "text behind a quote": (b"name,pay\n'a' b,1\n", {"quote": "'"}, {}, "text behind the closing quote"),
    "an escape at the end": (b"name,pay\na,1\\", {"escape": "\\"}, {}, "ends inside a quoted field"),
    "two files in a zip": (zip_of("a.csv", "b.csv"), {"compression": "zip"}, {}, "the zip holds 2 files"),
    "an empty zip": (zip_of(), {"compression": "zip"}, {}, "the zip holds 0 files"),
    "an encrypted zip": (encrypted(), {"compression": "zip"}, {}, "the zip is encrypted"),
    "no zip": (PEOPLE.encode(), {"compression": "zip"}, {}, "not a readable packed file"),
    "half a zip": (zip_of("a.csv")[:-30], {"compression": "zip"}, {}, "not a readable packed file"),
    "a zip bomb": (zip_of("a.csv", data=BOMB), {"compression": "zip"}, {"max_bytes": 1_000_000}, "1,000,000 bytes"),
    "an xz bomb": (lzma.compress(BOMB), {"compression": "xz"}, {"max_bytes": 1_000_000}, "1,000,000 bytes"),
    "half an xz": (lzma.compress(BOMB)[:-9], {"compression": "xz"}, {}, "not a readable packed file"),
    "a gz bomb": (gzip.compress(BOMB), {"compression": "gz"}, {"max_bytes": 1_000_000}, "1,000,000 bytes"),
    "much utf-16": (
        BOMB.decode().encode("utf-16"),
        {"encoding": "utf-16"},
        {"max_bytes": 1_000_000},
        "more than 1,000,000 bytes",
    ),
    "a footer of other width": (PEOPLE.encode() + b"total\n", {}, {}, "1 line of the source has another number"),
    "only a title": (b"A title\n", {"skip_rows": 3}, {}, "the file is empty"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_is_another_is_refused(engine: Engine, case: str, tmp_path: Path) -> None:
    data, form, given, told = CASES[case]
    path = tmp_path / "people.csv"
    path.write_bytes(data)
    with pytest.raises(DataError, match=told) as caught:
        engine.count(engine.scan(Source(data=str(path), form=TextForm(**form), **given)))
    assert SECRET not in str(caught.value)
    assert "4711" not in "".join(map(str, caught.value.args))


def test_cells_that_are_not_of_the_form_are_counted_by_column(engine: Engine, tmp_path: Path) -> None:
    """Under a decimal comma 1.5 is not a number, and 31/02 is not a date; nothing is guessed and nothing quoted."""
    path = tmp_path / "people.csv"
    for column, cells, bad in (
        ("pay", ["1,5", "1.5", "1.234,5", "12.34,5", "", " 7 ", "1,2,3", "1 234", "x"], 5),
        ("born", ["31/12/1999", "31/02/1999", "1999-12-31", "", "1/1/2001", "13/13/2001", "31/12/99"], 4),
        ("seen", ["1/2/2020 12:30 PM", "1/2/2020 13:30 PM", "1/2/2020", "01/02/2020 00:10 AM"], 3),
    ):
        path.write_text("\n".join([f"n;{column}", *(f"1;{cell}" for cell in cells)]), encoding="latin-1")
        form = TextForm(
            encoding="latin-1",
            decimal=",",
            thousands=".",
            date_format={"born": "%d/%m/%Y", "seen": "%m/%d/%Y %I:%M %p"},
        )
        types = {column: {"pay": "number", "born": "date", "seen": "timestamp"}[column]}
        with pytest.raises(DataError, match=f"column '{column}' is declared .*, and {bad} cells are not") as caught:
            engine.count(engine.scan(Source(data=str(path), delimiter=";", form=form, types=types)))
        assert not any(cell in str(caught.value) for cell in cells if len(cell) > 1)


def test_the_narrow_spaces_between_digits(embedded: Engine, tmp_path: Path) -> None:
    path = tmp_path / "french.csv"
    path.write_text("n;x\n1;1 234,5\n2;1\u00a0234,5\n3;1\u202f234,5\n", encoding="utf-8")
    source = Source(data=str(path), delimiter=";", form=TextForm(decimal=",", thousands=" "), types={"x": "number"})
    assert embedded.collect(embedded.scan(source))["x"].to_pylist() == [1234.5] * 3


@pytest.mark.parametrize("ending", ["xz", "zip"])
def test_json_is_unpacked_by_its_ending_too(embedded: Engine, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl.{ending}"
    data = '{"a": "é"}\n'.encode()
    path.write_bytes(lzma.compress(data) if ending == "xz" else zip_of("a.jsonl", data=data))
    assert embedded.collect(embedded.scan(Source(data=str(path))))["a"].to_pylist() == ["é"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("size", [1, 7, 50, 10**6])
def test_blocks_of_any_size_hold_the_same_records(encoding: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"'é, {n}\n',{n}\\,{n}" for n in range(40)]
    text = "title\n# no\na,b\n" + "\n".join(rows) + "\n#end\ntotal,\n\n"
    path.write_text(text, encoding=encoding, newline="")
    form = TextForm(encoding=encoding, quote="'", escape="\\", comment="#", skip_rows=1, footer=1)
    dialect = CsvDialect(("a", "b"), ",", True, ("",), form=form)
    blocks = csv_blocks(str(path), dialect, size)
    batches = [read_csv_block(block, dialect) for block in blocks]
    assert [row["b"] for batch, _ in batches for row in batch.to_pylist()] == [f"{n},{n}" for n in range(40)]
    assert sum(ragged for _, ragged in batches) == 0
    if size == 7 and encoding != "utf-16":
        assert len(blocks) > 30


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"encoding": "ebcdic"}, "encoding: must be one of"),
        ({"quote": "''"}, "quote: must be a single"),
        ({"comment": '"'}, "comment: '\"' is the quote already"),
        ({"escape": "\n"}, "escape: must be"),
        ({"thousands": "."}, "thousands: '.' is the decimal sign"),
        ({"decimal": "5"}, "decimal: '5' belongs to numbers"),
        ({"skip_rows": -1}, "skip_rows: must be at least 0"),
        ({"date_format": "%d/%m"}, "date_format: needs a year"),
        ({"date_format": {"born": "%d.%m.%Y %q"}}, r"date_format: %q is not known.*column 'born'"),
        ({"date_format": "%d %m %Y %d"}, "names a part twice"),
        ({"date_format": "%d %m %Y %I"}, "an hour is"),
        ({"date_format": "%d %m %Y %M"}, "minutes need an hour"),
    ],
)
def test_a_form_that_means_nothing_is_refused(given: dict, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TextForm(**given)

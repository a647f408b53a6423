"""One table, as plain UTF-8 CSV and in every other form; each is written here by the standard library alone."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from privpipe.engines import Source
from privpipe.engines.readers.text_forms import TextForm

TYPES = {"id": "integer", "pay": "number", "sum": "decimal", "born": "date", "seen": "timestamp"}
NAMES = ["id", "name", "pay", "sum", "born", "seen"]
ROWS = [
    ("1", 'Zoë; "the" Ärztin', "1234.5", "1234567.89", "1999-12-31", "2024-02-29 23:05:00"),
    ("2", "O'Neil, Åse", "-0.25", "-12.50", "1969-01-02", "2024-03-01 00:00:00"),
    ("3", "two\nlines", "", "0.00", "", ""),
    ("1000", "", "7", "", "2024-02-29", "1999-01-01 12:30:59"),
    ("5", "#5 \\ back", "1e3", "999999.99", "2001-10-05", "2001-10-05 01:02:03"),
] + [(str(n), f"né {n}", f"{n}.5", f"{n}.25", "1980-05-17", "2020-01-01 10:00:00") for n in range(6, 60)]


def quoted(text: str, quote: str = '"') -> str:
    return quote + text.replace(quote, quote * 2) + quote


def csv_text(delimiter: str = ",", cell: Callable[[str, str], str] = lambda _name, text: text) -> str:
    lines = [delimiter.join(NAMES)]
    for row in ROWS:
        cells = [cell(name, text) for name, text in zip(NAMES, row, strict=True)]
        lines.append(delimiter.join(quoted(text) if text else "" for text in cells))
    return "\n".join(lines) + "\n"


def german(name: str, text: str) -> str:
    """Decimal commas, dots between thousands, days first."""
    if name in ("pay", "sum", "id") and text and "e" not in text:
        whole, _, fraction = text.partition(".")
        return (
            f"{int(whole):,}".replace(",", ".").replace("0", "-0" if text.startswith("-0") else "0", 1)
            + (f",{fraction}" if fraction else "")
            if text.startswith("-0")
            else f"{int(whole):,}".replace(",", ".") + (f",{fraction}" if fraction else "")
        )
    return days_first(name, text)


def days_first(name: str, text: str) -> str:
    if name == "born" and text:
        year, month, day = text.split("-")
        return f"{int(day)}/{month}/{year}"
    if name == "seen" and text:
        year, month, day = text[:10].split("-")
        return f"{day}.{month}.{year} {text[11:]}"
    return text


def padded(_name: str, text: str) -> str:
    return f"  {text}\t "


def apostrophes(delimiter: str = ",") -> str:
    """Quoted by an apostrophe."""
    lines = [delimiter.join(NAMES)]
    lines += [delimiter.join(quoted(text, "'") if text else "" for text in row) for row in ROWS]
    return "\n".join(lines) + "\n"


def escaped(delimiter: str = ",") -> str:
    """Nothing quoted: delimiters, quotes, line ends and the sign itself behind a backslash."""
    lines = [delimiter.join(NAMES)]
    for row in ROWS:
        lines.append(
            delimiter.join(
                "".join("\\" + sign if sign in f'{delimiter}"\n\\' else sign for sign in text) for text in row
            )
        )
    return "\n".join(lines) + "\n"


def commented() -> str:
    lines = csv_text().split("\n")
    return "\n".join(['# a title, and "quotes', lines[0], "#", *lines[1:3], "#1,2,3", *lines[3:-1], "# end"])


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("a")
        archive.writestr("a/people.csv", data)
        archive.writestr("__MACOSX/a/._people.csv", b"x")
    return out.getvalue()


@dataclass(frozen=True)
class Form:
    """A file, and how its source is described."""

    name: str
    data: bytes
    form: TextForm = field(default_factory=TextForm)
    delimiter: str = ","
    header: bool = True
    types: dict[str, str] = field(default_factory=lambda: dict(TYPES))

    def source(self, folder: Path) -> Source:
        path = folder / self.name
        path.write_bytes(self.data)
        given: dict[str, Any] = {} if self.header else {"columns": tuple(NAMES)}
        return Source(
            data=str(path), format="csv", delimiter=self.delimiter, header=self.header, form=self.form,
            types=self.types, **given,
        )  # fmt: skip


PLAIN = csv_text()
BYTES = PLAIN.encode()
DAYS_FIRST = {"born": "%d/%m/%Y", "seen": "%d.%m.%Y %H:%M:%S"}
NUMBERS = TextForm(decimal=",", thousands=".", date_format=DAYS_FIRST)
TOP = 'Report of the hospital, "2024\nprinted today\n\n'
TOTALS = "Total,,99,,,\n\nn=59\n\n"
FORMS = [
    Form("bom.csv", b"\xef\xbb\xbf" + BYTES),
    Form("bom_no_header.csv", b"\xef\xbb\xbf" + BYTES.split(b"\n", 1)[1], header=False),
    Form("windows_lines.csv", BYTES.replace(b"\n", b"\r\n").replace(b"two\r\nlines", b"two\nlines")),
    Form("utf16.csv", PLAIN.encode("utf-16"), TextForm(encoding="utf-16")),
    Form("utf16be.csv", b"\xfe\xff" + PLAIN.encode("utf-16-be"), TextForm(encoding="utf-16")),
    Form("utf16le_no_bom.csv", PLAIN.encode("utf-16-le"), TextForm(encoding="utf-16-le")),
    Form("latin1.csv", PLAIN.encode("latin-1"), TextForm(encoding="latin-1")),
    Form("cp1252.csv", PLAIN.encode("cp1252"), TextForm(encoding="windows-1252")),
    Form("german.csv", csv_text(";", german).encode("latin-1"), replace(NUMBERS, encoding="latin-1"), ";"),
    Form("german16.csv", csv_text(";", german).encode("utf-16"), replace(NUMBERS, encoding="utf-16"), ";"),
    Form("dates.csv", csv_text(",", days_first).encode(), TextForm(date_format=DAYS_FIRST)),
    Form("padded.csv", csv_text(",", padded).replace("id,", " id ,").encode(), TextForm(trim=True)),
    Form("spaced.csv", BYTES.replace(b'","', b'" , "').replace(b"id,name", b"id , name"), TextForm(trim=True)),
    Form("apostrophes.csv", apostrophes().encode(), TextForm(quote="'")),
    Form("unquoted.csv", escaped().encode(), TextForm(quote="none", escape="\\")),
    Form("tabs.tsv", escaped("\t").encode("cp1252"), TextForm(escape="\\", encoding="windows-1252"), "\t"),
    Form("comments.csv", commented().encode(), TextForm(comment="#")),
    Form("above_below.csv", (TOP + PLAIN + TOTALS).encode(), TextForm(skip_rows=3, footer=2)),
    Form(
        "above_below_no_header.csv",
        (TOP + PLAIN.split("\n", 1)[1] + TOTALS.strip()).encode("utf-16"),
        TextForm(skip_rows=3, footer=2, encoding="utf-16"),
        header=False,
    ),
    Form("all.csv.gz", gzip.compress(BYTES)),
    Form("all.csv.bz2", bz2.compress(BYTES)),
    Form("all.csv.xz", lzma.compress(BYTES)),
    Form("all.csv.zst", pa.Codec("zstd").compress(BYTES, asbytes=True)),
    Form("all.csv.zip", zipped(BYTES)),
    Form("zipped.dat", zipped(PLAIN.encode("utf-16")), TextForm(compression="zip", encoding="utf-16")),
    Form("not_packed.gz", BYTES, TextForm(compression="none")),
]

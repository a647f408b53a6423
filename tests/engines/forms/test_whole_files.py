"""Arrow, Stata, SPSS, SAS and Excel files hold what the same plain CSV holds, on every engine."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, orc

from privpipe.engines import Engine, Source
from privpipe.engines.readers.text_forms import TextForm
from privpipe.errors import DataError
from tests.engines.forms.test_golden_forms import Ids

from privpipe.blocks import Facts  # isort: skip
from privpipe.draws import Seed  # isort: skip

TYPES = {"id": "integer", "pay": "number", "born": "date"}
ROWS = [
    (n, f"Zoë {n % 5}" if n % 7 else None, n + 0.5 if n % 4 else None, date(1960 + n % 50, 2, 1 + n % 28))
    for n in range(60)
]
TABLE = pa.table(dict(zip(["id", "name", "pay", "born"], map(list, zip(*ROWS, strict=True)), strict=True)))
SECRET = "Zoë"


def frame() -> pd.DataFrame:
    found = TABLE.to_pandas()
    found["born"] = pd.to_datetime(found["born"])
    return found


def write_arrow(path: Path) -> None:
    with ipc.new_file(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE.replace_schema_metadata({"made by": "Canary"}))


def write_stream(path: Path) -> None:
    with ipc.new_stream(str(path), TABLE.schema) as sink:
        sink.write_table(TABLE)


def write_feather(path: Path) -> None:
    feather.write_feather(TABLE, str(path), compression="zstd")


def write_orc(path: Path) -> None:
    orc.write_table(TABLE, str(path), compression="zstd")


def write_stata(path: Path) -> None:
    made = frame()
    made["name"] = made["name"].fillna("")
    made.to_stata(path, write_index=False, version=118, convert_dates={"born": "td"})


def write_spss(path: Path) -> None:
    made = frame()
    made["born"] = made["born"].dt.date
    pytest.importorskip("pyreadstat").write_sav(made, str(path))


def write_sas(path: Path) -> None:
    made = frame()[["id", "name", "pay", "born"]]
    made["born"] = made["born"].dt.date
    pytest.importorskip("pyreadstat").write_xport(made, str(path), file_format_version=5)


def write_excel(path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    sheet = book.active
    sheet.append(["Visits of 2024"])
    sheet.append([" id", "name ", "pay", "born"])
    for number, name, pay, born in ROWS:
        sheet.append([number, name and f"{name} ", pay, datetime.combine(born, datetime.min.time())])
    sheet.append(["Total", None, 1234.5])
    book.save(path)


FORMATS = {
    "a.arrow": (write_arrow, {}),
    "b.arrow": (write_stream, {}),
    "c.feather": (write_feather, {}),
    "c.orc": (write_orc, {}),
    "d.dta": (write_stata, {"missing": ""}),
    "e.sav": (write_spss, {"missing": ""}),
    "g.xlsx": (write_excel, {"form": TextForm(skip_rows=1, footer=1, trim=True)}),
}


def read(engine: Engine, source: Source) -> tuple[list[Any], Any]:
    table = engine.with_record_ids(engine.scan(source), None, Seed.insecure(7))
    return engine.collect(table).sort_by("id").to_pylist(), engine.reduce_rows(table, ["id"], Ids(), Facts())


@pytest.mark.parametrize("name", FORMATS)
def test_rows_and_ids_are_those_of_plain_csv(engine: Engine, name: str, tmp_path: Path) -> None:
    write, given = FORMATS[name]
    path = tmp_path / name
    write(path)
    plain = TABLE.to_pylist()
    if "missing" in given:  # these formats have no missing text
        plain = [{**row, "name": row["name"] or ""} for row in plain]
    quoted = (["" if cell is None else f'"{cell}"' for cell in row.values()] for row in plain)
    lines = [",".join(cells) for cells in quoted]
    (tmp_path / "plain.csv").write_text("\n".join(["id,name,pay,born", *lines]) + "\n", encoding="utf-8")
    csv = Source(data=str(tmp_path / "plain.csv"), types=TYPES, quoted_nulls="missing" not in given)
    expected, ids = read(engine, csv)
    assert expected == plain
    found = read(engine, Source(data=str(path), types=TYPES, **{k: v for k, v in given.items() if k == "form"}))
    assert found == (expected, ids)


def test_value_labels_represent_codes(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "labels.dta"
    made = pd.DataFrame({"id": [1, 2], "sex": pd.Categorical(["female", "male"])})
    made.to_stata(path, write_index=False)
    assert engine.collect(engine.scan(Source(data=str(path)))).sort_by("id")["sex"].to_pylist() == ["female", "male"]


def test_a_folder_of_arrow_files_is_one_table(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    for at in range(3):
        with ipc.new_file(str(folder / f"{at}.arrow"), TABLE.schema) as sink:
            sink.write_table(TABLE.slice(at * 20, 20))
    table = engine.scan(Source(data=str(folder), format="arrow"))
    assert engine.collect(table).sort_by("id").to_pylist() == TABLE.to_pylist()
    with ipc.new_file(str(folder / "9.arrow"), pa.schema({"id": pa.string()})) as sink:
        pass
    with pytest.raises(DataError, match=r"9\.arrow: column 'name' is missing, which 0\.arrow has"):
        engine.scan(Source(data=str(folder), format="arrow"))


def test_arrow_files_of_several_types_take_the_widest(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()

    def add(name: str, column: pa.Array) -> None:
        with ipc.new_file(str(folder / name), pa.schema([("q", column.type)])) as sink:
            sink.write_table(pa.table({"q": column}))

    add("0.arrow", pa.array([0.1], pa.float32()))
    add("1.arrow", pa.array([0.1, 2.0]))
    add("2.arrow", pa.nulls(1))
    add("3.arrow", pa.array([3]))
    found = engine.collect(engine.scan(Source(data=str(folder), format="arrow")))["q"].to_pylist()
    assert sorted(found, key=str) == [0.1, 0.10000000149011612, 2.0, 3.0, None]
    add("4.arrow", pa.array([2**53 + 1]))
    with pytest.raises(DataError, match=r"4\.arrow: column 'q': values of int64 that double"):
        engine.scan(Source(data=str(folder), format="arrow"))


def test_sas_transport_files_keep_numbers_and_texts(embedded: Engine, tmp_path: Path) -> None:
    write_sas(tmp_path / "f.xpt")
    table = embedded.scan(Source(data=str(tmp_path / "f.xpt"), types={"id": "integer"}))
    found = embedded.collect(table).sort_by("id").to_pylist()
    assert [(row["id"], row["pay"]) for row in found] == [(row[0], row[2]) for row in ROWS]


@pytest.mark.parametrize("name", ["a.arrow", "d.dta", "e.sav", "f.xpt", "g.xlsx"])
@pytest.mark.parametrize("damage", ["half", "other", "empty"])
def test_damaged_files_are_named_and_not_quoted(embedded: Engine, name: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / name
    {**{key: write for key, (write, _) in FORMATS.items()}, "f.xpt": write_sas}[name](path)
    data = path.read_bytes()
    path.write_bytes({"half": data[: len(data) // 2], "other": f"id,name\n1,{SECRET}\n".encode(), "empty": b""}[damage])
    if name == "f.xpt" and damage == "half":
        pytest.skip("a SAS transport file does not say how many records it has")
    with pytest.raises(DataError, match=rf"^{name}: not a readable") as caught:
        embedded.scan(Source(data=str(path)))
    assert SECRET not in str(caught.value)


def test_spreadsheets_say_which_sheet_and_how_much(embedded: Engine, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    book.active.title = "one"
    for sheet in (book.active, book.create_sheet("two")):
        sheet.append(["id", "flag", "part", None])
        sheet.append([1.0, True, 0.25, None])
        sheet.append([2, "NA", "1e3"])
    book["one"].append([3, False, None, "beyond"])
    book.save(path)
    with pytest.raises(DataError, match="has 2 sheets; `sheet:` of the source names one"):
        embedded.scan(Source(data=str(path)))
    with pytest.raises(DataError, match="1 rows have cells beyond the 3 columns"):
        embedded.scan(Source(data=str(path), sheet="one"))
    types = {"id": "integer", "flag": "boolean", "part": "number"}
    source = Source(data=str(path), sheet="two", types=types, null_values=("", "NA"))
    assert embedded.collect(embedded.scan(source)).to_pylist() == [
        {"id": 1, "flag": True, "part": 0.25},
        {"id": 2, "flag": None, "part": 1000.0},
    ]
    with pytest.raises(DataError, match="column 'part' is declared integer, and 2 cells are not"):
        embedded.scan(Source(data=str(path), sheet="two", types={"part": "integer"}))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * 10_000_000)
    path.write_bytes(bomb.getvalue())
    with pytest.raises(DataError, match="unpacks to more than 1,000,000 bytes"):
        embedded.scan(Source(data=str(path), max_bytes=1_000_000))

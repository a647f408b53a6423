"""The format of a source in a policy: read, refused with its place, in the schema, and never released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, PolicyError
from privpipe.policy import Policy, json_schema
from privpipe.policy.grammar import SOURCE

KEYS: dict[str, Any] = {
    "encoding": "windows-1252",
    "compression": "none",
    "skip_rows": 1,
    "footer": 1,
    "quote": "'",
    "escape": "\\",
    "comment": "#",
    "trim": True,
    "decimal": ",",
    "thousands": ".",
    "date_format": {"born": "%d/%m/%Y"},
}


def document(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "source": {"path": "people.csv", **source},
        "columns": {
            "zip": {"role": "quasi_identifier"},
            "born": {"role": "insensitive", "type": "date"},
            "pay": {"role": "insensitive", "type": "number"},
        },
        "guarantees": [{"k_anonymity": {"k": 2}}],
        **more,
    }


def test_every_key_reaches_the_reader() -> None:
    source = Policy.from_dict(document(KEYS)).source
    assert source is not None
    assert {name: getattr(source.to_source({}, Path()).form, name) for name in KEYS} == KEYS


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"encoding": "latin1"}, "source.encoding: must be one of.*did you mean 'latin-1'"),
        ({"skip_rows": -1}, "source.skip_rows: must be at least 0"),
        ({"footer": "1"}, "source.footer: must be an integer"),
        ({"max_bytes": 0}, "source.max_bytes: must be at least 1, got 0"),
        ({"trim": "yes"}, "source.trim: must be true or false"),
        ({"quote": ","}, "source.quote: ',' is the delimiter already"),
        ({"decimal": ",", "thousands": ","}, "source.thousands: ',' is the decimal sign already"),
        ({"date_format": {"born": "%d/%m"}}, r"source.date_format: needs a year.*\(column 'born'\)"),
        ({"date_format": ["%d/%m/%Y"]}, "source.date_format: must be a text, or a mapping to texts"),
        ({"date_format": {"pay": "%d/%m/%Y"}}, "source.date_format.pay: column 'pay' is declared number"),
        ({"date_format": {"when": "%d/%m/%Y"}}, "source.date_format.when: column 'when' is not declared a date"),
        ({"path": "people.parquet", "encoding": "latin-1"}, "source.encoding: is for CSV files; the"),
        ({"encodings": "latin-1"}, "unknown key.*did you mean 'encoding'"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_at_its_place(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        Policy.from_dict(document(keys))


def test_the_schema_knows_the_keys_and_their_values() -> None:
    schema = json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(document(KEYS))
    validator.validate(document({"date_format": "%d/%m/%Y"}))
    for wrong in ({"encoding": "ebcdic"}, {"footer": "1"}, {"date_format": 7}, {"compression": "rar"}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(document(wrong))
    assert set(schema["$defs"]["source"]["properties"]) == set(SOURCE)


def test_a_release_shows_nothing_of_how_its_source_was_written(tmp_path: Path) -> None:
    """The same people from two files: one set of cells; titles, totals and comments are nowhere."""
    plain = "zip,born,pay\n" + "".join(f"1010{n % 2},{1990 + n % 3}-12-31,{1000 + n}.5\n" for n in range(20))
    lines = [f"'1010{n % 2} ';31/12/{1990 + n % 3};1.{n:03},5" for n in range(20)]
    made = "Canary title\nzip;born;pay\n#Canary comment\n" + "\n".join(lines) + "\nTotal;;21.190,0\n"
    released = {}
    for name, data, keys in (
        ("plain", plain.encode(), {}),
        ("made", made.encode("cp1252"), {**KEYS, "delimiter": ";"}),
    ):
        home = tmp_path / name
        home.mkdir()
        (home / "people.csv").write_bytes(data)
        sink = {"path": str(home / "out"), "format": "csv"}
        policy = Policy.from_dict(
            document(keys, sink=sink, name="people", seed={"insecure": 7}, allow_insecure_seed=True), base_dir=home
        )
        pp.release(policy)
        found = [part for part in (home / "out").rglob("*") if part.is_file()]
        assert not [part for part in found if b"Canary" in part.read_bytes() or b"Total" in part.read_bytes()]
        rows = [line for part in found if part.suffix == ".csv" for line in part.read_text().splitlines()[1:]]
        released[name] = sorted(rows)
        verdict = json.loads((home / "out" / "_privpipe" / "verdict.json").read_text())
        assert verdict["records"] == 20
    assert released["plain"] == released["made"]


def test_a_footer_takes_no_record_of_a_finished_table_from_the_judgement(tmp_path: Path) -> None:
    """`footer` and `skip_rows` speak of the policy's own source; a table made elsewhere is judged in whole."""
    (tmp_path / "people.csv").write_text("title\nzip,born,pay\n1,,\n1,,\ntotal,,\n")
    (tmp_path / "made.csv").write_text("zip,born,pay\n1,,\n1,,\n2,,\n")
    policy = Policy.from_dict(document({"skip_rows": 1, "footer": 1}), base_dir=tmp_path)
    assert pp.assess(str(tmp_path / "people.csv"), policy).passed
    assert not pp.assess(str(tmp_path / "made.csv"), policy).passed


def test_a_finished_table_is_not_asked_for_the_partitions_of_the_source(tmp_path: Path) -> None:
    for folder in ("lake/zip=1", "made"):
        (tmp_path / folder).mkdir(parents=True)
    rows = pa.table({"born": pa.array([None, None], pa.date32()), "pay": [1.5, 2.5]})
    pq.write_table(rows, tmp_path / "lake" / "zip=1" / "a.parquet")
    pq.write_table(rows.append_column("zip", pa.array(["1", "1"])), tmp_path / "made" / "a.parquet")
    policy = Policy.from_dict(document({"path": "lake", "format": "parquet", "partitions": ["zip"]}), base_dir=tmp_path)
    assert pp.assess(str(tmp_path / "lake"), policy).passed
    assert pp.assess(str(tmp_path / "made"), policy).passed


def test_cells_of_another_form_are_counted_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("zip;born;pay\n1;1999-12-31;4711.25\n1;;4711.5\n")
    policy = Policy.from_dict(document({"delimiter": ";", "decimal": ","}), base_dir=tmp_path)
    with pytest.raises(DataError, match="column 'pay' is declared number, and 2 cells are not") as caught:
        pp.release(policy, target=str(tmp_path / "out"))
    assert "4711" not in str(caught.value)

"""What `init` and `doctor` make of files as offices write them: the `source:` that reads them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.policy import Policy
from privpipe.running.run_context import source_of
from tests.tiers import deep, deep_beyond

CANARY = "Zoë Canary"
NAMES = ["name", "amount", "born", "town"]
PEOPLE = [(f"{CANARY} {n}", 1000 + n * 7.25, date(1960 + n % 40, 1 + n % 12, 1 + n % 28), "Köln") for n in range(200)]


def table(
    delimiter: str = ",",
    number: Callable[[float], str] = lambda value: f"{value:.2f}",
    day: str = "%Y-%m-%d",
    pad: str = "",
    quote: str = "",
) -> str:
    """People as lines of text."""
    lines = [delimiter.join(NAMES)]
    for name, pay, born, town in PEOPLE:
        lines.append(delimiter.join([quote + name + quote + pad, number(pay), f"{born:{day}}", town + pad]))
    return "\n".join(lines) + "\n"


def comma(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def german(value: float) -> str:
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("people.csv", data)
    return out.getvalue()


GOLDEN: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain": (table().encode(), {}),
    "utf-8 with a mark": (table().encode("utf-8-sig"), {}),
    "latin-1": (table().encode("latin-1"), {"encoding": "latin-1"}),
    "windows-1252": (table().replace("Köln", "Köln €").encode("cp1252"), {"encoding": "windows-1252"}),
    "utf-16": (table().encode("utf-16"), {"encoding": "utf-16"}),
    "utf-16-be": (table().encode("utf-16-be"), {"encoding": "utf-16-be"}),
    "decimal commas": (table(";", comma).encode(), {"delimiter": ";", "decimal": ","}),
    "thousands": (table(";", german).encode(), {"delimiter": ";", "decimal": ",", "thousands": "."}),
    "days first": (table(day="%d/%m/%Y").encode(), {"date_format": {"born": "%d/%m/%Y"}}),
    "months first": (table(day="%m/%d/%Y").encode(), {"date_format": {"born": "%m/%d/%Y"}}),
    "months in words": (table(day="%d %b %Y").encode(), {"date_format": {"born": "%d %b %Y"}}),
    "trailing spaces": (table(pad="   ").encode(), {"trim": True}),
    "totals": ((table() + "Total,369418.75,,\n").encode(), {"footer": 1}),
    "totals and a note": ((table() + "\nTotal,369418.75,,\nSource: the registry\n\n").encode(), {"footer": 2}),
    "a title": (("Visits of 2024\n\n" + table()).encode(), {"skip_rows": 2}),
    "apostrophes": (table(quote="'").encode(), {"quote": "'"}),
    "all at once": (
        ("Besuche 2024;;\n" + table(";", german, "%d.%m.%Y", " ") + "Summe;1.369.418,75;;\n").encode("utf-16"),
        {
            "delimiter": ";",
            "encoding": "utf-16",
            "skip_rows": 1,
            "footer": 1,
            "trim": True,
            "decimal": ",",
            "thousands": ".",
            "date_format": {"born": "%d.%m.%Y"},
        },
    ),
    "packed under another name": (
        gzip.compress(table().encode("latin-1")),
        {"compression": "gz", "encoding": "latin-1"},
    ),
    "a zip": (zipped(table().encode()), {"compression": "zip"}),
    "bz2": (bz2.compress(table(";", comma).encode()), {"compression": "bz2", "delimiter": ";", "decimal": ","}),
}


def read_back(engine: Engine, policy: Policy) -> list[tuple[Any, ...]]:
    assert policy.source is not None
    found = engine.scan(policy.source.to_source(policy.types, policy.base_dir))
    rows = engine.collect(engine.with_record_ids(found, "name", Seed.insecure(1)))
    return sorted(tuple(row[name] for name in NAMES) for row in rows.to_pylist())


USUAL = ("plain", "windows-1252", "utf-16", "decimal commas", "days first", "all at once", "a zip")
"""One of each kind is read back in `make test`; of every other one `doctor` guesses the source there."""


@pytest.mark.parametrize("case", [case if case in USUAL else deep(case) for case in GOLDEN])
def test_init_writes_the_source_that_reads_the_file(run: Any, embedded: Engine, case: str, tmp_path: Path) -> None:
    data, keys = GOLDEN[case]
    path = tmp_path / "people.csv"
    path.write_bytes(data)
    out = tmp_path / "release.yaml"
    done = run("init", path, "--bare", "--out", out)
    assert done.exit_code == 0, done.output
    assert "Canary" not in done.output + out.read_text(encoding="utf-8")
    policy = Policy.load(out)
    assert policy.document["source"] == {"path": "people.csv", "format": "csv", "delimiter": ",", **keys}
    assert policy.types == {"name": "text", "amount": "number", "born": "date", "town": "text"}
    expected = sorted(
        (name, round(pay, 2), born, "Köln €" if "1252" in case else town) for name, pay, born, town in PEOPLE
    )
    assert read_back(embedded, policy) == expected


@pytest.mark.parametrize("case", deep_beyond(6, GOLDEN))
def test_doctor_prints_the_same_source(run: Any, case: str, tmp_path: Path) -> None:
    data, keys = GOLDEN[case]
    path = tmp_path / "people.csv"
    path.write_bytes(data)
    done = run("doctor", path, "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    told = checks[f"file {path}"]
    assert told["state"] == "ok"
    assert "Canary" not in done.output
    for name, value in keys.items():
        assert f"{name}: " in told["remedy"], value


def test_doctor_says_what_a_file_is(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(GOLDEN["all at once"][0])
    done = run("doctor", path)
    for part in ("utf-16", "delimiter ';'", "decimal sign ','", "thousands '.'", "born as %d.%m.%Y", "1 line above"):
        assert part in done.output.replace("\n", " "), part
    assert "1 line of totals or notes below" in done.output
    assert "source: {path:" in done.output


def test_days_and_months_that_fit_both_are_reported(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,seen\n" + "".join(f"{n},0{1 + n % 9}/0{1 + n % 7}/2020\n" for n in range(60)))
    done = run("init", path)
    assert "# UNSURE: seen: day first, or month first?" in done.output
    both = tmp_path / "both.csv"
    both.write_text(
        "id,seen,left\n" + "".join(f"{n},0{1 + n % 9}/0{1 + n % 7}/2020,01/{13 + n % 9}/2020\n" for n in range(9))
    )
    done = run("init", both)
    assert "UNSURE" not in done.output
    assert done.output.count("%m/%d/%Y") == 2


def test_a_record_that_is_cut_short_is_not_a_footer(run: Any, tmp_path: Path) -> None:
    """A truncated file is refused and not trimmed."""
    path = tmp_path / "people.csv"
    path.write_text(table() + "Zoë Can")
    done = run("init", path)
    assert "footer" not in done.output or done.exit_code == 3
    assert done.exit_code == 3


@pytest.mark.parametrize("taken", [False, True])
def test_a_first_column_without_a_name_is_an_index_and_is_left_out(
    run: Any, embedded: Engine, tmp_path: Path, taken: bool
) -> None:
    first = "index" if taken else "age"
    rows = [f"{at},{20 + at % 7},{'fm'[at % 2]}" for at in range(60)]
    (tmp_path / "frame.csv").write_text("\n".join([f",{first},sex", *rows]) + "\n")
    done = run("init", tmp_path / "frame.csv", "--bare", "--out", tmp_path / "release.yaml")
    assert done.exit_code == 0, done.output
    assert "NO HEADER" not in done.stderr
    policy = Policy.load(tmp_path / "release.yaml")
    assert policy.source is not None
    index = "index_1" if taken else "index"
    read = embedded.scan(source_of(policy))
    assert (read.schema.names, embedded.count(read)) == ([index, first, "sex"], 60)
    assert index in policy.roles.unreleased


def test_a_file_without_names_is_reported_at_once(run: Any, tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("".join(f"{20 + at % 7},{'fm'[at % 2]}\n" for at in range(60)))
    done = run("init", tmp_path / "bare.csv", "--bare", "--out", tmp_path / "release.yaml")
    assert "NO HEADER" in done.stderr
    assert "--columns" in done.stderr
    named = run("init", tmp_path / "bare.csv", "--bare", "--columns", "age,sex")
    assert "NO HEADER" not in named.stderr

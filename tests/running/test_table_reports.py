"""Pages and records of releases of tables: what each edition shows, and that verification makes the page again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import Refused
from privpipe.record import verify
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments

ASKED = [{"minimum_frequency": {"at_least": 3}}, {"p_percent": {"at_least": 10}}, {"table_audit": {}}]


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A policy of two tables over some visits, of which the West's are few and dear."""
    rows = [("north", "f", 10), ("north", "m", 11), ("south", "f", 12), ("south", "m", 13)] * 6
    rows += [("west", "f", 987_654), ("west", "m", 7), ("west", "m", 9), ("west", "m", 8)]
    visits = pd.DataFrame(rows, columns=["region", "sex", "cost"])
    visits.to_parquet(tmp_path / "visits.parquet")
    responses = ["count", {"sum": "cost", "decimals": 2}, {"mean": "cost", "decimals": 2}]
    tables = {"visits": {"by": ["region", "sex"], "responses": responses}}

    def made(**changes: Any) -> dict[str, Any]:
        return {
            "version": 1,
            "columns": {
                "region": {"role": "quasi_identifier"},
                "sex": {"role": "quasi_identifier"},
                "cost": {"role": "insensitive"},
            },
            "source": {"path": str(tmp_path / "visits.parquet")},
            "sink": {"path": str(tmp_path / "out")},
            "seed": {"insecure": "tables"},
            "allow_insecure_seed": True,
            "transform": [{"aggregate": {"tables": tables}}, {"suppress_table": {}}],
            "guarantees": ASKED,
            **changes,
        }

    return made


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_verification_makes_the_page_again(policy: Callable[..., dict[str, Any]], tmp_path: Path, kind: str) -> None:
    path = Path(pp.release(policy(sink={"path": str(tmp_path / "out"), "format": kind})).path)
    checks = {each.name: each for each in verify(str(path)).checks}
    assert checks["report"].outcome == "holds"
    assert verify(str(path)).sound
    page = path / "_privpipe" / "report.html"
    page.chmod(0o644)
    page.write_text(page.read_text().replace("suppressed", "shown", 1))
    assert {each.name for each in verify(str(path)).broken} == {"report"}


def test_a_page_whose_table_was_changed_is_broken(policy: Callable[..., dict[str, Any]]) -> None:
    path = Path(pp.release(policy()).path)
    (path / "visits.parquet").unlink()
    assert {each.name for each in verify(str(path)).broken} == {"files", "report"}


def test_the_public_folder_shows_nothing_of_hidden_figures(policy: Callable[..., dict[str, Any]]) -> None:
    result = pp.release(policy())
    path = Path(result.path)
    table = pyarrow.parquet.read_table(path / "visits.parquet").to_pandas()
    hidden = table["count_status"] == "c"
    assert hidden.sum() >= 4
    assert table.loc[hidden, ["count", "sum_cost", "mean_cost"]].isna().all().all()
    for file in path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"987654" not in content, file
            assert not re.search(rb"primary|secondary", content), file
            assert (98765400).to_bytes(8, "little") not in content, file
    metadata = pyarrow.parquet.ParquetFile(path / "visits.parquet").metadata
    assert metadata.metadata is None or set(metadata.metadata) <= {b"ARROW:schema"}
    for at in range(metadata.num_columns):
        column = metadata.row_group(0).column(at)
        name, statistics = column.path_in_schema, column.statistics
        shown = table[name].dropna()
        if statistics is not None and statistics.has_min_max and len(shown):
            assert (statistics.min, statistics.max) == (shown.min(), shown.max()), name


def test_the_public_page_draws_the_table_with_hatched_blanks_and_no_interval(
    policy: Callable[..., dict[str, Any]],
) -> None:
    path = Path(pp.release(policy()).path)
    page = (path / "_privpipe" / "report.html").read_text()
    assert "Public edition." in page
    assert page.count('class="hidden" title="suppressed"') >= 12
    assert not re.search(r"attacker|interval|contributors</th>", page)
    assert re.search(r"By the number of dimensions that are not the total: 0: \d of 3; 1: \d+ of 15; 2: 12 of 18", page)
    assert pp.report(path, format="html") == page


def test_the_private_record_has_the_interval_of_each_hidden_figure(policy: Callable[..., dict[str, Any]]) -> None:
    result = pp.release(policy())
    record = Path(result.record)
    assert (record / "cells.json").stat().st_mode & 0o777 == 0o600
    cells = json.loads((record / "cells.json").read_text())
    rows = cells["tables"]["visits"]
    public = pyarrow.parquet.read_table(Path(result.path) / "visits.parquet").to_pandas()
    assert len(rows) == 2 * (public["count_status"] == "c").sum()  # of counts and of sums
    for row in rows:
        assert row["interval"] == "open"
        assert float(row["low"]) <= float(row["value"])
        assert row["high"] is None or float(row["high"]) >= float(row["value"])
    blank = public[public["count_status"] == "c"]
    again = pp.tables.audit(
        public[["region", "sex", "count", "count_status"]], ["region", "sex"], response="count"
    ).set_index(["region", "sex"])
    counts = {(row["region"], row["sex"]): row for row in rows if row["figure"] == "count"}
    for key in zip(blank["region"], blank["sex"], strict=True):
        ends = [None if each is None else int(each) for each in (counts[key]["low"], counts[key]["high"])]
        assert ends == [None if pd.isna(each) else each for each in again.loc[key, ["integer_low", "integer_high"]]]
    page = pp.report(record, format="html")
    assert "Internal edition" in page
    assert "what an attacker can work out" in page
    assert (record / "report.html").read_text() == page


def test_a_refused_run_keeps_what_an_attacker_would_have_found(
    policy: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    document = policy()
    document["transform"] = document["transform"][:1]
    with pytest.raises(Refused):
        pp.release(document)
    [record] = [each for each in (tmp_path / ".out.privpipe" / "records").iterdir() if each.is_dir()]
    assert "Nothing was published" in pp.report(record, format="html")
    assert not (tmp_path / "out").exists()


def test_two_releases_of_tables_are_compared(policy: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    first = pp.release(policy())
    second = pp.release(policy(guarantees=[{"minimum_frequency": {"at_least": 4}}, *ASKED[1:]]))
    found = compare_runs(RunDocuments.read(str(first.record)), RunDocuments.read(str(second.record)))
    assert all(name in str(found.to_dict()) for name in ("minimum_frequency", "p_percent", "table_audit"))
    done = CliRunner().invoke(app, ["compare", str(first.path), str(second.path)])
    assert done.exit_code == 0, done.output


def test_one_table_is_read_with_and_without_its_name(policy: Callable[..., dict[str, Any]]) -> None:
    path = pp.release(policy()).path
    assert pp.read_release(path).equals(pp.read_release(path, table="visits"))
    assert pp.read_release(path, ["region", "count"], table="visits", frame="polars").shape == (12, 2)

"""The dbt example, built by dbt on DuckDB, twice in a row; and what its macros say next to privpipe itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbt.adapters.duckdb", reason="dbt-duckdb is not installed here; make test-integrations")

import duckdb

import privpipe as pp
from privpipe.dbt import package

Build = Callable[..., dict[str, str]]
HOSTILE = """
select * from (values
  ('a', 1.5, 'flu'), ('a', 1.5, null), ('A', 1.5, 'flu'), ('A', 1.5, 'flu'),
  (null, null, 'cold'), (null, null, null), ('', 'nan'::double, 'flu'), ('', 'nan'::double, 'gout'),
  ('*', 0.0, 'x'), ('*', -0.0, 'y'), ('ä', 2, 'p'), ('ä', 2, 'q')
) as t("zip "" code", age, illness)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, pipelines: Path, tool: Any) -> Path:
    """A copy of the example next to the policies and the data, with its package."""
    home = tmp_path_factory.mktemp("dbt")
    shutil.copytree(pipelines / "dbt", home / "dbt")
    for name in ("adult", "refused"):
        (home / name).symlink_to(pipelines / name)
    (home / "dbt" / "published").mkdir()
    assert tool("dbt", "deps", env={"PRIVPIPE_DBT": package()}, cwd=home / "dbt").returncode == 0
    return home / "dbt"


@pytest.fixture(scope="module")
def build(project: Path, tool: Any) -> Build:
    """Run dbt; the status of each model and test by its name, and under an empty name all output."""

    def run(*arguments: str, command: str = "build", **env: str) -> dict[str, str]:
        results = project / "target" / "run_results.json"
        results.unlink(missing_ok=True)
        given = {"PRIVPIPE_DBT": package(), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", **env}
        ended = tool("dbt", "--no-use-colors", command, *arguments, env=given, cwd=project)
        found = json.loads(results.read_text(encoding="utf-8"))["results"] if results.exists() else []
        return {"": ended.stdout + ended.stderr, **{each["unique_id"].split(".")[2]: each["status"] for each in found}}

    return run


def rows(project: Path, query: str) -> list[Any]:
    with duckdb.connect(str(project / "published" / "adult.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("time", ["first", "second"])
def test_one_model_is_built_and_one_refused(project: Path, build: Build, time: str) -> None:
    done = build()
    assert {name: status for name, status in done.items() if name.startswith("adult")} == {
        "adult_raw": "success",
        "adult_by_age": "success",
        "adult_by_hand": "error",
        "adult_by_hand_counts": "skipped",
        "adult_public_use": "success",
    }, done[""][-3000:]
    assert [status for name, status in done.items() if name.startswith("privpipe")] == ["pass", "pass"]
    assert "k_anonymity: required 5, achieved 1" in done[""]
    tables = {name for (name,) in rows(project, "show tables")}
    assert tables == {"adult_raw", "adult_by_age", "adult_public_use"}
    released = rows(project, "select * from adult_public_use")
    assert len(released) > 30_000


def test_a_hook_that_refuses_leaves_the_table_of_before(project: Path, build: Build) -> None:
    query = "select age, sex, count(*) from adult_by_age group by all order by all"
    before = rows(project, query)
    done = build("-s", "adult_by_age", PRIVPIPE_AGE_BAND="1")
    assert done["adult_by_age"] == "error"
    assert "refused: k_anonymity required 5, achieved" in done[""]
    assert rows(project, query) == before


def test_a_model_that_is_refused_leaves_the_table_of_before(project: Path, build: Build) -> None:
    model = project / "models" / "adult_public_use.py"
    text = model.read_text(encoding="utf-8")
    before = rows(project, "select count(*), sum(hours_per_week) from adult_public_use")
    model.write_text(text.replace("../adult/release.yaml", "../refused/release.yaml"), encoding="utf-8")
    try:
        assert build("-s", "adult_public_use")["adult_public_use"] == "error"
    finally:
        model.write_text(text, encoding="utf-8")
    assert rows(project, "select count(*), sum(hours_per_week) from adult_public_use") == before


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_breakdown_builds_nothing_and_the_next_build_does(project: Path, build: Build, time: str) -> None:
    """Another process holds the database."""
    file = str(project / "published" / "adult.duckdb")
    held = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", held, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        done = build("-s", "adult_by_age")
        assert "success" not in done.values()
        assert "lock" in done[""]
        holder.communicate(b"\n", timeout=60)
    assert build("-s", "adult_by_age")["adult_by_age"] == "success"


def test_an_incremental_model_is_refused(project: Path, build: Build) -> None:
    model = project / "models" / "growing.py"
    model.write_text(
        "from privpipe.dbt import gate\n\n\ndef model(dbt, session):\n"
        '    dbt.config(materialized="incremental")\n    return gate(dbt, dbt.ref("adult_by_age"), "by_age.yaml")\n',
        encoding="utf-8",
    )
    (project / "by_age.yaml").write_text(
        "version: 1\nname: by-age\ncolumns:\n  age: {role: quasi_identifier}\n  sex: {role: quasi_identifier}\n"
        "  income: {role: insensitive}\nguarantees:\n  - k_anonymity: {k: 5}\n",
        encoding="utf-8",
    )
    try:
        assert build("-s", "growing")["growing"] == "success"
        done = build("-s", "growing")
        assert done["growing"] == "error"
        assert "incremental" in done[""]
    finally:
        model.unlink()


def test_macros_count_as_privpipe_does(project: Path, build: Build) -> None:
    """Nulls, NaN, case, the mark and quotes in names; under a collation that knows no case."""
    models = project / "models"
    (models / "hostile.sql").write_text(HOSTILE, encoding="utf-8")
    (models / "collated.sql").write_text(
        'select "zip "" code" collate nocase as "zip "" code", age, illness from {{ ref("hostile") }} where age = 1.5',
        encoding="utf-8",
    )
    (models / "empty.sql").write_text('select * from {{ ref("hostile") }} where false', encoding="utf-8")
    keys = ['zip " code', "age"]
    checks = [
        (f"{model}_{test}_{bound}", model, test, bound)
        for model in ("hostile", "collated", "empty")
        for test, bound in (("k", 2), ("k", 3), ("l", 1), ("l", 2))
    ]
    tests = {"hostile": [], "collated": [], "empty": []}
    for name, model, test, bound in checks:
        given: dict[str, Any] = {"columns": keys, test: bound}
        kind = "privpipe.k_anonymity"
        if test == "l":
            given["column"], kind = "illness", "privpipe.distinct_l_diversity"
        tests[model].append({kind: {"name": name, "arguments": given}})
    (models / "hostile.yml").write_text(
        json.dumps({"version": 2, "models": [{"name": model, "data_tests": each} for model, each in tests.items()]}),
        encoding="utf-8",
    )
    try:
        made = build("-s", "hostile", "collated", "empty", command="run")
        assert [made[name] for name in ("hostile", "collated", "empty")] == ["success"] * 3, made[""][-3000:]
        done = build("-s", "hostile", "collated", "empty", command="test")
    finally:
        for file in ("hostile.sql", "collated.sql", "empty.sql", "hostile.yml"):
            (models / file).unlink()
    frame = duckdb.sql(HOSTILE).to_arrow_table()
    k = pp.k_anonymity(frame, keys)
    l = pp.l_diversity(frame, keys, "illness")
    for name, model, test, bound in checks:
        holds = model != "empty" and (k if test == "k" else l) >= bound
        assert done[name] == ("pass" if holds else "fail"), (name, k, l, done[""][-3000:])


@pytest.mark.parametrize(
    "setting", [{"where": "age > 1"}, {"limit": 0}, {"error_if": ">10"}, {"fail_calc": "0"}], ids=lambda each: min(each)
)
def test_a_test_that_would_judge_a_part_is_an_error(project: Path, build: Build, setting: dict[str, Any]) -> None:
    schema = project / "models" / "partly.yml"
    test = {"privpipe.k_anonymity": {"name": "partly", "arguments": {"columns": ["age"], "k": 5}, "config": setting}}
    schema.write_text(
        json.dumps({"version": 2, "models": [{"name": "adult_public_use", "data_tests": [test]}]}), encoding="utf-8"
    )
    try:
        done = build("-s", "partly", command="test")
    finally:
        schema.unlink()
    assert done.get("partly", "error") == "error"
    assert "would judge a part" in done[""]


def test_what_dbt_logged_holds_no_cell(project: Path, holds_no_cell: Callable[[Path], None]) -> None:
    holds_no_cell(project / "logs")
    holds_no_cell(project / "target")

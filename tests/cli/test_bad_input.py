"""Bad input ends with its own exit code and a message that helps, holds no value, and publishes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.errors import PolicyError
from privpipe.policy import Policy

CANARY = "CanaryMarie"
Change = Callable[[Path], None]


def policy(old: str, new: str) -> Change:
    """Replace a text of the policy."""

    def change(place: Path) -> None:
        text = (place / "release.yaml").read_text()
        assert old in text
        (place / "release.yaml").write_text(text.replace(old, new))

    return change


def data(old: str, new: str, count: int = -1) -> Change:
    """Replace a text of the data."""

    def change(place: Path) -> None:
        text = (place / "data.csv").read_text()
        assert old in text
        (place / "data.csv").write_text(text.replace(old, new, count))

    return change


def hierarchy(text: str) -> Change:
    """Give `zip` a hierarchy file."""

    def change(place: Path) -> None:
        policy("{redact: {keep: left}}", "{file: zip.csv}")(place)
        (place / "zip.csv").write_text(text)

    return change


def parquet(content: bytes | None) -> Change:
    """Make the source a Parquet file of these bytes, or one cut short."""

    def change(place: Path) -> None:
        policy('{path: data.csv, delimiter: ";"}', "{path: data.parquet}")(place)
        target = place / "data.parquet"
        if content is not None:
            target.write_bytes(content)
            return
        pq.write_table(pa.table({"age": [1], "zip": ["1"], "illness": [CANARY]}), target)
        target.write_bytes(target.read_bytes()[:-20])

    return change


def both(first: Change, second: Change) -> Change:
    """One change after another."""

    def change(place: Path) -> None:
        first(place)
        second(place)

    return change


def only_header(place: Path) -> None:
    """A table of no records."""
    (place / "data.csv").write_text("age;zip;illness\n")


def no_data(place: Path) -> None:
    """A source that is not there."""
    (place / "data.csv").unlink()


def full_sink(place: Path) -> None:
    """A file where the release should stand."""
    (place / "published").mkdir()
    (place / "published" / "small").write_text("mine")


ZIPS = "".join(f"8033{at};803**;*\n" for at in range(5))
CASES: dict[str, tuple[Change, int, tuple[str, ...]]] = {
    "missing column": (data("illness", "ilness", 1), 3, ("'illness'", "'ilness'")),
    "misspelt column": (policy("  zip:", "  zipp:"), 3, ("release.yaml:6: columns.zipp:", "did you mean 'zip'?")),
    "undeclared column": (
        policy("  zip: {role: quasi_identifier, hierarchy: {redact: {keep: left}}}\n", ""),
        3,
        ("'zip'",),
    ),
    "misspelt column of a type": (
        policy("  zip: {role: quasi_identifier", "  zipp: {role: quasi_identifier, type: text"),
        3,
        ("release.yaml:6: columns.zipp: data.csv: ", "did you mean 'zip'?"),
    ),
    "wrong YAML": (policy("columns:", "columns: ["), 2, ("release.yaml:", "not valid YAML")),
    "unknown model": (policy("k_anonymity", "k_anonimity"), 2, ("release.yaml:11:", "did you mean 'k_anonymity'?")),
    "unknown parameter": (policy("{k: 3}", "{kk: 3}"), 2, ("release.yaml:11:", "did you mean 'k'?")),
    "k below 1": (policy("{k: 3}", "{k: 0}"), 2, ("guarantees[0].k_anonymity.k", ">= 1")),
    "t below 0": (
        policy("distinct_l_diversity: {column: illness, l: 2}", "t_closeness: {column: illness, t: -0.1}"),
        2,
        ("guarantees[1].t_closeness.t", ">= 0"),
    ),
    "no quasi-identifier": (policy("role: quasi_identifier", "role: insensitive"), 2, ("columns: no column has",)),
    "hierarchy without values": (hierarchy("80330;*\n"), 3, ("zip.csv", "48")),
    "hierarchy not functional": (hierarchy(ZIPS + "80400;803**;**\n"), 3, ("zip.csv", "level 1", "line 6")),
    "hierarchy ragged": (hierarchy(ZIPS + "80400;*\n"), 3, ("zip.csv", "line 6")),
    "hierarchy with a blank label": (hierarchy(ZIPS + "80400;;*\n"), 3, ("zip.csv", "line 6 has no label at level 1")),
    "hierarchy missing": (policy("{redact: {keep: left}}", "{file: none.csv}"), 3, ("none.csv",)),
    "nulls under refuse": (
        both(policy("version: 1", "nulls: refuse"), data(";80330;", ";;")),
        3,
        ("release.yaml:6: columns.zip: 'zip' has 12 missing values",),
    ),
    "sensitive nulls under refuse": (
        both(policy("{role: sensitive}", "{role: sensitive, nulls: refuse}"), data(";gout\n", ";\n")),
        3,
        ("columns.illness: 'illness' has 20 missing values",),
    ),
    "k above n": (policy("{k: 3}", "{k: 61}"), 6, ("release.yaml:9: transform[0].generalize: ", "61")),
    "l above the number of values": (policy("l: 2", "l: 4"), 6, ("release.yaml:9: transform[0].generalize: ", "4")),
    "a stage that cannot take what the data holds": (
        both(
            both(policy("type: integer", "type: number"), data("\n23;", "\ninf;")),
            policy("generalize: {search: optimal, suppress_at_most: 0.2}", "rank_swap: {columns: [age], p: 0.05}"),
        ),
        3,
        ("release.yaml:9: transform[0].rank_swap: ", "'age'"),
    ),
    "empty table": (only_header, 3, ("no records",)),
    "duplicate columns": (data("age;zip", "age;age;zip", 1), 3, ("'age'",)),
    "columns that differ by case": (data("age;zip;illness", "age;Age;illness", 1), 3, ("'Age'",)),
    "columns that differ by case in the policy": (policy("  zip:", "  AGE:"), 2, ("'age', 'AGE'",)),
    "mixed types": (data("\n23;", f"\n{CANARY};"), 3, ("'age'", "integer", "9")),
    "missing file": (no_data, 3, ("data.csv",)),
    "truncated file": (parquet(None), 3, ("data.parquet",)),
    "not a data file": (parquet(CANARY.encode()), 3, ("data.parquet",)),
    "wrong delimiter": (policy('";"', '"|"'), 3, ("delimiter",)),
    "ragged data": (data("\n23;", "\n23;1;2;"), 3, ("data.csv",)),
    "sink in use": (full_sink, 4, ("published/small",)),
    "wildcard nulls": (policy("version: 1", "nulls: wildcard"), 2, ("own_value", "refuse")),
    "seed not set": (policy("version: 1", "seed: {from_env: NO_SUCH_SEED}"), 2, ("NO_SUCH_SEED",)),
    "nowhere to publish": (policy("sink: {path: published/small}\n", ""), 2, ("sink",)),
    "no source": (policy('source: {path: data.csv, delimiter: ";"}\n', ""), 2, ("source",)),
    "k that is not a number": (policy("{k: 3}", "{k: many}"), 2, (":11:", "must be an integer, not a text")),
    "unknown option of an engine": (
        policy("version: 1", "engines: {embedded: {thread: 2}}"),
        2,
        ("release.yaml:1: engines.embedded:", "did you mean 'threads'?"),
    ),
    "unknown engine": (policy("version: 1", "engine: sprk"), 2, ("'spark'",)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends_with_its_code_and_publishes_nothing(run: Any, place: Path, case: str) -> None:
    change, code, words = CASES[case]
    data("asthma", CANARY)(place)
    change(place)
    before = sorted(path for path in (place / "published").rglob("*") if path.name == "small") if code == 4 else []
    done = run("release", place / "release.yaml", "--json")
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr
    assert CANARY not in done.output
    assert "8033" not in done.stderr.replace(str(place), "")
    assert [path for path in (place / "published").rglob("small*") if not path.name.startswith(".")] == before


@pytest.mark.parametrize("case", ["k above n", "l above the number of values"])
def test_what_no_table_can_meet_is_a_failing_verdict_when_judging(run: Any, place: Path, case: str) -> None:
    CASES[case][0](place)
    done = run("assess", place / "release.yaml")
    assert done.exit_code == 5
    assert "FAIL" in done.stdout


def test_a_read_only_place_is_a_sink_error(run: Any, place: Path) -> None:
    if os.geteuid() == 0:
        (place / "published").write_text("a file where a folder is due")
    else:
        (place / "published").mkdir(mode=0o500)
    done = run("release", place / "release.yaml")
    assert done.exit_code == 4, done.output
    assert "cannot be written" in done.stderr


def test_an_empty_list_of_quasi_identifiers_is_one_class_with_a_warning(run: Any, place: Path) -> None:
    policy("{k: 3}", "{k: 3, quasi_identifiers: []}")(place)
    done = run("assess", place / "release.yaml")
    assert "warning:" in done.stderr
    assert "PASS  KAnonymity" in done.stdout


def test_the_script_itself_ends_with_these_codes(place: Path) -> None:
    command = [sys.executable, "-m", "privpipe", "release", "release.yaml", "--json"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")
    policy("{k: 3}", "{k: 0}")(place)
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "release.yaml:11: guarantees[0].k_anonymity.k: " in done.stderr


def test_plan_transform_and_validate_go_together(run: Any, place: Path) -> None:
    rules = place / "release.yaml"
    policy("version: 1", "seed: {from_env: A_SEED}")(place)
    os.environ["A_SEED"] = "7d1c9a3e5b8f2046d1e7c3a95f80b264"
    try:
        assert run("plan", rules, "--out", place / "plan.json").exit_code == 0
        done = run("transform", rules, "--plan", place / "plan.json", "--target", place / "unjudged")
        assert done.exit_code == 0, done.output
        assert "NOT JUDGED" in done.stderr
        done = run("validate", place / "unjudged", rules)
        assert done.exit_code == 0, done.output
        assert run("release", rules).exit_code == 0
    finally:
        del os.environ["A_SEED"]
    written, published = (pq.read_table(place / name) for name in ("unjudged", "published/small"))
    assert written.equals(published)
    assert run("validate", place / "published" / "small", rules).exit_code == 0
    assert run("validate", place / "data.csv", rules).exit_code == 5


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.parquet", "data.txt", "data.json"])
def test_data_in_the_place_of_a_policy_names_init_and_quotes_no_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text('["age", "31"]' if name.endswith("json") else "age,zip\n31,08001\n", encoding="utf-8")
    with pytest.raises(PolicyError) as error:
        Policy.load(file)
    assert f"`privpipe init {file}` drafts a policy for data" in str(error.value)
    assert "31" not in str(error.value).replace(str(tmp_path), "")
    with pytest.raises(PolicyError, match=r"it is a folder; `privpipe init"):
        Policy.load(tmp_path)
    with pytest.raises(PolicyError, match="does not exist"):
        Policy.load(tmp_path / "none.csv")

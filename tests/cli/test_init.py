"""`init` guesses with reasons, prints no value, and writes what loads again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.drafting.draft import Asked, draft_policy
from privpipe.drafting.guesses import column_disclosure, guess_role, guess_type
from privpipe.drafting.profile import Profile
from privpipe.drafting.roles import suggest_hierarchy
from privpipe.drafting.source_formats import seen_delimiter
from privpipe.engines import Source
from privpipe.hierarchies import HierarchySpec
from privpipe.policy import Policy
from privpipe.policy.plain_values import from_yaml
from privpipe.policy.rules import read_mapping
from tests.tiers import deep_beyond

CANARY = "Canary-Marie"


@pytest.mark.parametrize(
    ("values", "type_", "missing"),
    [
        (["1", "-2", "30"], "integer", ()),
        (["1", "2.5", "1e3"], "number", ()),
        (["01", "23"], "text", ()),
        (["0", "10"], "integer", ()),
        (["2024-01-31"], "date", ()),
        (["2024-01-31 10:00", "2024-01-31T10:00:00.5Z"], "timestamp", ()),
        (["true", "False"], "boolean", ()),
        (["1", "NA", ""], "integer", ("", "NA")),
        (["NA", "DE"], "text", ()),
        (["?", "Private"], "text", ("?",)),
        (["", "?"], "text", ("", "?")),
        ([], "text", ()),
    ],
    ids=str,
)
def test_types_are_the_narrowest_that_hold(values: list[str], type_: str, missing: tuple[str, ...]) -> None:
    assert guess_type(values) == (type_, missing)


@pytest.mark.parametrize(
    ("name", "type_", "distinct", "role"),
    [
        ("patient_id", "integer", 900, "identifier"),
        ("anything", "text", 1000, "identifier"),
        ("measured", "number", 1000, "quasi_identifier"),
        ("DateOfBirth", "date", 900, "quasi_identifier"),
        ("country_name", "text", 90, "quasi_identifier"),
        ("Diagnosis", "text", 30, "sensitive"),
        ("income", "integer", 400, "sensitive"),
        ("name", "text", 2, "quasi_identifier"),
        ("xyz", "text", 7, "quasi_identifier"),
        ("zip", "text", 1, "insensitive"),
    ],
)
def test_roles_follow_names_and_counts_and_have_a_reason(name: str, type_: Any, distinct: int, role: str) -> None:
    guess = guess_role(Profile(name, type_, 1000, 0, distinct))
    assert guess.role == role
    assert guess.reason


@given(st.floats(1e-6, 1e12, allow_nan=False))
def test_suggested_intervals_are_well_formed(spread: float) -> None:
    found = suggest_hierarchy(Profile("x", "number", 10, 0, 5, spread=spread))
    assert HierarchySpec.from_mapping(found)


def test_integers_get_no_interval_of_width_one() -> None:
    found = suggest_hierarchy(Profile("years", "integer", 10, 0, 16, spread=15))
    assert found == {"bands": {"steps": [2, 4]}}


def test_the_delimiter_is_the_one_that_fits_every_line() -> None:
    assert seen_delimiter(["a,b;c", "1,2;3"]) in (",", ";")
    assert seen_delimiter(["a\tb\tc", '1\t"2,5"\t3']) == "\t"
    assert seen_delimiter(["alone", "1"]) == ","


profiles = st.lists(
    st.builds(
        Profile,
        name=st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
            lambda name: not name.startswith("__privpipe")
        ),
        type=st.sampled_from(["text", "integer", "number", "decimal", "date", "timestamp", "boolean"]),
        records=st.integers(1, 1000),
        missing=st.integers(0, 3),
        distinct=st.integers(0, 1000),
        null_values=st.sampled_from([(), ("?",), ("", "NA")]),
        spread=st.sampled_from([0.0, 73.0, 0.25, 1e9]),
        code_length=st.sampled_from([0, 5]),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda profile: profile.name.casefold(),
)


@given(profiles, st.booleans(), st.booleans())
def test_every_draft_loads(found: list[Profile], suggest: bool, header: bool) -> None:
    names = () if header else tuple(profile.name for profile in found)
    source = Source(data="data/in put.csv", format="csv", delimiter=";", header=header, columns=names)
    text = draft_policy(source, found, home=Path.cwd(), asked=Asked(suggest=suggest))
    document, report = from_yaml(text, "draft")
    report.raise_if_wrong()
    fields = read_mapping(document, Path.cwd())
    assert list(fields["columns"]) == [profile.name for profile in found]
    assert {name: column.type for name, column in fields["columns"].items()} == {p.name: p.type for p in found}


def table(place: Path, name: str = "people.csv", delimiter: str = ";") -> Path:
    """A small file of every kind of column."""
    header = ["full name", "age", "zip", "born", "illness", "smoker", "constant"]
    rows = [
        [
            f"{CANARY} {at}",
            str(20 + at % 30) if at % 10 else "NA",
            f"{10000 + at % 9}",
            f"19{50 + at % 40}-01-31",
            *(["asthma", "flu", "gout"][at % 3], ["true", "false"][at % 2], "x"),
        ]
        for at in range(200)
    ]
    path = place / name
    path.write_text("\n".join(delimiter.join(row) for row in [header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("delimiter", deep_beyond(1, (";", ",", "\t")))
@pytest.mark.parametrize("suggest", [False, True])
def test_a_csv_file_becomes_a_policy(run: Any, tmp_path: Path, delimiter: str, suggest: bool) -> None:
    path = table(tmp_path, delimiter=delimiter)
    (tmp_path / "policies").mkdir()
    out = tmp_path / "policies" / "release.yaml"
    done = run("init", path, "--out", out, "--suggest" if suggest else "--bare")
    assert done.exit_code == 0, done.output
    assert CANARY not in done.output + out.read_text()
    policy = Policy.load(out)
    assert policy.types == {
        "full name": "text",
        "age": "integer",
        "zip": "integer",
        "born": "date",
        "illness": "text",
        "smoker": "boolean",
        "constant": "text",
    }
    assert policy.roles.identifiers[0] == "full name"
    assert len(policy.roles.identifiers) == 1 or "left out" in out.read_text()
    assert policy.roles.sensitive == ("illness",)
    assert policy.source is not None
    assert policy.source.path == "../people.csv"
    assert policy.source.null_values == ("", "NA")
    assert set(policy.hierarchies) <= ({"age", "zip", "born", "smoker"} if suggest else set())
    assert ("age" in policy.hierarchies) is suggest
    assert out.read_text().count("  # ") >= 7


def test_the_draft_judges_its_own_data(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "release.yaml"
    run("init", table(tmp_path), "--out", out, "--suggest")
    done = run("assess", out)
    assert done.exit_code in (0, 5), done.output
    assert CANARY not in done.output
    assert run("hierarchy", "check", out).exit_code == 0


def test_what_gives_people_away_is_reported_and_no_value(run: Any, tmp_path: Path) -> None:
    remarks = [f"{CANARY.lower()}@example.org" if at % 50 == 0 else "none" for at in range(200)]
    frame = pa.table(
        {
            "remark": remarks,
            "seen": [f"19{50 + at % 40}-01-31" for at in range(200)],
            "age": [20 + at % 75 for at in range(200)],
            "city": [f"town {at % 7}" for at in range(200)],
        }
    )
    pq.write_table(frame, tmp_path / "a.parquet")
    done = run("init", tmp_path / "a.parquet", "--out", tmp_path / "release.yaml")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "release.yaml").read_text()
    assert "looks like e-mail addresses (2 % of values)" in text
    assert "looks like dates other than years, and ages over 89 (100 % of values)" in text
    assert "HIPAA Safe Harbor: dates other than years, and ages over 89 (5 % of values)" in text
    assert "HIPAA Safe Harbor: geographic subdivisions smaller than a state (by its name)" in text
    assert "alone it distinguishes 99.1 % of all pairs of records" in text
    assert CANARY.lower() not in text
    assert Policy.load(tmp_path / "release.yaml").roles.identifiers == ("remark",)


def test_a_column_released_as_it_is_warns_where_it_identifies() -> None:
    """Above 0.9, not at it; an identifier is not released at all."""
    profile = Profile("x", "text", 100, 0, 50, separation=0.91)
    assert column_disclosure(profile, "insensitive").startswith("WARNING: alone it distinguishes 91.0 %")
    assert not column_disclosure(profile, "quasi_identifier").startswith("WARNING")
    assert column_disclosure(profile, "identifier") == ""
    assert column_disclosure(Profile("x", "text", 100, 0, 50, separation=0.9), "insensitive") == ""


def test_parquet_keeps_its_types(run: Any, tmp_path: Path) -> None:
    frame = pa.table({"age": pa.array(range(50), pa.int32()), "code": [f"{at % 5}" for at in range(50)]})
    pq.write_table(frame, tmp_path / "a.parquet")
    done = run("init", tmp_path / "a.parquet", "--out", tmp_path / "release.yaml")
    assert done.exit_code == 0, done.output
    assert Policy.load(tmp_path / "release.yaml").types == {"age": "integer", "code": "text"}


def test_a_file_without_a_header_gets_names(run: Any, tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("\n".join(f"{20 + at % 9},x{at % 2}" for at in range(40)) + "\n")
    done = run("init", tmp_path / "bare.csv", "--out", tmp_path / "release.yaml")
    assert done.exit_code == 0, done.output
    policy = Policy.load(tmp_path / "release.yaml")
    assert policy.source is not None
    assert not policy.source.header
    assert list(policy.columns) == ["column_1", "column_2"]
    assert "# WARNING: the file has no header" in (tmp_path / "release.yaml").read_text()


def test_names_may_be_given_to_a_file_without_a_header(run: Any, tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("\n".join(f"{20 + at % 9},x{at % 2}" for at in range(40)) + "\n")
    done = run("init", tmp_path / "bare.csv", "--columns", "age, sex", "--out", tmp_path / "release.yaml")
    assert done.exit_code == 0, done.output
    assert f"next: `privpipe release {tmp_path / 'release.yaml'} --dry-run`" in done.stderr
    policy = Policy.load(tmp_path / "release.yaml")
    assert policy.roles.quasi_identifiers == ("age", "sex")
    assert "no header" not in (tmp_path / "release.yaml").read_text()


@pytest.mark.parametrize(
    ("names", "header", "told"),
    [
        ("age", "", "has 2 fields a line and needs as many names, each another; 1 are given"),
        ("age,age", "", "each another; 2 are given"),
        ("age,sex", "years,kind\n", "names its columns; names are for a file without a header"),
    ],
)
def test_names_that_do_not_fit_the_file_are_refused(
    run: Any, tmp_path: Path, names: str, header: str, told: str
) -> None:
    rows = "\n".join(f"{20 + at % 9},x{at % 2}" for at in range(40))
    (tmp_path / "bare.csv").write_text(f"{header}{rows}\n")
    done = run("init", tmp_path / "bare.csv", "--columns", names)
    assert done.exit_code == 2
    assert told in done.stderr


def test_only_a_file_without_a_header_takes_names(run: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [1, 2]}), tmp_path / "a.parquet")
    done = run("init", tmp_path / "a.parquet", "--columns", "years")
    assert done.exit_code == 2
    assert "this table has its own" in done.stderr


@pytest.mark.parametrize("form", ["--bare", "--suggest"])
def test_a_draft_without_quasi_identifiers_says_that_its_guarantees_say_nothing(
    run: Any, tmp_path: Path, form: str
) -> None:
    values = "\n".join(f"{at * 37 % 1009 / 7:.4f}" for at in range(1, 900))
    (tmp_path / "readings.csv").write_text(f"reading\n{values}\n")
    done = run("init", tmp_path / "readings.csv", form)
    assert done.exit_code == 0, done.output
    assert "quasi_identifiers: []" in done.stdout
    assert "WARNING: no column was taken for a quasi-identifier" in done.stdout


def test_a_policy_is_not_overwritten_unasked(run: Any, tmp_path: Path) -> None:
    path, out = table(tmp_path), tmp_path / "release.yaml"
    out.write_text("mine")
    assert run("init", path, "--bare", "--out", out).exit_code == 2
    assert out.read_text() == "mine"
    assert run("init", path, "--bare", "--out", out, "--force").exit_code == 0
    assert run("init", path, "--bare").stdout == run("init", path, "--bare").stdout != ""


@pytest.mark.parametrize(("content", "code"), [(None, 2), ("", 3), ("a;b\n", 3), (b"a;b\n\x001;2\n;;;\n", 3)])
def test_what_cannot_be_read_is_reported(run: Any, tmp_path: Path, content: Any, code: int) -> None:
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run("init", path)
    assert done.exit_code == code, done.output
    assert done.stdout == ""


def test_a_draft_names_the_schema_next_to_it_which_accepts_it(run: Any, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    (tmp_path / "data.csv").write_text("age,illness\n" + "30,flu\n40,gout\n" * 6)
    done = run("init", tmp_path / "data.csv", "--bare", "--out", tmp_path / "policy.yaml")
    assert done.exit_code == 0
    first, *_ = (tmp_path / "policy.yaml").read_text().splitlines()
    label, _, name = first.partition("=")
    assert label == "# yaml-language-server: $schema"
    schema = json.loads((tmp_path / name).read_text())
    document, _ = from_yaml((tmp_path / "policy.yaml").read_text(), None)
    jsonschema.validate(document, schema)
    assert schema == json.loads(run("schema").stdout)
    (tmp_path / name).write_text("{}")
    assert run("init", tmp_path / "data.csv", "--bare", "--force", "--out", tmp_path / "policy.yaml").exit_code == 0
    assert (tmp_path / name).read_text() == "{}"

"""Columns that a policy does not name, and a source whose columns are not those of the run before."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.engines import Engine
from privpipe.errors import DataError, PolicyError
from privpipe.record import history
from privpipe.running.attached_source import is_widened

ROWS = {"age": pa.array([30, 30, 40, 40], pa.int32()), "illness": ["flu", "cold", "flu", "gout"]}


@pytest.fixture
def lay(tmp_path: Path) -> Any:
    """A source of these columns, others changed or (None) left out."""

    def lay(**changed: Any) -> None:
        columns = {name: values for name, values in {**ROWS, **changed}.items() if values is not None}
        pq.write_table(pa.table(columns), tmp_path / "rows.parquet")

    return lay


@pytest.fixture
def policy(tmp_path: Path) -> Any:
    def policy(others: str | None = None, **values: Any) -> dict[str, Any]:
        columns: dict[str, Any] = {"age": {"role": "quasi_identifier"}, "illness": {"role": "insensitive"}}
        return {
            "version": 1,
            "source": {"path": str(tmp_path / "rows.parquet")},
            "columns": columns if others is None else {**columns, "*": others},
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "sink": {"path": str(tmp_path / "out")},
            **values,
        }

    return policy


def test_columns_that_are_not_named_go_where_the_policy_drops_them(
    engine: Engine, lay: Any, policy: Any, tmp_path: Path
) -> None:
    lay(ward=["a", "b", "a", "b"])
    with pytest.raises(DataError, match=r'\'ward\'.*"\*": drop'):
        pp.release(policy(), engine=engine)
    found = pp.release(policy("drop"), engine=engine)
    assert found.manifest["output"]["columns"] == ["age", "illness"]
    assert any("dropped: 'ward'" in note for note in found.assessment.source_notes)
    public = "".join(path.read_text() for path in (tmp_path / "out" / "_privpipe").glob("*.json"))
    assert "ward" not in public
    assert found.manifest["input"]["schema"]["ward"] == "string"


def test_rows_are_those_of_a_source_without_the_column(lay: Any, policy: Any) -> None:
    seed = {"from_env": "PRIVPIPE_TEST_SEED"}
    noisy = {"transform": [{"add_noise": {"columns": ["pay"], "variance_ratio": 0.1}}], "seed": seed}
    columns = {"age": {"role": "quasi_identifier"}, "pay": {"role": "insensitive"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVPIPE_TEST_SEED", secrets.token_hex(32))
        lay(illness=None, pay=[1.0, 2.0, 3.5, 4.0])
        frames = [pq.read_table(pp.release(policy(**noisy, columns=columns)).path)]
        lay(illness=None, pay=[1.0, 2.0, 3.5, 4.0], ward=["a", "b", "c", "d"])
        frames.append(pq.read_table(pp.release(policy(**noisy, columns={**columns, "*": "drop"})).path))
    assert frames[0].equals(frames[1])


@pytest.mark.parametrize("spelling", [{"others": "drop"}, {"undeclared": "drop"}, {"drift": {"new": "drop"}}])
def test_three_spellings_are_one_rule(spelling: Any, lay: Any, policy: Any) -> None:
    lay(ward=["a"] * 4)
    read = pp.Policy.from_dict(policy(**spelling))
    assert read.undeclared == "drop"
    assert read.release().published
    assert pp.assess(None, read).passed


def test_the_rule_reads_the_same_once_it_is_written(policy: Any, tmp_path: Path) -> None:
    read = pp.Policy.from_dict(policy("drop"))
    (tmp_path / "again.yaml").write_text(read.to_yaml())
    assert pp.Policy.load(tmp_path / "again.yaml").digest() == read.digest()
    assert read.digest() == pp.Policy.from_dict(policy(undeclared="drop")).digest()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"others": "dorp"}, r"columns\.\*: must be one of refuse, drop, note.*did you mean 'drop'"),
        ({"others": "drop", "undeclared": "note"}, r"columns\.\*: is drop, and `undeclared:` is note"),
        ({"others": "refuse", "drift": {"new": "drop"}}, r"drift\.new: is drop.*are refuse"),
        ({"drift": {"missing": "drop"}}, r"drift\.missing: must be one of refuse"),
        ({"drift": {"widened": "drop"}}, r"drift\.widened: must be one of accept, refuse"),
        ({"drift": {"gone": "drop"}}, r"drift\.gone: unknown key"),
    ],
)
def test_what_the_rules_do_not_know_is_named(values: Any, message: str, policy: Any) -> None:
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(policy(**values))


def test_a_column_may_be_called_a_star() -> None:
    frame = pa.table({"*": ["a", "a"]})
    document = {"columns": {"*": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": 2}}]}
    assert pp.assess(frame, document).passed


def test_a_finished_table_with_such_a_column_is_refused_all_the_same(policy: Any) -> None:
    finished = pa.table({**ROWS, "ward": ["a"] * 4})
    with pytest.raises(DataError, match="'ward'"):
        pp.assess(finished, policy("drop"))


def test_a_new_column_is_refused_once_the_run_before_is_known(lay: Any, policy: Any) -> None:
    strict = {"others": "drop", "drift": {"new": "refuse"}}
    lay(ward=["a"] * 4)
    assert pp.release(policy(**strict)).published  # nothing to compare with
    assert pp.release(policy(**strict)).published  # it is not new any more
    lay(ward=["a"] * 4, bed=[1, 2, 3, 4])
    with pytest.raises(DataError, match=r"1 column\(s\): 'bed' is new: .*drift: \{new: drop\}"):
        pp.release(policy(**strict))
    with pytest.raises(DataError, match="'bed' is new"):
        pp.release(policy(**strict), dry_run=True)


def test_a_missing_column_is_refused(lay: Any, policy: Any) -> None:
    lay(age=None)
    with pytest.raises(DataError, match="no column 'age'"):
        pp.release(policy("drop"))


@pytest.mark.parametrize("engine_name", ["embedded", pytest.param("dask", marks=pytest.mark.dask)])
def test_a_wider_type_is_accepted_unless_refused(engine_name: str, lay: Any, policy: Any) -> None:
    lay()
    pp.release(policy(engine=engine_name))
    lay(age=pa.array([30, 30, 40, 40], pa.int64()))
    with pytest.raises(DataError, match="'age' was int32 and is int64, which is wider"):
        pp.release(policy(engine=engine_name, drift={"widened": "refuse"}))
    found = pp.release(policy(engine=engine_name))
    assert found.manifest["input"]["changes"]["widened"] == {"age": ["int32", "int64"]}


def test_another_type_is_refused_until_the_policy_declares_one(lay: Any, policy: Any) -> None:
    lay()
    pp.release(policy())
    lay(age=["30", "30", "40", "40"])
    with pytest.raises(DataError, match="'age' was int32 and is string: give the source its old type"):
        pp.release(policy())
    declared = {"age": {"role": "quasi_identifier", "type": "text"}, "illness": {"role": "insensitive"}}
    assert pp.release(policy(columns=declared)).published


def test_the_type_of_a_column_that_is_dropped_does_not_matter(lay: Any, policy: Any) -> None:
    lay(ward=["a"] * 4)
    pp.release(policy("drop"))
    lay(ward=[1] * 4)
    changes = pp.release(policy("drop")).manifest["input"]["changes"]
    assert changes["changed"] == {"ward": ["string", "int64"]}


def test_the_history_shows_what_changed(lay: Any, policy: Any, tmp_path: Path) -> None:
    lay()
    pp.release(policy("drop"))
    lay(ward=["a"] * 4)
    pp.release(policy("drop"))
    lay()
    pp.release(policy("drop"))
    target = str(tmp_path / "out")
    told = [row["source_changes"] for row in history(target).releases]
    assert told == [None, {"new": ["ward"]}, {"missing": ["ward"]}]
    printed = json.loads(CliRunner().invoke(app, ["history", target, "--json"]).stdout)
    assert [row["source_changes"] for row in printed["releases"]] == told


def test_the_draws_do_not_depend_on_what_is_left_out(policy: Any) -> None:
    plain = pp.Policy.from_dict(policy())
    for values in ({"others": "drop"}, {"drift": {"widened": "refuse"}}):
        assert pp.Policy.from_dict(policy(**values)).run_digest() == plain.run_digest()


WHOLE = {
    f"{sign}int{bits}": (0 if sign else -(2 ** (bits - 1)), 2 ** (bits - (not sign)) - 1)
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
EXACT = {**WHOLE, "halffloat": (-(2**11), 2**11), "float": (-(2**24), 2**24), "double": (-(2**53), 2**53)}


@given(st.sampled_from(sorted(WHOLE)), st.sampled_from(sorted(EXACT)))
def test_a_wider_type_holds_every_whole_number_of_the_other(before: str, now: str) -> None:
    """By the definition: the range of one is in the range that the other holds exactly."""
    (low, high), (least, most) = WHOLE[before], EXACT[now]
    assert is_widened(before, now) == (least <= low and high <= most)


@pytest.mark.parametrize(
    ("before", "now", "wider"),
    [
        ("float", "double", True),
        ("double", "float", False),
        ("double", "int64", False),
        ("decimal128(5, 2)", "decimal256(40, 2)", True),
        ("decimal128(9, 2)", "decimal128(5, 2)", False),
        ("decimal128(5, 2)", "decimal128(6, 4)", False),
        ("decimal128(5, 2)", "double", False),
        ("string", "int64", False),
        ("int64", "string", False),
        ("date32[day]", "timestamp[us]", False),
        ("null", "int64", True),
        ("int64", "null", False),
    ],
)
def test_other_types_are_wider_or_changed(before: str, now: str, wider: bool) -> None:
    assert is_widened(before, now) is wider

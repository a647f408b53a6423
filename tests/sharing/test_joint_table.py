"""The joint table is the table of all records together, and leaves by its guarantees alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.errors import DataError, Refused
from privpipe.sharing import Budget, joint_policy
from privpipe.sharing.holder_steps import PUBLIC
from privpipe.sharing.sealed_files import Letter, sealed
from privpipe.tables.table import Table
from tests.sharing.conftest import AGES, REGIONS, Run, records
from tests.tiers import at_most

Runs = Callable[..., Run]
Rows = Mapping[str, list[tuple[int, int, int]]]


def joint(made: Run, sink: str = "out") -> pp.Policy:
    writer = made.document.writer
    work = made.folder / "anyone" if writer is None else made.work(writer)
    return joint_policy(made.document, work, sink, key=None if writer is None else made.key(writer))


def table_of(policy: pp.Policy) -> Table:
    assert policy.tables is not None
    assert policy.tables.counted is not None
    assert policy.source is not None
    return policy.tables.counted(pyarrow.parquet.read_table(policy.source.path)).tables["joint"]


def frame(rows: list[tuple[int, int, int]], first: int) -> pd.DataFrame:
    """One person a row, each in one cell, and a second record of every third person."""
    listed = [
        {"person": first + at, "region": REGIONS[r], "age": AGES[a], "cost": c / 100}
        for at, (r, a, c) in enumerate(rows)
    ]
    listed += listed[::3]
    kinds = {"person": "int64", "region": "object", "age": "object", "cost": "float64"}
    return pd.DataFrame(listed, columns=list(kinds)).astype(kinds)


SMALL_TABLES = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(-5000, 5000)), max_size=12),
    min_size=3,
    max_size=4,
)
NO_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(SMALL_TABLES)
@settings(max_examples=at_most(3), deadline=None, suppress_health_check=NO_CHECKS)
def test_it_is_the_table_of_all_records(tmp_path: Path, given: list[list[tuple[int, int, int]]]) -> None:
    require_plain_sums(tmp_path, given)


@pytest.mark.deep
@given(SMALL_TABLES)
@settings(max_examples=at_most(100), deadline=None, suppress_health_check=NO_CHECKS)
def test_it_is_the_table_of_all_records_of_many(tmp_path: Path, given: list[list[tuple[int, int, int]]]) -> None:
    require_plain_sums(tmp_path, given)


def require_plain_sums(tmp_path: Path, given: list[list[tuple[int, int, int]]]) -> None:
    """Every cell and total is the plain count and sum over the tables of all holders, one below the other."""
    folder = tmp_path / secrets.token_hex(8)
    folder.mkdir()
    tables = {f"h{at}": frame(rows, 100 * at) for at, rows in enumerate(given)}
    bounds = {"count": {"between": [0, 100]}, "cost": {"decimals": 2, "between": [-9999, 9999]}}
    made = Run(folder, tables, {"measures": bounds})
    made.all_but_the_last()
    found = table_of(joint(made))
    whole = pd.concat(tables.values())
    for region in (None, *REGIONS):
        for age in (None, *AGES):
            rows = whole[(whole["region"] == region) | (region is None)]
            rows = rows[(rows["age"] == age) | (age is None)]
            at = (
                found.cells.dimensions[0].codes[region or "Total"] * 3 + found.cells.dimensions[1].codes[age or "Total"]
            )
            count, cost = (found.measures[key].figures for key in ("count", "cost"))
            assert count.totals[at] == count.contributors[at] == cost.contributors[at] == rows["person"].nunique()
            assert cost.totals[at] == sum(round(Decimal(repr(each)) * 100) for each in rows["cost"])


def test_it_has_the_figures_that_aggregate_has(run: Runs) -> None:
    """Cells, contributors, codes of lone ones and sums, as one holder of all records would have."""
    measures = {"count": {"between": [0, 100]}, "cost": {"decimals": 2, "between": [-9999, 9999]}}
    tables = {name: records(at * 100, 7, at) for at, name in enumerate("abc")}
    made = run({**tables, "c": tables["c"].assign(cost=-500.5)}, measures=measures)
    made.all_but_the_last()
    found = table_of(joint(made))
    responses = ["count", {"sum": "cost", "decimals": 2}]
    one = pp.tables.Aggregate(by=["region", "age"], responses=responses).apply(
        pd.concat(made.tables.values()), person_id="person"
    )
    keys = ["region", "age"]
    shown = [each.public_table().to_pandas().sort_values(keys).reset_index(drop=True) for each in (found, one)]
    pd.testing.assert_frame_equal(*shown)
    for key in ("count", "cost"):
        mine, other = found.measures[key].figures, one.measures[key].figures
        lone = [{each.cells.name(at) for at in range(len(each)) if each.single[at]} for each in (mine, other)]
        assert lone[0] == lone[1] != set()
        assert (mine.negative > 0).any() == (other.negative > 0).any() == (key == "cost")


def test_small_joint_cells_are_hidden_and_large_ones_of_small_parts_are_not(run: Runs, tmp_path: Path) -> None:
    """Two persons at each of three holders are six together; a cell of one holder's two stays hidden."""
    cells = [(region, age, 4) for region in REGIONS for age in AGES if (region, age) != ("West", "old")]
    tables = {}
    for at, name in enumerate(("north", "south", "west")):
        own = [(r, a, 2) for r, a, _ in cells] + ([("West", "old", 2)] if name == "south" else [])
        rows = [(r, a) for r, a, number in own for _ in range(number)]
        people = {"person": range(100 * at, 100 * at + len(rows)), "cost": 10.0}
        tables[name] = pd.DataFrame({**people, "region": [r for r, _ in rows], "age": [a for _, a in rows]})
    made = run(tables, guarantees=[{"minimum_frequency": {"at_least": 5}}, {"table_audit": {}}])
    made.all_but_the_last()
    result = pp.release(joint(made, str(tmp_path / "out")), batch=made.document.nonce)
    assert result.assessment.passed
    shown = pd.read_parquet(tmp_path / "out" / "joint.parquet").set_index(["region", "age"])
    assert shown["count_status"][("West", "old")] == "c"
    assert {6.0} < set(shown["count"].dropna())  # two persons at each holder, and their totals
    assert shown["count"].isna().sum() >= 3  # and others, so that no total gives it away
    assert any("'north' saw the exact joint cells" in note for note in result.assessment.notes)
    again = pp.release(joint(made, str(tmp_path / "out")), batch=made.document.nonce)
    assert again.repeated


def test_a_sum_is_judged_by_those_who_have_a_value(run: Runs, tmp_path: Path) -> None:
    """Six persons in a cell of whom two have a cost: the count is published, and their sum is not."""
    table = pd.concat([records(0, 40, 0), pd.DataFrame({"person": range(50, 90), "region": "West", "age": "old"})])
    few = pd.DataFrame({"person": range(6), "region": "East", "age": "old", "cost": [5.0, 7.0] + [None] * 4})
    whole = table.assign(cost=table["cost"].fillna(1.0))
    made = run(
        {"north": pd.concat([whole, few.assign(person=range(900, 906))]), "south": whole, "west": whole},
        dimensions={"region": [*REGIONS, "East"], "age": AGES},
        suppress={"share_pattern": False},
    )
    made.all_but_the_last()
    pp.release(joint(made, str(tmp_path / "out")))
    shown = pd.read_parquet(tmp_path / "out" / "joint.parquet").set_index(["region", "age"])
    assert shown["sum_cost_status"][("East", "old")] == "c"
    assert table_of(joint(made)).measures["cost"].figures.contributors.min() == 0


def test_no_person_at_any_holder(run: Runs, tmp_path: Path) -> None:
    """Over nothing no guarantee holds."""
    made = run({name: records(0, 3, 0).iloc[:0] for name in "abc"})
    made.all_but_the_last()
    with pytest.raises(Refused):
        pp.release(joint(made, str(tmp_path / "out")))


def test_hostile_names_and_labels(run: Runs, tmp_path: Path) -> None:
    names = ('a"b;--', "c:d'", "é\u202e")
    table = records(0, 30, 0)
    own = pd.DataFrame({names[0]: ["x'y", "%s", "Ü"] * 10, names[1]: table["cost"], names[2]: table["person"]})
    labels = {names[0]: ["Ü", "x'y", "%s", "never"]}
    measures = {"count": {"between": [0, 99]}, names[1]: {"decimals": 2, "between": [0, 9999]}}
    made = run(dict.fromkeys("abc", own), dimensions=labels, measures=measures, person_id=names[2])
    made.all_but_the_last()
    pp.release(joint(made, str(tmp_path / "out")))
    shown = pd.read_parquet(tmp_path / "out" / "joint.parquet").set_index(names[0])
    assert shown["count"].to_dict() == {"Total": 90, "Ü": 30, "x'y": 30, "%s": 30, "never": 0}


def test_what_cannot_be_hidden_is_refused_and_nothing_is_written(run: Runs, tmp_path: Path) -> None:
    made = run(guarantees=[{"minimum_frequency": {"at_least": 60}}, {"table_audit": {}}], suppress={"fixed": [{}]})
    made.all_but_the_last()
    with pytest.raises((Refused, pp.errors.NoSolutionError)):
        pp.release(joint(made, str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_a_holder_that_sends_something_else_than_shares(run: Runs) -> None:
    """A signed partial sum that is none: impossible cells are found, a lie within the bounds is not."""
    made = run()
    made.all_but_the_last()
    document = made.document
    letter = Letter(nonce=document.nonce, run=document.digest, kind="sum", sender="west", to="north")
    path = document.folder / letter.name
    for body, match in ((b"\x01" * 144, "impossible under the declared bounds"), (b"12345678", "for each cell")):
        path.unlink()
        path.write_bytes(sealed(letter, body, made.key("west"), document.holders["north"].seal))
        path.chmod(PUBLIC & 0o644)
        with pytest.raises(DataError, match=match):
            joint(made)


def test_noise_is_published_by_anyone_and_judged(run: Runs, tmp_path: Path) -> None:
    measures: dict[str, Any] = {"count": {"between": [0, 1000]}}
    private = {"writer": None, "guarantees": None, "epsilon": 3, "contribution_bound": 1, "colluding": 1}
    made = run(**private, measures=measures)
    for name in made.tables:
        made.split(name, budget=Budget(tmp_path / name, Fraction(3)))
    for name in made.tables:
        made.add_up(name)
    result = pp.release(joint(made, str(tmp_path / "out")), batch=made.document.nonce)
    [verdict] = result.assessment.verdicts
    assert (verdict.outcome, verdict.observed["epsilon"]) == ("pass", 3.0)
    assert any("2 make up the whole" in note and "for 1 holders" in note for note in result.assessment.notes)
    shown = pd.read_parquet(tmp_path / "out" / "joint.parquet")
    assert set(shown["count_status"]) == {"noisy"}
    exact = sum(len(table) for table in made.tables.values())
    assert abs(shown["count"][0] - exact) < 60
    inner = shown[(shown["region"] != "Total") & (shown["age"] != "Total")]
    assert inner["count"].sum() == shown["count"][0]

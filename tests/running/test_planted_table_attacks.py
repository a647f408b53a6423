"""Attacks that are planted in policies: each is refused, or the files that are published withstand it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, NoSolutionError, Refused
from tests.tables.attacker import Attacker, Published, read
from tests.tiers import deep

FLAT = {"north": "Total", "south": "Total", "west": "Total"}
SEXES = {"f": "Total", "m": "Total"}
FREQUENCY, AUDIT = {"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}
PEOPLE = pd.DataFrame(
    {
        "region": ["north"] * 9 + ["south"] * 11 + ["west"] * 8,
        "sex": ["f"] * 1 + ["m"] * 8 + ["f"] * 6 + ["m"] * 5 + ["f"] * 5 + ["m"] * 3,
        "cost": [90001 if at == 0 else 100 + at for at in range(28)],
        "holder": range(28),
    }
)
Release = Callable[..., Path]


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    """Publishes tables of some records; gives the folder, or raises as the release does."""

    def made(
        records: pd.DataFrame,
        tables: dict[str, Any],
        *stages: dict[str, Any],
        guarantees: list[dict[str, Any]] | None = None,
        hierarchies: dict[str, Any] | None = None,
        **more: Any,
    ) -> Path:
        records.reset_index(drop=True).to_parquet(tmp_path / "records.parquet")
        columns: dict[str, Any] = {str(name): {"role": "quasi_identifier"} for name in records}
        for name, rows in (hierarchies or {}).items():
            columns[name]["hierarchy"] = {"rows": rows}
        if more.get("person_id"):
            columns[more["person_id"]] = {"role": "identifier"}
        policy = {
            "version": 1,
            "columns": columns,
            "source": {"path": str(tmp_path / "records.parquet")},
            "sink": {"path": str(tmp_path / "out")},
            "transform": [{"aggregate": {"tables": tables}}, *stages],
            "guarantees": guarantees or [FREQUENCY, AUDIT],
            **more,
        }
        path = pp.release(policy).path
        return Path(str(path))

    yield made
    # A refusal publishes nothing; each test ends with one release or none.
    state = tmp_path / ".out.privpipe" / "staging"
    assert not state.exists() or list(state.iterdir()) == []


BOTH = {"by": ["region", "sex"], "responses": ["count"]}
HIDE: dict[str, Any] = {"suppress_table": {}}


def test_trap_9_a_single_blank_is_never_published(release: Release) -> None:
    files = release(PEOPLE, {"both": BOTH}, HIDE)
    table = Published(("region", "sex"), read(files / "both.parquet", ["region", "sex"], "count"))
    attacker = Attacker([table], {"region": FLAT, "sex": SEXES})
    blanks = attacker.blanks()
    assert len(blanks) >= 4
    low, high = attacker.ends(blanks[0, ("north", "f")])
    assert low <= 1
    assert high >= 2


def test_trap_10_a_margin_hidden_in_one_table_and_published_in_another_is_refused(release: Release) -> None:
    """Each table is safe alone; the second shows what the first one hides."""
    small = PEOPLE[(PEOPLE["region"] != "north") | (PEOPLE["sex"] == "f")]
    tables = {"both": BOTH, "regions": {"by": ["region"], "responses": ["count"]}}
    with pytest.raises((Refused, NoSolutionError)):
        release(small, tables, {"suppress_table": {"tables": ["both"]}})
    files = release(small, tables, HIDE)
    shown = read(files / "regions.parquet", ["region"], "count")
    assert shown["north",] is None
    assert read(files / "both.parquet", ["region", "sex"], "count")["north", "Total"] is None


def test_trap_11_a_label_with_one_child_is_hidden_with_it(release: Release) -> None:
    rows = [["north", "upland", "*"], ["south", "lowland", "*"], ["west", "lowland", "*"]]
    small = PEOPLE[(PEOPLE["region"] != "north") | (PEOPLE["sex"] == "f")]
    table = {"by": ["region"], "responses": ["count"]}
    files = release(small, {"one": table}, HIDE, hierarchies={"region": rows})
    shown = read(files / "one.parquet", ["region"], "count")
    assert shown["upland",] is None
    assert shown["north",] is None


def test_trap_4_branches_of_one_holding_are_one_contributor(release: Release) -> None:
    branches = PEOPLE.assign(holder=[0 if region == "west" else at for at, region in enumerate(PEOPLE["region"])])
    table = {"by": ["region"], "responses": [{"sum": "cost"}]}
    with pytest.raises(Refused, match=r"observed 1; 1 of 4 published figures are unsafe"):
        release(branches, {"one": table}, guarantees=[FREQUENCY], person_id="holder")
    release(PEOPLE, {"one": table}, guarantees=[FREQUENCY], person_id="holder")


def test_trap_6_negative_contributions_are_refused_by_concentration_rules(release: Release) -> None:
    table = {"by": ["region"], "responses": [{"sum": "cost"}]}
    debts = PEOPLE.assign(cost=PEOPLE["cost"] - 110)
    with pytest.raises(DataError, match="negative"):
        release(debts, {"one": table}, guarantees=[{"p_percent": {"at_least": 10}}])


def test_trap_7_a_row_of_zeros_hides_nothing(release: Release) -> None:
    """The only woman of the north, where the other women's cells are empty: men must be hidden, or margins."""
    women = PEOPLE[(PEOPLE["sex"] == "m") | (PEOPLE["region"] == "north")]
    files = release(women, {"both": BOTH}, HIDE)
    table = Published(("region", "sex"), read(files / "both.parquet", ["region", "sex"], "count"))
    attacker = Attacker([table], {"region": FLAT, "sex": SEXES})
    low, high = attacker.ends(attacker.blanks()[0, ("north", "f")])
    assert low <= 1
    assert high >= 2


def test_trap_8_a_mean_is_hidden_with_its_count(release: Release) -> None:
    table = {"by": ["region", "sex"], "responses": ["count", {"mean": "cost"}, {"sum": "cost"}]}
    frame = pq.read_table(release(PEOPLE, {"one": table}, HIDE) / "one.parquet").to_pandas()
    blank = frame["count"].isna()
    assert blank.any()
    assert frame.loc[blank, ["mean_cost", "sum_cost"]].isna().all(axis=None)
    with pytest.raises(Refused):
        release(PEOPLE, {"one": {**table, "responses": [{"mean": "cost"}]}})


def test_trap_8_a_rounded_cell_is_not_a_safe_cell(release: Release) -> None:
    """Parts rounded to 0 or 5 next to their exact total; and small cells that are only rounded."""
    with pytest.raises(Refused, match="published figures are unsafe"):
        release(PEOPLE, {"both": BOTH}, {"round_table": {"base": 5}})
    two = {"exact": {"by": ["region"], "responses": ["count"]}, "rounded": BOTH}
    files = release(PEOPLE, two, HIDE, {"round_table": {"base": 5, "tables": ["rounded"]}})
    tables = [
        Published(("region",), read(files / "exact.parquet", ["region"], "count")),
        Published(("region", "sex"), read(files / "rounded.parquet", ["region", "sex"], "count"), base=5),
    ]
    attacker = Attacker(tables, {"region": FLAT, "sex": SEXES})
    low, high = attacker.ends(attacker.blanks()[1, ("north", "f")])
    assert low <= 1
    assert high >= 2


def test_trap_9_insiders_do_not_compute_each_other(release: Release) -> None:
    """Two holdings, each alone in a cell of one row: the row's total would tell each of them the other one."""
    rows = [("north", "f", 500), ("north", "m", 700)]
    rows += [(region, sex, 10 * at) for region in ("south", "west") for sex in "fm" for at in range(5, 11)]
    records = pd.DataFrame(rows, columns=["region", "sex", "cost"])
    table = {"by": ["region", "sex"], "responses": [{"sum": "cost"}]}
    files = release(records, {"one": table}, HIDE)
    figures = read(files / "one.parquet", ["region", "sex"], "sum_cost")
    assert figures["north", "f"] is figures["north", "m"] is figures["north", "Total"] is None
    trees = {"region": FLAT, "sex": SEXES}
    attacker = Attacker([Published(("region", "sex"), figures)], trees, whole=False)
    blanks = attacker.blanks()
    mine, other = blanks[0, ("north", "f")], blanks[0, ("north", "m")]
    low, high = Attacker(attacker.tables, trees, known={mine: 500}, whole=False).ends(other)
    assert high - low > 1


def test_trap_12_records_without_a_label_are_a_cell(release: Release) -> None:
    """Totals minus the parts that are shown would be the two whose region is missing."""
    some = PEOPLE.assign(region=[None if at in (10, 11) else each for at, each in enumerate(PEOPLE["region"])])
    table = {"by": ["region"], "responses": ["count"]}
    with pytest.raises(Refused):
        release(some, {"one": table})
    figures = read(release(some, {"one": table}, HIDE) / "one.parquet", ["region"], "count")
    assert figures["(missing)",] is None
    assert sum(figure is None for figure in figures.values()) >= 2


@pytest.mark.parametrize("label", ["Total", deep("total"), deep(" Total ")])
def test_trap_22_a_value_that_reads_as_the_total_is_refused(release: Release, label: str) -> None:
    with pytest.raises(DataError):
        release(PEOPLE.replace("west", label), {"one": {"by": ["region"], "responses": ["count"]}})


@pytest.mark.parametrize("asked", [AUDIT, {"differencing": {"at_least": 3}}], ids=["table_audit", "differencing"])
def test_trap_25_a_subgroup_is_subtracted(release: Release, asked: dict[str, Any]) -> None:
    everyone = {"by": ["region"], "responses": ["count"]}
    tables = {"all": everyone, "men": {**everyone, "only": {"sex": "m"}}}
    with pytest.raises(Refused):
        release(PEOPLE, tables, guarantees=[FREQUENCY, asked])


@pytest.mark.parametrize("asked", [AUDIT, {"differencing": {"at_least": 3}}], ids=["table_audit", "differencing"])
def test_a_recode_with_other_cuts_is_subtracted(release: Release, asked: dict[str, Any]) -> None:
    ages = PEOPLE.assign(from_20=["20+"] * 14 + ["-19"] * 14, from_25=["25+"] * 12 + ["-24"] * 16)
    cuts = {name: {"by": [name], "responses": ["count"]} for name in ("from_20", "from_25")}
    with pytest.raises(Refused):
        release(ages, cuts, guarantees=[FREQUENCY, asked])


def test_trap_16_a_pattern_does_not_depend_on_the_seed(release: Release) -> None:
    """Patterns of several runs, laid together, would show more than each."""
    table = {"by": ["region", "sex"], "responses": ["count", {"sum": "cost"}]}
    seen = set()
    for method in ("auto", "gauss"):
        patterns = set()
        for seed in ("one", "two", "three"):
            more = {"seed": {"insecure": seed}, "allow_insecure_seed": True}
            files = release(PEOPLE, {"one": table}, {"suppress_table": {"method": method}}, **more)
            patterns.add((files / "one.parquet").read_bytes())
        assert len(patterns) == 1, method
        seen |= patterns
    assert seen


def test_no_statistics_of_a_file_show_a_hidden_figure(release: Release) -> None:
    table = {"by": ["region", "sex"], "responses": ["count", {"sum": "cost"}]}
    files = release(PEOPLE, {"one": table}, HIDE)
    figures = read(files / "one.parquet", ["region", "sex"], "sum_cost")
    assert figures["north", "f"] is None
    shown = [figure for figure in figures.values() if figure is not None]
    meta = pq.ParquetFile(files / "one.parquet").metadata
    for group in range(meta.num_row_groups):
        for at in range(meta.num_columns):
            column = meta.row_group(group).column(at)
            if column.path_in_schema == "sum_cost":
                assert column.statistics.min == min(shown)
                assert column.statistics.max == max(shown)
    text = "".join(path.read_text() for path in (files / "_privpipe").iterdir())
    assert "90001" not in text
    assert b"90001" not in (files / "one.parquet").read_bytes()


def test_two_releases_without_a_ledger_say_what_was_not_judged(release: Release, tmp_path: Path) -> None:
    release(PEOPLE, {"one": {"by": ["region"], "responses": ["count"]}})
    assert "earlier tables about the same persons were not judged" in "".join(
        path.read_text() for path in (tmp_path / "out" / "_privpipe").iterdir()
    )

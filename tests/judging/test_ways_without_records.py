"""What every way of judging says where it has nothing to judge by: never a pass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from privpipe.blocks import Verdict
from privpipe.blocks import way as ways
from privpipe.blocks.file_pair import TableFiles, TableMeasure
from privpipe.blocks.way import Way
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging import JudgingRules, assess
from privpipe.judging.ways import items, record_pairs
from privpipe.measures import (
    AttributeRisk,
    CorrectAttribution,
    InformationLoss,
    RecordLinkage,
    Recovery,
    UnsortedMatching,
)
from privpipe.models import HouseholdKAnonymity, IntegralPrivacy, KAnonymity, KmAnonymity, WholeHouseholds
from privpipe.roles import Roles
from privpipe.testing.people import people

RULES = JudgingRules(household="household")
ROLES = Roles(quasi_identifiers=("age", "zip", "sex"), sensitive=("illness",), insensitive=("household", "income"))
BESIDE: dict[Way, Any] = {
    ways.BESIDE: Recovery(),
    ways.JOINED_CLASSES: CorrectAttribution(column="illness"),
    ways.KEPT_HOUSEHOLDS: WholeHouseholds(),
    ways.POSITIONS: UnsortedMatching(),
    ways.WHOLE_TABLES: InformationLoss(measure="propensity", at_most=0.01),
    ways.FILES: RecordLinkage(),
}
OF_SUPPRESSED: dict[Way, Any] = {
    ways.CLASSES: KAnonymity(k=1),
    ways.DISTINCT: AttributeRisk(),
    ways.HOUSEHOLDS: HouseholdKAnonymity(k=1),
    ways.ITEMS: KmAnonymity(k=1, m=1, items="illness"),
    ways.RECODED_TABLES: InformationLoss(measure="c_avg", at_most=2.0, k=2),
    ways.FACTS: IntegralPrivacy(k=2, query={"statistic": "count", "column": "income", "digits": -1}),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TablesSeen(TableMeasure):
    """The records of the tables that a measure of whole tables is given."""

    def judge_tables(self, files: TableFiles) -> Verdict:
        sides = {"original": files.original, "released": files.released, "holdout": files.holdout}
        return Verdict(self, {side: rows and sorted(rows.to_pylist(), key=str) for side, rows in sides.items()}, "pass")


def scanned(engine: Engine, rows: pa.Table) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed(bytes(16)))


@pytest.mark.parametrize("way", BESIDE, ids=lambda way: way.name)
def test_beside_no_original_it_is_an_error(embedded: Engine, way: Way) -> None:
    table = scanned(embedded, people(40).rows)
    [verdict] = assess(embedded, table, guarantees=(), measures=[BESIDE[way]], roles=ROLES, rules=RULES).measures
    assert BESIDE[way].way == way
    assert (verdict.outcome, verdict.observed) == ("error", None)


@pytest.mark.parametrize("way", [way for way in BESIDE if way != ways.POSITIONS], ids=lambda way: way.name)
def test_beside_its_original_it_is_judged(embedded: Engine, way: Way) -> None:
    table = scanned(embedded, people(40).rows)
    found = assess(embedded, table, guarantees=(), measures=[BESIDE[way]], roles=ROLES, rules=RULES, original=table)
    assert found.measures[0].outcome != "error"


def marks(records: int) -> pa.Table:
    kinds = {name: pa.string() for name in ("name", "household", "age", "zip", "sex", "illness")} | {
        "income": pa.float64()
    }
    return pa.table(
        {
            name: pa.array([None if name == "income" else "*"] * records, kind)
            if name != "name"
            else pa.array([str(at) for at in range(records)])
            for name, kind in kinds.items()
        }
    )


@pytest.mark.parametrize("way", OF_SUPPRESSED, ids=lambda way: way.name)
def test_suppressed_records_alone_fail_and_no_records_are_refused(embedded: Engine, way: Way) -> None:
    entry = OF_SUPPRESSED[way]
    assert entry.way == way
    released = ("age", "zip", "sex", "illness", "income", *(("household",) if way == ways.HOUSEHOLDS else ()))
    rules = JudgingRules(household="household", released=released)
    [verdict] = assess(
        embedded, scanned(embedded, marks(3)), guarantees=(), measures=[entry], roles=ROLES, rules=rules
    ).measures
    assert (verdict.outcome, verdict.observed) == ("fail", None)
    assert verdict.reason == "every record is suppressed."
    with pytest.raises(DataError, match="the table has no records"):
        assess(embedded, scanned(embedded, marks(0)), guarantees=(), measures=[entry], roles=ROLES, rules=rules)


def test_suppressed_records_alone_pass_where_an_empty_release_is_allowed(embedded: Engine) -> None:
    entry, released = OF_SUPPRESSED[ways.FACTS], ("age", "zip", "sex", "illness", "income")
    rules = JudgingRules(released=released, allow_empty=True)
    [verdict] = assess(embedded, scanned(embedded, marks(3)), guarantees=[entry], roles=ROLES, rules=rules).verdicts
    assert (verdict.outcome, verdict.observed, verdict.reason) == ("pass", None, "every record is suppressed.")


@pytest.mark.parametrize("asked", [{"nulls": "refuse"}, {"refuse_nulls": ("ward",)}], ids=["policy", "column"])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_value_is_refused_where_it_is_asked_and_nowhere_else(
    engine: Engine, asked: dict[str, Any], missing: int
) -> None:
    column = "zip" if "nulls" in asked else "ward"
    cells: list[str | None] = ["1", "1", "1", "1"]
    rows = pa.table({"zip": cells, "ward": cells, "note": pa.array([None] * 4, pa.string())}).to_pydict()
    rows[column] = [None] * missing + cells[missing:]
    table = engine.scan(Source(data=pa.table({**rows, "note": pa.array(rows["note"], pa.string())})))
    roles = Roles(quasi_identifiers=("zip",), insensitive=("ward", "note"))
    given: dict[str, Any] = {"guarantees": [KAnonymity(k=1)], "roles": roles, "rules": JudgingRules(**asked)}
    if not missing:
        assert assess(engine, table, **given).verdicts[0].observed == 4
        return
    with pytest.raises(DataError, match=rf"column '{column}' has {missing} missing values and the policy has"):
        assess(engine, table, **given)


@pytest.mark.parametrize("kind", [pa.float64(), pa.binary()])
def test_items_are_texts(embedded: Engine, kind: pa.DataType) -> None:
    rows = pa.table({"zip": ["1"], "basket": pa.array([b"1"] if kind == pa.binary() else [1.0], kind)})
    with pytest.raises(DataError, match="column 'basket' holds no sets of items but the type"):
        assess(
            embedded,
            embedded.scan(Source(data=rows)),
            guarantees=[KmAnonymity(k=1, m=1, items="basket")],
            roles=Roles(quasi_identifiers=("zip",)),
        )


def test_combinations_are_counted_up_to_a_number_and_no_further(
    embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = embedded.scan(Source(data=pa.table({"zip": ["1", "2"], "basket": ["a b c", "a b"]})))
    asked: dict[str, Any] = {
        "guarantees": [KmAnonymity(k=1, m=2, items="basket", separator=" ")],
        "roles": Roles(quasi_identifiers=("zip",)),
    }
    monkeypatch.setattr(items, "MOST_COMBINATIONS", 4)  # ab, ac, bc of the first record, ab of the second
    assert assess(embedded, table, **asked).verdicts[0].observed == 1
    monkeypatch.setattr(items, "MOST_COMBINATIONS", 3)
    with pytest.raises(UnsupportedError, match="the records have 4 combinations of up to 2 items"):
        assess(embedded, table, **asked)


@pytest.mark.parametrize(
    ("room", "entry", "told"),
    [
        (
            record_pairs,
            RecordLinkage(),
            "the two files hold 240 cells of the columns compared, 239 are brought together",
        ),
        (record_pairs, TablesSeen(), "the tables hold 240 cells of the columns compared, 239 at most"),
    ],
    ids=["files", "whole tables"],
)
def test_so_many_cells_are_brought_together_and_no_more(
    embedded: Engine, monkeypatch: pytest.MonkeyPatch, room: Any, entry: Any, told: str
) -> None:
    table = scanned(embedded, people(40).rows)

    def verdict(largest: int) -> Any:
        monkeypatch.setattr(room, "LARGEST_GATHERED", largest)
        return assess(embedded, table, guarantees=(), measures=[entry], roles=ROLES, original=table).measures[0]

    assert verdict(240).outcome != "error", "40 records of 3 columns in each of two tables"
    found = verdict(239)
    assert found.outcome == "error"
    assert told in found.reason


def test_whole_tables_come_with_every_record_and_a_holdout_where_one_is_named(embedded: Engine, tmp_path: Path) -> None:
    rows = people(20).rows.select(["name", "age", "zip", "sex", "illness", "household", "income"])
    pyarrow.csv.write_csv(rows.slice(0, 6).select(["age", "zip", "sex"]), tmp_path / "holdout.csv")
    original, released = scanned(embedded, rows), scanned(embedded, rows.slice(5))

    def seen(holdout: str | None) -> Any:
        asked = [TablesSeen(holdout=holdout)]
        found = assess(embedded, released, guarantees=(), measures=asked, roles=ROLES, original=original)
        return found.measures[0].observed

    def records(first: int, last: int) -> list[Any]:
        return sorted(rows.slice(first, last - first).select(["age", "zip", "sex"]).to_pylist(), key=str)

    assert seen(None) == {"original": records(0, 20), "released": records(5, 20), "holdout": None}
    assert seen(str(tmp_path / "holdout.csv"))["holdout"] == records(0, 6)

"""Finished tables that are not tables: each kind of bad input, and what a file reveals in addition to its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import DataError, HierarchyError, UsageError
from privpipe.running import table_frames

LABELS = ["Total", "N", "S", "W"]
TRUE = [60, 30, 30, 25, 2, 23, 25, 20, 5, 10, 8, 2]
BLANK = [4, 5, 10, 11]
"""Places of cells that protect one another."""
RULE, AUDIT = {"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}


def table(blank: list[int] = BLANK, **changes: Any) -> pd.DataFrame:
    """Counts by region and sex with all totals, some blank."""
    rows = [(region, sex) for region in LABELS for sex in ("Total", "f", "m")]
    frame = pd.DataFrame(rows, columns=["region", "sex"])
    frame["count"] = pd.Series(TRUE, dtype="Int64").mask(pd.Series(range(12)).isin(blank))
    return frame.assign(**changes)


def policy(*guarantees: Any, responses: Any = ("count",), columns: Any = None, **aggregate: Any) -> dict[str, Any]:
    roles: dict[str, Any] = {"region": {"role": "quasi_identifier"}, "sex": {"role": "quasi_identifier"}}
    given = {"by": ["region", "sex"], "responses": list(responses), **aggregate}
    return {
        "version": 1,
        "columns": {**roles, "cost": {"role": "insensitive"}, **(columns or {})},
        "transform": [{"aggregate": {name: value for name, value in given.items() if value is not None}}],
        "guarantees": list(guarantees) or [RULE, AUDIT],
    }


def test_a_safe_table_passes() -> None:
    assert pp.validate(table(), policy()).passed
    assert pp.validate(table(), policy(), original=table([])).passed


@pytest.mark.parametrize("rule", ["minimum_frequency", "differencing"])
def test_thresholds_that_protect_no_one_are_noted(rule: str, tmp_path: Path) -> None:
    note = f"{rule} with at_least = 1 protects no one"
    asked = policy({rule: {"at_least": 1}}, RULE)
    assert note in pp.validate(table([]), policy({rule: {"at_least": 1}}), original=table([])).notes
    frame = pd.DataFrame({"region": ["N"] * 6 + ["S"] * 6, "sex": ["f", "m"] * 6})
    asked["columns"] = {name: {"role": "quasi_identifier"} for name in frame}
    asked["sink"] = {"path": str(tmp_path / "out")}
    asked["source"] = {"path": str(tmp_path / "people.csv")}
    frame.to_csv(tmp_path / "people.csv", index=False)
    assert note in pp.release(asked).assessment.notes
    made = pp.tables.Aggregate(by=["region", "sex"], responses=["count"]).apply(frame)
    entries = {"minimum_frequency": pp.tables.MinimumFrequency, "differencing": pp.tables.Differencing}
    assert note in pp.check(made, [entries[rule](at_least=1)]).notes
    assert not any("protects no one" in each for each in pp.check(made, [entries[rule](at_least=2)]).notes)


def _added(place: int, more: int) -> pd.DataFrame:
    found = table()
    found.loc[place, "count"] += more
    return found


WRONG = {
    "a total that does not add up": (
        _added(6, 1),
        r"2 totals of 'count' are not the sum of their parts: \(region=Total, sex=Total\) along 'region' is 1 less "
        r"than they; \(region=S, sex=Total\) along 'sex' is 1 more than they",
    ),
    "a total of another population": (_added(3, 100), "does not add up"),
    "a missing grand total": (table().iloc[1:], "totals have no row: 1 along 'region', 1 along 'sex'"),
    "a missing subtotal": (table().drop(index=6), "totals have no row: 1 along 'sex'"),
    "a cell twice": (pd.concat([table(), table().iloc[[4]]]), r"cell \(region=\?, sex=\?\) occurs more than once"),
    "the total twice, once in other case": (
        pd.concat([table(), table().iloc[:3].assign(region="TOTAL")]),
        "1 labels read as the label of the total",
    ),
    "a total with a space": (table().replace({"region": {"Total": "Total "}}), "read as the label of the total"),
    "two labels that differ by a space": (
        pd.concat([table(), table().iloc[3:6].assign(region="N ")]),
        "differ from others only in spaces",
    ),
    "a negative count": (_added(7, -40), "1 counts of 'count' are negative"),
    "half a person": (table([], count=[each + 0.5 for each in TRUE]), "are not whole numbers"),
    "a mask that tells a range": (table(count=[str(each) if each > 2 else "<3" for each in TRUE]), "reveals more"),
    "two marks": (
        table(count=[{4: "c", 5: "x"}.get(at, str(each)) for at, each in enumerate(TRUE)]),
        "marks blank figures in several ways",
    ),
    "figures left in place": (
        table([], count_status=["c" if at in BLANK else "published" for at in range(12)]),
        "4 figures of 'count' are marked as suppressed and still there",
    ),
    "a status that shows the reason": (
        table(count_status=["primary" if at in BLANK else "published" for at in range(12)]),
        "distinguishes suppressed cells",
    ),
    "perturbed figures": (
        table(count_status="perturbed"),
        "perturbed and noisy figures are judged where they are made",
    ),
    "rounded figures of unknown base": (table(count_status="rounded"), "no `round_table` of the policy states"),
    "a column that nothing judges": (table(share=0.5), "columns 'share' are neither dimensions nor responses"),
    "no rows": (table().iloc[:0], "has no label but that of the total|no rows|no label"),
    "a figure beyond 64 bits": (table([], count=[2**62] * 12), "beyond 64 bits"),
    "a table that no population has": (
        table([1, 4, 7], count=lambda t: t["count"].mask(t.index == 10, 50)),
        "add up|no table agrees",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_table_that_is_none_is_refused(name: str) -> None:
    frame, message = WRONG[name]
    with pytest.raises(DataError, match=message):
        pp.validate(frame, policy())


@pytest.mark.parametrize("name", WRONG)
def test_the_command_ends_with_3_and_no_traceback(name: str, tmp_path: Path) -> None:
    frame, _ = WRONG[name]
    frame.to_parquet(tmp_path / "table.parquet", index=False)
    (tmp_path / "policy.json").write_text(json.dumps(policy()))
    found = CliRunner().invoke(app, ["validate", str(tmp_path / "table.parquet"), str(tmp_path / "policy.json")])
    assert found.exit_code == 3, found.output
    assert isinstance(found.exception, SystemExit)
    assert "Traceback" not in found.output
    assert "PASS" not in found.output


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("blank", "code"), [(BLANK, 0), ([4, 5], 5), ([], 5)])
def test_exit_codes(blank: list[int], code: int, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{kind}"
    table(blank).to_csv(path, index=False) if kind == "csv" else table(blank).to_parquet(path, index=False)
    (tmp_path / "policy.json").write_text(json.dumps(policy()))
    found = CliRunner().invoke(app, ["validate", str(path), str(tmp_path / "policy.json")])
    assert found.exit_code == code, found.output


def test_a_table_larger_than_tables_are_is_not_read() -> None:
    rows = pa.table({"region": pa.repeat("N", 10_000_000), "sex": pa.repeat("f", 10_000_000)})
    rows = rows.append_column("count", pa.repeat(5, 10_000_000))
    with pytest.raises(DataError, match=r"10,000,000 rows, and tables of up to 5,000,000 cells are judged"):
        pp.validate(rows, policy())


def test_a_file_of_more_rows_than_tables_have_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_frames, "MOST_CELLS", 11)
    table().to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(DataError, match=r"more than 11 rows, and tables of up to 11 cells are judged"):
        pp.validate(tmp_path / "table.csv", policy())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("region,sex,sex\nTotal,Total,4\n", "table.csv: column 'sex' occurs 2 times"),
        ("region,sex,count\nTotal,Total,4,4\n", "table.csv: 1 line of the source has another number of fields"),
        ('region,sex,count\nTotal,"Total,4\n', "table.csv: the file ends inside a quoted field"),
        ("", "table.csv: the file is empty"),
    ],
    ids=["names", "ragged", "unclosed", "empty"],
)
def test_a_file_that_is_not_a_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        pp.validate(tmp_path / "table.csv", policy())


def test_a_hierarchy_that_is_not_nested_is_refused() -> None:
    nested = {"hierarchy": {"rows": [["N", "coast", "*"], ["S", "coast", "*"], ["W", "hills", "*"]]}}
    rows = [("Total", 9), ("coast", 5), ("hills", 4), ("N", 2), ("S", 3), ("W", 4)]
    frame = pd.DataFrame(rows, columns=["region", "count"])
    asked = policy({"minimum_frequency": {"at_least": 2}}, AUDIT, by=["region"], columns={"region": nested | ROLE})
    assert pp.validate(frame, asked).passed
    crossed = {"hierarchy": {"rows": [["N", "coast", "a", "*"], ["S", "coast", "b", "*"], ["W", "hills", "b", "*"]]}}
    asked = policy(RULE, AUDIT, by=["region"], columns={"region": crossed | ROLE})
    with pytest.raises((HierarchyError, DataError)):
        pp.validate(frame, asked)


ROLE = {"role": "quasi_identifier"}


def test_levels_that_the_table_does_not_show_are_not_relations() -> None:
    tree = {"hierarchy": {"rows": [["N", "coast", "*"], ["S", "coast", "*"], ["W", "hills", "*"]]}}
    frame = pd.DataFrame([("Total", 9), ("coast", 5), ("hills", 4)], columns=["region", "count"])
    asked = policy(RULE, AUDIT, by=["region"], columns={"region": tree | ROLE})
    assert pp.validate(frame, asked).passed
    assert pp.validate(frame.assign(count=[9, None, None]), asked).passed
    assert not pp.validate(frame.assign(count=[9, None, 4]), asked).passed


@pytest.mark.parametrize(
    ("counts", "passes"), [([9, 9, 4, 5], True), ([9, None, 4, 5], False), ([9, 9, None, 5], False)]
)
def test_a_level_of_one_label_is_a_relation_of_one_part(counts: list[int | None], passes: bool) -> None:
    tree = {"hierarchy": {"rows": [["N", "land", "*"], ["S", "land", "*"]]}}
    frame = pd.DataFrame({"region": ["Total", "land", "N", "S"], "count": pd.array(counts, dtype="Int64")})
    assert pp.validate(frame, policy(RULE, AUDIT, by=["region"], columns={"region": tree | ROLE})).passed == passes


def test_a_label_below_a_missing_inner_one_is_refused() -> None:
    tree = {"hierarchy": {"rows": [["N", "coast", "*"], ["S", "coast", "*"], ["W", "hills", "*"]]}}
    rows = [("Total", 9), ("N", 2), ("S", 3), ("W", 4)]
    with pytest.raises(DataError, match="totals have no row: 2 along 'region'"):
        pp.validate(
            pd.DataFrame(rows, columns=["region", "count"]),
            policy(RULE, AUDIT, by=["region"], columns={"region": tree | ROLE}),
        )


def test_an_unknown_label_is_refused_without_being_told() -> None:
    tree = {"hierarchy": {"rows": [["N", "*"], ["S", "*"], ["W", "*"]]}}
    frame = table().replace({"region": {"W": "rare disease"}})
    with pytest.raises(DataError, match="3 rows have a label that it does not hold") as caught:
        pp.validate(frame, policy(RULE, AUDIT, columns={"region": tree | ROLE}))
    assert "rare" not in str(caught.value)


NESTED = [["N", "coast", "*"], ["S", "coast", "*"], ["W", "hills", "*"]]


@pytest.mark.parametrize("levels", [[0], [1], [0, 1]])
@pytest.mark.parametrize("unknown", ["refuse", "root"])
def test_a_published_table_with_missing_and_unknown_labels_is_judged(
    unknown: str, levels: list[int], tmp_path: Path
) -> None:
    """Labels that no hierarchy has, and releases give: those of null, and of values that go to the root."""
    others: list[Any] = [None] if unknown == "refuse" else [None, "Z"]
    regions = ["N"] * 12 + ["S"] * 9 + ["W"] * 7 + others * 5
    frame = pd.DataFrame({"region": regions, "sex": (["f", "m"] * len(regions))[: len(regions)], "cost": 1})
    frame.to_parquet(tmp_path / "people.parquet")
    column = {"region": ROLE | {"hierarchy": {"rows": NESTED, "unknown": unknown}}}
    asked = policy({"minimum_frequency": {"at_least": 2}}, AUDIT, columns=column, levels={"region": levels})
    released = asked | {
        "source": {"path": str(tmp_path / "people.parquet")},
        "sink": {"path": str(tmp_path / "out"), "format": "csv"},
    }
    pp.release(released)
    [file] = (tmp_path / "out").glob("*.csv")
    labels = set(pd.read_csv(file)["region"])
    assert "(missing)" in labels
    assert ("(unknown)" in labels) == (unknown == "root")
    judged = pp.validate(file, asked, original=file)
    assert judged.passed
    assert judged.records == len(pd.read_csv(file))
    assert pp.validate(file, asked).passed


def test_a_wide_table_is_judged_as_the_long_one(tmp_path: Path) -> None:
    wide = table().pivot(index="region", columns="sex", values="count").reset_index()
    judged = pp.validate(wide, policy(layout="wide"), original=table([]))
    assert judged.passed
    assert judged.records == 12
    wide.to_csv(tmp_path / "table.csv", index=False)
    assert pp.validate(tmp_path / "table.csv", policy(layout="wide")).passed
    leaky = table([4, 5]).pivot(index="region", columns="sex", values="count").reset_index()
    assert not pp.validate(leaky, policy(layout="wide")).passed
    marked = leaky.astype("string").fillna("c")
    assert not pp.validate(marked, policy(layout="wide")).passed
    with pytest.raises(UsageError, match="at least two dimensions"):
        pp.validate(wide, policy(layout="wide", by=["region"]))
    with pytest.raises(DataError, match="no column 'region'"):
        pp.validate(wide.drop(columns="region"), policy(layout="wide"))


def test_a_folder_with_a_table_in_two_formats_is_refused(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "table.csv", index=False)
    table([]).to_parquet(tmp_path / "table.parquet", index=False)
    with pytest.raises(DataError, match="is there as Parquet and as CSV"):
        pp.validate(tmp_path, policy())


def test_a_csv_with_another_delimiter(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "table.csv", index=False, sep=";")
    assert pp.validate(tmp_path / "table.csv", policy(), delimiter=";").passed


SUMS = ("count", {"sum": "cost"}, {"mean": "cost"})


def costs(blank: list[int] = BLANK, mean_blank: list[int] | None = None) -> pd.DataFrame:
    """The table with a sum and a mean as well."""
    frame = table(blank)
    sums = pd.Series([each * 7 + (each == 2) for each in TRUE])
    for inner, total in ((4, 3), (11, 9), (4, 1), (11, 2), (4, 0), (11, 0)):
        sums[total] += int(TRUE[inner] == 2)
    mean = sums / pd.Series(TRUE)
    hidden = pd.Series(range(12)).isin(blank)
    gone = pd.Series(range(12)).isin(blank if mean_blank is None else mean_blank)
    return frame.assign(sum_cost=sums.astype("Int64").mask(hidden), mean_cost=mean.mask(gone))


def test_a_mean_next_to_its_blank_parts_gives_them_away() -> None:
    assert pp.validate(costs(), policy(responses=SUMS)).passed
    judged = pp.validate(costs(mean_blank=[]), policy(responses=SUMS))
    assert [each.outcome for each in judged.verdicts] == ["fail", "fail"]
    assert "4 means or ratios are shown where a part of them is blank" in judged.verdicts[0].reason
    assert not pp.validate(costs(mean_blank=[]), policy(responses=SUMS), original=costs([])).passed


def test_a_mean_without_its_sum_is_refused() -> None:
    with pytest.raises(DataError, match="judged by its parts"):
        pp.validate(costs().drop(columns="sum_cost"), policy(responses=("count", {"mean": "cost"})))


def test_a_blank_sum_over_no_one_is_known() -> None:
    rows = [("Total", 9, 90), ("N", 0, None), ("S", 4, None), ("W", 5, 50)]
    frame = pd.DataFrame(rows, columns=["region", "count", "sum_cost"])
    asked = policy(AUDIT, by=["region"], responses=("count", {"sum": "cost"}))
    assert pp.validate(frame, asked).verdicts[0].outcome == "fail"
    assert pp.validate(frame.assign(count=[9, None, None, 5]), asked).verdicts[0].observed == 0


def test_sums_below_zero_leave_blanks_open() -> None:
    rows = [("Total", 9, -5), ("N", 4, -20), ("S", 3, None), ("W", 2, None)]
    frame = pd.DataFrame(rows, columns=["region", "count", "sum_cost"])
    asked = policy(AUDIT, by=["region"], responses=("count", {"sum": "cost"}))
    assert pp.validate(frame, asked).passed


def test_blank_counts_whose_sum_is_known_and_small_fail() -> None:
    rows = [("Total", 23), ("A", 15), ("B", None), ("C", None)]
    frame = pd.DataFrame(rows, columns=["region", "count"])
    asked = policy({"minimum_frequency": {"at_least": 11}}, AUDIT, by=["region"])
    judged = pp.validate(frame, asked)
    assert judged.verdicts[1].outcome == "fail"
    assert "populations implied by margins are unsafe" in judged.verdicts[1].reason
    assert pp.validate(frame.assign(count=[26, 15, None, None]), asked).passed


def test_parts_that_overlap_bound_their_total() -> None:
    rows = [("Total", None), ("N", 20), ("S", 0), ("W", 0)]
    frame = pd.DataFrame(rows, columns=["region", "count"])
    asked = policy(AUDIT, by=["region"], overlapping=["region"])
    assert pp.validate(frame, asked).verdicts[0].outcome == "fail"  # at least 20, and at most 20 + 0 + 0
    assert pp.validate(frame.assign(count=[None, 20, 5, 0]), asked).passed
    assert pp.validate(frame.assign(count=[22, 20, 5, 0]), asked).passed  # not 20 + 5: nothing adds up here
    with pytest.raises(DataError, match="no table agrees|no possible value|add up"):
        pp.validate(frame.assign(count=[30, 20, 5, 0]), asked)


def two_tables(women: list[int | None]) -> dict[str, pd.DataFrame]:
    everyone = pd.DataFrame([("Total", 50), ("N", 20), ("S", 30)], columns=["region", "count"])
    return {"everyone": everyone, "women": everyone.assign(count=pd.array(women, dtype="Int64"))}


def pair(*guarantees: Any) -> dict[str, Any]:
    tables = {
        "everyone": {"by": ["region"], "responses": ["count"]},
        "women": {"by": ["region"], "only": {"sex": "f"}, "responses": ["count"]},
    }
    return {**policy(*guarantees), "transform": [{"aggregate": {"tables": tables}}]}


def test_tables_of_other_populations_are_other_cells_and_their_differences_are_populations() -> None:
    assert pp.validate(two_tables([25, 10, 15]), pair()).passed
    judged = pp.validate(two_tables([48, 19, 29]), pair())
    assert judged.verdicts[1].outcome == "fail"
    assert "3 populations implied by margins are unsafe" in judged.verdicts[1].reason
    judged = pp.validate(two_tables([48, 19, 29]), pair({"differencing": {"at_least": 2}}))
    assert judged.verdicts[0].observed == 2
    assert any("was not judged" in note for note in judged.notes)


def test_group_disclosure_and_differencing_by_published_counts() -> None:
    asked = policy({"group_disclosure": {"columns": ["sex"]}}, {"differencing": {"at_least": 3}})
    assert [each.outcome for each in pp.validate(table(), asked).verdicts] == ["pass", "pass"]
    frame = table([], count=[60, 35, 25, 25, 0, 25, 25, 25, 0, 10, 10, 0])
    judged = pp.validate(frame, asked)
    assert judged.verdicts[0].observed == 3
    near = table([], count=[60, 34, 26, 25, 1, 24, 25, 24, 1, 10, 9, 1])
    assert pp.validate(near, asked).verdicts[1].observed == 4


@pytest.mark.parametrize("known", [False, True], ids=["table alone", "with the original"])
def test_what_several_published_parts_leave_is_a_difference(known: bool) -> None:
    # Neither part differs from the total by few; both together leave 20 - 10 - 8 = 2.
    rows = [("Total", 20), ("N", 10), ("S", 8), ("W", None)]
    frame = pd.DataFrame(rows, columns=["region", "count"])
    original = frame.assign(count=[20, 10, 8, 2]) if known else None
    asked = policy({"differencing": {"at_least": 3}}, by=["region"])
    assert pp.validate(frame, asked, original=original).verdicts[0].observed == 1
    asked = policy({"differencing": {"at_least": 2}}, by=["region"])
    assert pp.validate(frame, asked, original=original).passed


def private(blank: list[int] = BLANK, n: int = 12) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A finished table of sums, and its cells with the largest contributions."""
    shares = {"N": [100, 5, 4], "S": [40, 35, 30], "W": [50, 45, 30]}
    rows = [("Total", 9, 339), *((name, 3, sum(each)) for name, each in shares.items())]
    cells = pd.DataFrame(rows, columns=["region", "count", "sum_cost"])
    cells["cost:largest_1"] = [100, 100, 40, 50]
    cells["cost:largest_2"] = [50, 5, 35, 45]
    shown = cells[["region", "count", "sum_cost"]].copy()
    shown["sum_cost"] = shown["sum_cost"].astype("Int64").mask(pd.Series(range(4)).isin(blank))
    return shown, cells


FLOATS = [0.1 + 0.2, 0.1, 0.2, 0.0]
"""A total of floats that is not the sum of its parts, as 0.30000000000000004 is not 0.1 + 0.2."""


@pytest.mark.parametrize("kind", ["frame", "csv", "original"])
def test_sums_of_floats_are_in_the_declared_unit(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"region": LABELS, "count": [9, 4, 5, 0], "sum_cost": FLOATS})
    asked = policy(AUDIT, RULE, by=["region"], responses=("count", {"sum": "cost", "decimals": 1}))
    if kind == "csv":
        frame.to_csv(tmp_path / "table.csv", index=False)
    judged = pp.validate(
        tmp_path / "table.csv" if kind == "csv" else frame, asked, original=frame if kind == "original" else None
    )
    assert judged.passed
    with pytest.raises(DataError, match="does not add up"):
        pp.validate(frame.assign(sum_cost=[0.31, 0.1, 0.2, 0.0]), asked)


def sums(*guarantees: Any) -> dict[str, Any]:
    return policy(*guarantees, by=["region"], responses=("count", {"sum": "cost"}))


@pytest.mark.parametrize("rule", [{"p_percent": {"at_least": 10}}, {"dominance": {"contributors": 1, "at_most": 0.8}}])
def test_rules_on_contributions_are_judged_by_the_cells_of_the_original(rule: dict[str, Any]) -> None:
    shown, cells = private([])
    assert pp.validate(shown, sums(rule), original=cells).verdicts[0].outcome == "fail"
    shown, cells = private([1, 2])
    judged = pp.validate(shown, sums(rule, AUDIT), original=cells)
    assert [each.outcome for each in judged.verdicts] == ["pass", "pass"]
    shown, cells = private([1])
    assert pp.validate(shown, sums(rule, AUDIT), original=cells).verdicts[1].outcome == "fail"


def test_an_original_without_contributions_judges_no_rule_on_them_and_no_blank_may_be_exact() -> None:
    shown, cells = private([1])
    judged = pp.validate(shown, sums({"p_percent": {"at_least": 10}}, AUDIT), original=cells.iloc[:, :3])
    assert [each.outcome for each in judged.verdicts] == ["error", "fail"]


def test_the_private_table_of_a_release_is_an_original() -> None:
    visits = pd.DataFrame({"region": list("NNNNSSSSSWW"), "sex": list("fmmmffmmmfm"), "cost": range(1, 12)})
    made = pp.tables.Aggregate(by=["region", "sex"], responses=["count", {"sum": "cost"}]).apply(visits)
    asked = [pp.tables.MinimumFrequency(at_least=2), pp.tables.PPercent(at_least=5), pp.tables.TableAudit()]
    safe = pp.tables.SuppressTable().apply(made, guarantees=asked)
    rules = ({"minimum_frequency": {"at_least": 2}}, {"p_percent": {"at_least": 5}}, AUDIT)
    judged = pp.validate(safe.public(), policy(*rules, responses=("count", {"sum": "cost"})), original=made.private())
    assert [each.outcome for each in judged.verdicts] == ["pass", "pass", "pass"]
    judged = pp.validate(made.public(), policy(*rules, responses=("count", {"sum": "cost"})), original=made.private())
    assert not judged.passed


BAD_ORIGINALS = {
    "blank figures": (table(), "the original has 4 blank figures"),
    "a missing cell": (table([]).drop(index=4), "does not hold 1 cells"),
    "no contributors": (table([]).rename(columns={"count": "n"}), "the original has no contributors"),
    "other figures": (table([], count=[each + (at in (0, 1, 3, 4)) for at, each in enumerate(TRUE)]), "not those of"),
}


@pytest.mark.parametrize("name", BAD_ORIGINALS)
def test_an_original_of_another_table_is_refused(name: str) -> None:
    original, message = BAD_ORIGINALS[name]
    with pytest.raises(DataError, match=message):
        pp.validate(table(), policy(), original=original)


def test_a_cell_that_was_left_out_is_refused() -> None:
    rows = [("Total", 30), ("N", 12), ("S", 18)]
    frame = pd.DataFrame(rows, columns=["region", "count"])
    original = pd.concat([frame, pd.DataFrame([("W", 1)], columns=["region", "count"])])
    with pytest.raises(DataError, match="1 cells of the original have contributors and no row here"):
        pp.validate(frame, policy(by=["region"]), original=original)


def test_absent_combinations_are_noted() -> None:
    frame = table([], count=[60, 30, 30, 25, 0, 25, 25, 20, 5, 10, 10, 0])
    judged = pp.validate(frame.drop(index=[4, 11]), policy())
    assert judged.passed
    assert any("2 combinations of labels have no row and were taken for 0" in note for note in judged.notes)


def test_rounded_tables_are_judged_by_their_intervals() -> None:
    rows = [("Total", 10), ("A", 0), ("B", 0), ("C", 0), ("D", 0)]
    frame = pd.DataFrame(rows, columns=["region", "count"]).assign(count_status="rounded")
    asked = policy({"minimum_frequency": {"at_least": 2}}, AUDIT, by=["region"])
    asked["transform"].append({"round_table": {"base": 5}})
    judged = pp.validate(frame, asked)  # four counts of at most 2, whose sum is at least 8
    assert judged.verdicts[1].outcome == "fail"
    assert judged.verdicts[0].outcome == "error"
    with pytest.raises(DataError, match="not multiples of the base"):
        pp.validate(frame.assign(count=[10, 0, 3, 0, 0]), asked)


def test_random_tables_and_their_shuffles_get_one_verdict() -> None:
    draws = np.random.default_rng(7)
    for _ in range(20):
        inner = draws.integers(0, 9, (3, 2))
        whole = np.zeros((4, 3), dtype=int)
        whole[1:, 1:] = inner
        whole[0, 1:], whole[1:, 0], whole[0, 0] = inner.sum(0), inner.sum(1), inner.sum()
        frame = table([], count=pd.array(whole.ravel(), dtype="Int64"))
        frame["count"] = frame["count"].mask(pd.Series(draws.random(12) < 0.4))
        shuffled = frame.sample(frac=1, random_state=int(draws.integers(1000)))
        verdicts = [
            pp.validate(each, policy(AUDIT)).verdicts[0] for each in (frame, shuffled[["count", "sex", "region"]])
        ]
        assert verdicts[0].outcome == verdicts[1].outcome
        assert verdicts[0].observed == verdicts[1].observed


@pytest.mark.parametrize("kind", ["csv", "html"])
def test_intervals_are_written_to_a_private_file(kind: str, tmp_path: Path) -> None:
    table().to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "policy.json").write_text(json.dumps(policy()))
    out = tmp_path / f"intervals.{kind}"
    asked = ["validate", str(tmp_path / "table.csv"), str(tmp_path / "policy.json"), "--intervals", str(out)]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert "12 cells judged" in found.output
    assert out.stat().st_mode & 0o777 == 0o600
    if kind == "csv":
        rows = pd.read_csv(out).set_index(["region", "sex"])
        assert rows.loc[("N", "f"), ["low", "high"]].tolist() == [0, 10]
        assert not rows["exact"].any()
    else:
        assert "what an attacker can work out" in out.read_text()
    assert CliRunner().invoke(app, asked).exit_code == 2  # never overwritten

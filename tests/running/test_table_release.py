"""Releases of tables: what is published, what is refused, and what no public document shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, Refused, UnsupportedError, UsageError
from privpipe.record import verify

VISITS = pd.DataFrame(
    {
        "region": ["north"] * 12 + ["south"] * 11 + ["west"] * 2,
        "age": (["young", "old"] * 13)[:25],
        "cost": [10 + at for at in range(25)],
        "person": range(25),
    }
)


@pytest.fixture
def document(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A policy over some visits, with changed sections."""
    VISITS.to_parquet(tmp_path / "visits.parquet")

    def made(**changes: Any) -> dict[str, Any]:
        return {
            "version": 1,
            "columns": {
                "region": {"role": "quasi_identifier"},
                "age": {"role": "quasi_identifier"},
                "cost": {"role": "insensitive"},
                "person": {"role": "identifier"},
            },
            "source": {"path": str(tmp_path / "visits.parquet")},
            "sink": {"path": str(tmp_path / "out")},
            "person_id": "person",
            "seed": {"insecure": "tables"},
            "allow_insecure_seed": True,
            "transform": [
                {"aggregate": {"tables": {"visits": {"by": ["region"], "responses": ["count", {"sum": "cost"}]}}}}
            ],
            "guarantees": [{"minimum_frequency": {"at_least": 2}}],
            **changes,
        }

    return made


def test_a_table_without_unsafe_cells_is_published(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    result = pp.release(document())
    assert result.published
    table = pd.read_parquet(tmp_path / "out" / "visits.parquet")
    assert table.to_dict("list") == {
        "region": ["Total", "north", "south", "west"],
        "count": [25, 12, 11, 2],
        "count_status": ["published"] * 4,
        "sum_cost": [550, 186, 297, 67],
        "sum_cost_status": ["published"] * 4,
    }


def test_a_csv_reads_back_as_it_was_judged(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    pp.release(document(sink={"path": str(tmp_path / "out"), "format": "csv"}))
    assert pd.read_csv(tmp_path / "out" / "visits.csv")["count"].tolist() == [25, 12, 11, 2]


def test_an_unsafe_cell_refuses_and_publishes_nothing(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(Refused, match="observed 2; 2 of 8 published figures are unsafe"):
        pp.release(document(guarantees=[{"minimum_frequency": {"at_least": 10}}]))
    assert not (tmp_path / "out").exists()


def test_no_public_document_shows_thresholds_of_concentration_rules_or_counts_of_the_source(
    document: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    by_age = [{"aggregate": {"by": ["age"], "responses": ["count", {"sum": "cost"}]}}]
    asked = [{"minimum_frequency": {"at_least": 2}}, {"p_percent": {"at_least": 12.5}}]
    pp.release(document(transform=by_age, guarantees=asked))
    for file in sorted((tmp_path / "out" / "_privpipe").iterdir()):
        text = file.read_text()
        assert "12.5" not in text
        if file.suffix == ".json":
            assert json.loads(text).get("input", {}).get("records") is None


def test_two_policies_that_differ_in_a_secret_threshold_have_one_public_hash(
    document: Callable[..., dict[str, Any]],
) -> None:
    one, other = (pp.Policy.from_dict(document(guarantees=[{"p_percent": {"at_least": p}}])).digest() for p in (10, 20))
    assert one == other


def test_persons_with_several_records_count_once(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    twice = pd.concat([VISITS, VISITS.assign(cost=1)], ignore_index=True)
    twice.to_parquet(tmp_path / "visits.parquet")
    pp.release(document())
    assert pd.read_parquet(tmp_path / "out" / "visits.parquet")["count"].tolist() == [25, 12, 11, 2]


STATISTICS = ["count", {"maximum": "cost"}, {"quantile": "cost", "q": 0.5, "smoothed": 3}, {"sd": "cost"}]


def test_an_extreme_is_hidden_where_one_person_has_it(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    tables = {"visits": {"by": ["region"], "responses": STATISTICS}}
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    pp.release(document(transform=[{"aggregate": {"tables": tables}}, {"suppress_table": {}}], guarantees=asked))
    found = pd.read_parquet(tmp_path / "out" / "visits.parquet")
    assert found["maximum_cost"].isna().all()
    assert found["quantile_0.5_cost"].notna().tolist() == found["count"].notna().tolist()
    assert found["sd_cost"].notna().tolist() == found["count"].notna().tolist()
    assert found.loc[found["region"] == "Total", "quantile_0.5_cost"].item() == 22.0


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_every_kind_of_figure_is_published(
    document: Callable[..., dict[str, Any]], tmp_path: Path, format: str
) -> None:
    given = [*STATISTICS, {"percentage": "count", "of": ["region"], "digits": 2}, {"mode": "cost"}]
    given += [{"minimum": "cost", "structural": 10}, {"quantile": "cost", "q": 0.25, "unit": 10}]
    tables = {"visits": {"by": ["region", "age"], "responses": given}}
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    transform = [{"aggregate": {"tables": tables}}, {"suppress_table": {}}]
    sink = {"path": str(tmp_path / "out"), "format": format}
    assert pp.release(document(transform=transform, guarantees=asked, sink=sink)).published
    read = pd.read_csv if format == "csv" else pd.read_parquet
    found = read(tmp_path / "out" / f"visits.{format}")  # type: ignore[operator]
    total = found[(found["region"] == "Total") & (found["age"] == "Total")].iloc[0]
    assert float(total["percentage_count"]) == 100
    assert total["quantile_0.25_cost"] == 20
    assert pd.isna(total["mode_cost"])


def test_rules_may_count_holdings(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    VISITS.assign(payer=["one"] * 12 + [f"payer {at}" for at in range(13)]).to_parquet(tmp_path / "visits.parquet")
    policy = document(
        guarantees=[{"minimum_frequency": {"at_least": 2}}, {"p_percent": {"at_least": 5, "holding": "payer"}}]
    )
    policy["columns"]["payer"] = {"role": "insensitive"}
    with pytest.raises(Refused, match="PPercent"):
        pp.release(policy)
    policy["transform"].append({"suppress_table": {}})
    policy["guarantees"].append({"table_audit": {}})
    pp.release(policy)
    found = pd.read_parquet(tmp_path / "out" / "visits.parquet")
    assert found.columns.tolist() == ["region", "count", "count_status", "sum_cost", "sum_cost_status"]
    assert found.set_index("region")["sum_cost"].isna().to_dict()["north"]


WRONG = {
    "a holding that is gone": (
        {"guarantees": [{"minimum_frequency": {"at_least": 2, "holding": "person"}}]},
        "has `role: identifier` and is gone before this stage",
    ),
    "a maximum that no rule judges": (
        {
            "transform": [{"aggregate": {"by": ["region"], "responses": ["count", {"maximum": "cost"}]}}],
            "guarantees": [{"p_percent": {"at_least": 10}}, {"table_audit": {}}],
        },
        "no binding minimum_frequency judges 'maximum_cost'",
    ),
    "a rule on cells without a table": (
        {"transform": []},
        "is about cells of tables, and no `aggregate` stage makes any",
    ),
    "a model on classes": (
        {"guarantees": [{"k_anonymity": {"k": 2}}]},
        "judges records, and transform\\[0\\].aggregate leaves only cells",
    ),
    "an identifier as a dimension": (
        {"transform": [{"aggregate": {"by": ["person"], "responses": ["count"]}}]},
        "has `role: identifier` and is gone before this stage",
    ),
    "a column without a role": (
        {"transform": [{"aggregate": {"by": ["nowhere"], "responses": ["count"]}}]},
        "is not among `columns:`",
    ),
    "a table that is not made": (
        {"guarantees": [{"minimum_frequency": {"at_least": 2, "tables": ["other"]}}]},
        "is not a table of `aggregate`",
    ),
    "warnings only": (
        {"guarantees": [{"minimum_frequency": {"at_least": 2, "severity": "warn"}}]},
        "with warnings only every table would be published",
    ),
    "two aggregates": (
        {"transform": [{"aggregate": {"by": ["age"], "responses": ["count"]}}] * 2},
        "is there already",
    ),
    "a rule among the measures": (
        {"measures": [{"minimum_frequency": {"at_least": 2}}]},
        "move it to `guarantees:`",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_policy_that_mixes_records_and_cells_is_refused(document: Callable[..., dict[str, Any]], name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(document(**changes))


def test_what_tables_do_not_serve_yet_is_refused(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="nothing in a table of cells is compared with a population"):
        pp.Policy.from_dict(document(population={"path": "people.parquet"}))
    with pytest.raises(UnsupportedError, match="published as parquet or csv"):
        pp.release(document(sink={"path": str(tmp_path / "out"), "format": "json"}))


def test_a_repeated_release_gives_equal_bytes(document: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    seen = set()
    for _ in range(2):
        pp.release(document())
        seen.add((tmp_path / "out" / "visits.parquet").read_bytes())
    assert len(seen) == 1


def test_cells_are_hidden_until_nothing_can_be_worked_out(
    document: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    by_both = {"aggregate": {"by": ["region", "age"], "responses": ["count", {"sum": "cost"}, {"mean": "cost"}]}}
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    with pytest.raises(Refused, match="can be computed from margins"):
        pp.release(document(transform=[by_both], guarantees=asked))
    pp.release(document(transform=[by_both, {"suppress_table": {}}], guarantees=asked))
    table = pd.read_parquet(tmp_path / "out" / "table.parquet")
    hidden = table["count_status"] == "c"
    assert 0 < hidden.sum() < len(table)
    for response in ("count", "sum_cost", "mean_cost"):
        assert table[response].isna().equals(hidden)
    plan = json.loads((tmp_path / "out" / "_privpipe" / "plan.json").read_text())
    assert [stage["name"] for stage in plan["stages"]] == ["aggregate", "suppress_table"]
    assert plan["stages"][1]["detail"] == {}


def test_tables_of_other_populations_are_hidden_together(document: Callable[..., dict[str, Any]]) -> None:
    tables = {
        "everyone": {"by": ["region"], "responses": ["count"]},
        "young": {"by": ["region"], "only": {"age": "young"}, "responses": ["count"]},
    }
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}, {"differencing": {"at_least": 3}}]
    made = [{"aggregate": {"tables": tables}}, {"suppress_table": {}}]
    with pytest.raises(Refused):
        pp.release(document(transform=made[:1], guarantees=asked))
    assert pp.release(document(transform=made, guarantees=asked)).published


def test_a_loss_is_a_measure_and_with_a_threshold_a_guarantee(document: Callable[..., dict[str, Any]]) -> None:
    by_both = [{"aggregate": {"by": ["region", "age"], "responses": ["count"]}}, {"suppress_table": {}}]
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    result = pp.release(document(transform=by_both, guarantees=asked, measures=[{"table_loss": {"of": "cells"}}]))
    folder = Path(result.path) / "_privpipe"
    measure = json.loads((folder / "verdict.json").read_text())["measures"][0]
    # The hidden value is one more sum over hidden cells.
    assert (measure["name"], measure["observed"]) == ("table_loss", None)
    with pytest.raises(Refused, match="of one response up to"):
        pp.release(document(transform=by_both, guarantees=[*asked, {"table_loss": {"at_most": 0}}]))
    for section, message in (("guarantees", "needs its threshold `at_most`"), ("measures", "judges: move it")):
        entry = {"table_loss": {}} if section == "guarantees" else {"table_loss": {"at_most": 0.5}}
        lists: dict[str, Any] = {"guarantees": asked, section: [*(asked if section == "guarantees" else []), entry]}
        with pytest.raises(PolicyError, match=message):
            pp.Policy.from_dict(document(transform=by_both, **lists))


def test_a_run_hides_what_the_plan_of_an_earlier_run_hid(
    document: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Two patterns laid together show more than each: another cost would find another pattern."""
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    table = {"aggregate": {"by": ["region", "age"], "responses": ["count", {"sum": "cost"}]}}
    seen = []
    kept: dict[str, Any] = {}
    for _ in range(2):
        stages = [table, {"suppress_table": {"method": "gauss", "cost": "cells" if kept else "value", **kept}}]
        result = pp.release(document(transform=stages, guarantees=asked))
        seen.append((tmp_path / "out" / "table.parquet").read_bytes())
        kept = {"pattern": str(Path(result.record, "plan.json"))}
    assert seen[0] == seen[1]
    public = (tmp_path / "out" / "_privpipe" / "plan.json").read_text()
    assert '"pattern"' not in public
    assert kept["pattern"] not in public


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_marks_of_small_counts_are_published(
    document: Callable[..., dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    stages = [{"aggregate": {"by": ["region"], "responses": ["count"]}}, {"suppress_table": {"show": "below"}}]
    asked = [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}]
    sink = {"path": str(tmp_path / "out"), "format": kind}
    assert pp.release(document(transform=stages, guarantees=asked, sink=sink)).published
    file = tmp_path / "out" / f"table.{kind}"
    table = pd.read_parquet(file) if kind == "parquet" else pd.read_csv(file)
    assert set(table["count_status"]) == {"published", "c", "<3"}
    assert table["count"].isna().equals(table["count_status"] != "published")


def test_two_tables_whose_difference_is_one_person_are_refused(document: Callable[..., dict[str, Any]]) -> None:
    tables = {
        "everyone": {"by": ["region"], "responses": ["count"]},
        "young": {"by": ["region"], "only": {"age": "young"}, "responses": ["count"]},
    }
    visits = document(transform=[{"aggregate": {"tables": tables}}], guarantees=[{"table_audit": {}}])
    rule = {"minimum_frequency": {"at_least": 1}}
    with pytest.raises(Refused, match="no guarantee decides which cells are unsafe"):
        pp.release(visits)
    visits["guarantees"] = [rule, {"table_audit": {}}]
    pp.release(visits)
    visits["guarantees"] = [{"minimum_frequency": {"at_least": 2, "tables": ["everyone"]}}, {"table_audit": {}}]
    with pytest.raises(Refused, match="1 populations implied by margins are unsafe"):
        pp.release(visits)


def test_a_policy_applies_to_a_frame(document: Callable[..., dict[str, Any]]) -> None:
    policy = pp.Policy.from_dict(document())
    assert policy.apply(VISITS)["visits"]["count"].tolist() == [25, 12, 11, 2]
    with pytest.raises(Refused, match="Nothing was given back"):
        pp.Policy.from_dict(document(guarantees=[{"minimum_frequency": {"at_least": 3}}])).apply(VISITS)


@pytest.mark.parametrize("verb", [pp.assess, pp.plan])
def test_what_is_about_records_refuses_a_policy_of_tables(
    document: Callable[..., dict[str, Any]], verb: Callable[..., Any]
) -> None:
    with pytest.raises(UsageError, match="releases tables of cells; use `release`"):
        verb(VISITS, document())


def test_differences_between_tables_of_other_populations_are_judged(document: Callable[..., dict[str, Any]]) -> None:
    tables = {
        "everyone": {"by": ["region"], "responses": ["count"]},
        "young": {"by": ["region"], "only": {"age": "young"}, "responses": ["count"]},
    }
    visits = document(transform=[{"aggregate": {"tables": tables}}], guarantees=[{"differencing": {"at_least": 2}}])
    with pytest.raises(Refused, match="1 differences of published cells have fewer than 2 contributors"):
        pp.release(visits)
    visits["guarantees"] = [{"differencing": {"at_least": 1}}]
    assert pp.release(visits).published


def test_a_policy_without_an_audit_warns(document: Callable[..., dict[str, Any]]) -> None:
    assert any("no `table_audit` judges" in each for each in pp.Policy.from_dict(document()).warnings)
    audited = document(guarantees=[{"minimum_frequency": {"at_least": 2}}, {"table_audit": {}}])
    assert pp.Policy.from_dict(audited).warnings == ()


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_release_of_tables_is_read_table_by_table_and_verified(
    form: str, document: Callable[..., dict[str, Any]]
) -> None:
    tables = {
        "ages": {"by": ["age"], "responses": ["count"]},
        "costs": {"by": ["region", "age"], "responses": [{"sum": "cost"}]},
    }
    policy = document(
        transform=[{"aggregate": {"tables": tables}}], guarantees=[{"minimum_frequency": {"at_least": 1}}]
    )
    policy["sink"] = {**policy["sink"], "format": form}
    path = pp.release(policy).path
    assert pp.read_release(path, table="ages").schema.names == ["age", "count", "count_status"]
    assert pp.read_release(path, table="costs").num_rows == 12
    with pytest.raises(UsageError, match="holds several tables; give table= one of ages, costs"):
        pp.read_release(path)
    with pytest.raises(UsageError, match="has no table 'age'"):
        pp.read_release(path, table="age")
    assert [each for each in verify(path).checks if each.outcome == "broken"] == []

"""Rules hidden by blank cells: no rule holds, no more records change than must, the same on every engine."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, Refused, UsageError
from privpipe.transforms import HideResults
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression import hide_results

COLUMNS = ("sex", "town", "illness")
SCHEMA = pa.schema([(name, pa.string()) for name in COLUMNS])


def hidden(engine: Engine, stage: HideResults, rows: pa.Table, seed: int = 3, **given: Any) -> tuple[Any, pa.Table]:
    """The plan, and the released rows."""
    table = engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(seed))
    roles = pp.Roles(quasi_identifiers=["sex", "town"], sensitive=["illness"])
    context = StageContext(roles=roles, schema=table.schema, place="transform[0].hide_results", **given)
    plan = stage.learn(engine, table, context)
    made = stage.run(engine, table, plan, Draws(Seed.insecure(seed), 0, stage.name()), context)
    return plan, engine.collect(made)


def small_table(seed: int, rows: int) -> pa.Table:
    draw = random.Random(seed)
    drawn = [
        {"sex": draw.choice("fm"), "town": draw.choice("abc"), "illness": draw.choice(["hiv", "hiv", "flu", None])}
        for _ in range(rows)
    ]
    return pa.Table.from_pylist(drawn, schema=SCHEMA)


def holding(rows: list[dict[str, Any]], then: str, support: int, confidence: float) -> list[frozenset[int]]:
    """The rules that hold, each by the places of the records that support it: all values of all left sides."""
    found = []
    for size in range(3):
        for names in itertools.combinations(("sex", "town"), size):
            for values in itertools.product(*({row[name] for row in rows} - {None} for name in names)):
                own = [
                    at for at, row in enumerate(rows) if all(row[n] == v for n, v in zip(names, values, strict=True))
                ]
                base = [at for at in own if rows[at]["illness"] is not None]
                both = [at for at in base if rows[at]["illness"] == then]
                if len(both) >= support and len(both) / len(base) >= confidence:
                    found.append(frozenset(both))
    return found


def fewest(rows: list[dict[str, Any]], support: int, confidence: float) -> int:
    """The fewest cells of the right side that are blank where no rule holds, by trying all sets of them."""
    able = [at for at, row in enumerate(rows) if row["illness"] == "hiv"]
    for size in range(len(able) + 1):
        for gone in itertools.combinations(able, size):
            left = [{**row, "illness": None} if at in gone else row for at, row in enumerate(rows)]
            if not holding(left, "hiv", support, confidence):
                return size
    raise AssertionError("blanking all of them hides every rule")


def rules(support: int, confidence: float) -> list[Any]:
    return [{"rules": {"then": {"illness": "hiv"}, "support": support, "confidence": confidence}}]


def test_no_rule_holds_and_no_fewer_records_would_do(embedded: Engine) -> None:
    changed = set()
    for seed in range(40):
        rows = small_table(seed, 9)
        support, confidence = seed % 3 + 1, (0.4, 0.6, 1.0)[seed % 3]
        for method in ("optimal", "greedy"):
            plan, made = hidden(embedded, HideResults(results=rules(support, confidence), method=method), rows)
            assert not holding(made.to_pylist(), "hiv", support, confidence)
            least = fewest(rows.to_pylist(), support, confidence)
            if method == "optimal":
                assert (plan.detail["records_changed"], plan.detail["optimal"]) == (least, True)
                changed.add(least)
            assert plan.detail["records_changed"] >= least
            before, after = (sorted(table.to_pylist(), key=repr) for table in (rows, made.select(COLUMNS)))
            blank = sum(row["illness"] is None for row in after) - sum(row["illness"] is None for row in before)
            assert blank == plan.detail["blanked_cells"] == plan.detail["records_changed"]
            assert [(row["sex"], row["town"]) for row in after].sort() == [
                (row["sex"], row["town"]) for row in before
            ].sort()
    assert len(changed) > 3


def test_rules_with_different_right_sides_are_hidden_together(engine: Engine) -> None:
    rows = small_table(5, 60)
    both: list[Any] = [
        *rules(4, 0.4),
        {"rule": {"if": {"illness": "flu"}, "then": {"sex": "f"}, "support": 2, "confidence": 0.1}},
    ]
    plan, made = hidden(engine, HideResults(results=both), rows)
    shown = made.to_pylist()
    flu = [row for row in shown if row["illness"] == "flu" and row["sex"] is not None]
    assert sum(row["sex"] == "f" for row in flu) < 2
    assert not holding(shown, "hiv", 4, 0.4)
    assert plan.detail["optimal"] is False
    assert plan.detail["blanked_by_column"]["sex"] > 0


def test_every_engine_changes_the_same_records(engine: Engine, embedded: Engine) -> None:
    rows = small_table(7, 200)
    stage = HideResults(results=rules(5, 0.5))
    plans = [hidden(each, stage, rows) for each in (engine, embedded)]
    assert plans[0][0].detail == plans[1][0].detail
    assert sorted(plans[0][1].to_pylist(), key=repr) == sorted(plans[1][1].to_pylist(), key=repr)
    assert plans[0][0].detail["records_changed"] > 5


def test_rounds_hide_what_one_matrix_does_not_hold(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hide_results, "LARGEST_MATRIX", 1)
    rows = small_table(11, 80)
    plan, made = hidden(embedded, HideResults(results=rules(3, 0.4)), rows)
    assert not holding(made.to_pylist(), "hiv", 3, 0.4)
    assert plan.detail["optimal"] is False


def test_nothing_is_changed_where_no_rule_holds(embedded: Engine) -> None:
    rows = small_table(1, 30)
    plan, made = hidden(embedded, HideResults(results=rules(31, 0.5)), rows)
    assert (plan.detail["records_changed"], plan.detail["rules_hidden"]) == (0, 0)
    assert sorted(made.select(COLUMNS).to_pylist(), key=repr) == sorted(rows.to_pylist(), key=repr)


@pytest.mark.parametrize(
    "wrong",
    [[], "rules", [{"correlation": {"columns": ["a", "b"], "at_most": 0.1}}], [{"rule": {"if": {"a": 1}}}]],
    ids=str,
)
def test_anything_but_a_rule_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="hide_results"):
        HideResults(results=wrong)


def test_columns_that_are_not_there_and_refused_nulls_are_errors(embedded: Engine) -> None:
    rows = small_table(1, 30)
    with pytest.raises(DataError, match="no column 'ilness'"):
        hidden(embedded, HideResults(results=[{"rules": {"then": {"ilness": "hiv"}, "support": 2}}]), rows)
    with pytest.raises(UsageError, match="nulls: refuse"):
        stage = HideResults(results=[{"rules": {"then": {"sex": "f"}, "support": 2}}])
        hidden(embedded, stage, rows, nulls="refuse")


def test_a_policy_hides_rules_and_its_gate_agrees(tmp_path: Path) -> None:
    rows = pa.concat_tables([small_table(seed, 40) for seed in range(5)])
    pq.write_table(rows, tmp_path / "visits.parquet")
    roles = {"sex": "quasi_identifier", "town": "quasi_identifier", "illness": "insensitive"}
    document: dict[str, Any] = {
        "version": 1,
        "name": "visits",
        "source": {"path": "visits.parquet"},
        "columns": {name: {"role": role} for name, role in roles.items()},
        "guarantees": [{"k_anonymity": {"k": 2}}, {"result_privacy": {"results": rules(8, 0.55)}}],
        "sink": {"path": "out"},
        "seed": {"insecure": 3},
        "allow_insecure_seed": True,
    }
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps(document))
    with pytest.raises(Refused):
        pp.release(policy)
    assert not (tmp_path / "out").exists()
    document["transform"] = [{"hide_results": {"results": rules(8, 0.55)}}]
    policy.write_text(json.dumps(document))
    pp.release(policy)
    shown = "".join(path.read_text() for path in (tmp_path / "out" / "_privpipe").glob("*.json"))
    assert "hiv" not in shown
    assert not holding(pp.read_release(tmp_path / "out").to_pylist(), "hiv", 8, 0.55)

"""Result privacy, compared with figures counted row by row."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import privpipe as pp
from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import DistinctPair
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.measures import ResultPrivacy

from ..joined import judged

COLUMNS = ("sex", "town", "job", "illness")
VALUES = {"sex": ["f", "m"], "town": ["a", "b", "c"], "job": ["x", "y", None], "illness": ["flu", "hiv", None]}
Rows = list[dict[str, Any]]


def counted(table: pa.Table) -> pa.Table:
    ones = table.append_column("__count", pa.array([1] * table.num_rows, pa.int64()))
    sums = ones.group_by(table.column_names).aggregate([("__count", "sum")])
    return sums.rename_columns([*table.column_names, "__count"])


def verdict_of(result: Mapping[str, Any], released: pa.Table, original: pa.Table | None = None) -> Verdict:
    keys = tuple(name for name in released.column_names if name != "illness")
    sides = counted(released), None if original is None else counted(original)
    return ResultPrivacy(results=[result]).judge_tables(DistinctPair(keys=keys, released=sides[0], original=sides[1]))


def small_table(seed: int) -> pa.Table:
    draw = random.Random(seed)
    rows = [{name: draw.choice(VALUES[name]) for name in COLUMNS} for _ in range(draw.randint(8, 40))]
    rows += [{"sex": "f", "town": "a", "job": "x", "illness": value} for value in ("hiv", "flu", "hiv")]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in COLUMNS]))


def strength(rows: Rows, left: Mapping[str, Any], then: Mapping[str, Any]) -> tuple[int, int]:
    """Records with both sides and with the left one, among those that show the columns of both."""
    shown = [row for row in rows if all(row[name] is not None for name in (*left, *then))]
    base = [row for row in shown if all(row[name] == value for name, value in left.items())]
    return sum(all(row[name] == value for name, value in then.items()) for row in base), len(base)


def strongest(rows: Rows, then: Mapping[str, Any], columns: list[str], support: int) -> float | None:
    """The most confident rule of enough support, of all values of up to three columns."""
    found = []
    for size in range(4):
        for names in itertools.combinations(columns, size):
            for values in itertools.product(*({row[name] for row in rows} - {None} for name in names)):
                both, base = strength(rows, dict(zip(names, values, strict=True)), then)
                found += [both / base] if both >= support else []
    return max(found, default=None)


def test_rules_are_those_of_all_left_sides() -> None:
    seen = set()
    for seed in range(300):
        table = small_table(seed)
        rows, support = table.to_pylist(), seed % 7 + 1
        best = strongest(rows, {"illness": "hiv"}, ["sex", "town", "job"], support)
        for confidence in (0.4, 0.6, 0.9):
            rule = {"then": {"illness": "hiv"}, "support": support, "confidence": confidence}
            verdict = verdict_of({"rules": rule}, table)
            shown = sum(row["illness"] is not None for row in rows)
            if 2 * shown >= len(rows):
                assert verdict.outcome == ("pass" if best is None or best < confidence else "fail"), (seed, verdict)
            seen.add(verdict.outcome)
        if best is not None:
            assert verdict.observed["results"][0]["figure"] == best
    assert {"pass", "fail"} <= seen


def test_a_rule_is_counted_over_what_is_shown() -> None:
    for seed in range(100):
        table = small_table(seed)
        left, then = {"sex": "f", "job": "x"}, {"illness": "hiv"}
        both, base = strength(table.to_pylist(), left, then)
        verdict = verdict_of({"rule": {"if": left, "then": then, "support": 3, "confidence": 0.5}}, table)
        row = verdict.observed["results"][0]
        assert (row["support"], row["figure"]) == (both, both / base)
        assert row["holds"] == (both >= 3 and both / base >= 0.5)


def test_a_share_is_of_the_records_named() -> None:
    for seed in range(100):
        table = small_table(seed)
        both, base = strength(table.to_pylist(), {"town": "a"}, {"illness": "hiv"})
        share = {"where": {"illness": "hiv"}, "of": {"town": "a"}, "at_most": 0.5}
        verdict = verdict_of({"share": share}, table)
        assert verdict.observed["results"][0]["figure"] == both / base
        assert verdict.observed["results"][0]["holds"] == (both / base > 0.5)


def test_correlations_are_those_of_scipy() -> None:
    for seed in range(100):
        draw = np.random.default_rng(seed)
        x = draw.integers(0, 9, 60)
        y = np.where(draw.random(60) < 0.5, x, draw.integers(0, 9, 60)).astype(float)
        y[:3] = np.nan
        table = pa.table({"x": x, "y": pa.array(y, from_pandas=True), "t": [f"c{each % 4}" for each in x]})
        found = verdict_of({"correlation": {"columns": ["x", "y"], "at_most": 1.0}}, table).observed["results"][0]
        assert found["figure"] == pytest.approx(abs(scipy.stats.spearmanr(x[3:], y[3:]).statistic), rel=1e-12)
        crossed = np.zeros((4, 9))
        np.add.at(crossed, (x % 4, x), 1)
        crossed = crossed[crossed.sum(axis=1) > 0][:, crossed.sum(axis=0) > 0]
        found = verdict_of({"correlation": {"columns": ["t", "x"], "at_most": 1.0}}, table).observed["results"][0]
        assert found["figure"] == pytest.approx(scipy.stats.contingency.association(crossed.astype(int)), rel=1e-9)


def test_labels_of_intervals_are_ordered() -> None:
    ages = ["<20", "20-29", "30-39", "[40, 50)", ">=50"]
    table = pa.table({"age": ages * 8, "pay": list(range(5)) * 8})
    found = verdict_of({"correlation": {"columns": ["age", "pay"], "at_most": 0.5}}, table)
    assert (found.outcome, found.observed["results"][0]["spearman"]) == ("fail", 1.0)


def test_a_ranking_is_that_of_the_original() -> None:
    towns = [town for town in "abcd" for _ in range(3)]
    original = pa.table({"town": towns, "pay": [each // 3 * 10 + each % 3 for each in range(12)]})
    for seed in range(60):
        pay = np.random.default_rng(seed).integers(0, 5, 12)
        released = pa.table({"town": towns, "pay": pay})
        means = pay.reshape(4, 3).mean(axis=1)
        tau = scipy.stats.kendalltau(np.arange(4), means).statistic
        found = verdict_of({"order": {"column": "pay", "by": "town", "at_most": 0.4}}, released, original)
        assert found.observed["results"][0]["figure"] == pytest.approx(0.0 if math.isnan(tau) else abs(tau))
        assert found.outcome == ("fail" if abs(tau) > 0.4 else "pass")
    assert verdict_of({"order": {"column": "pay", "by": "town", "at_most": 0.4}}, released).outcome == "error"
    renamed = pa.table({"town": ["z"] * 12, "pay": pay})
    assert verdict_of({"order": {"column": "pay", "by": "town", "at_most": 1.0}}, renamed, original).outcome == "error"


def test_a_tree_finds_what_two_columns_give() -> None:
    draw = np.random.default_rng(1)
    x, y = draw.integers(0, 2, (2, 400))
    table = pa.table(
        {"x": [f"v{each}" for each in x], "y": y, "illness": [f"i{a ^ b}" for a, b in zip(x, y, strict=True)]}
    )
    found = verdict_of({"model": {"target": "illness", "at_most": 0.2}}, table)
    row = found.observed["results"][0]
    assert (found.outcome, row["figure"] + row["base"]) == ("fail", 1.0)
    unrelated = table.set_column(2, "illness", pa.array([f"i{each}" for each in draw.integers(0, 2, 400)]))
    assert verdict_of({"model": {"target": "illness", "at_most": 0.2}}, unrelated).outcome == "pass"


RESULTS: list[dict[str, Any]] = [
    {"rule": {"if": {"sex": "f"}, "then": {"illness": "hiv"}, "support": 0.1, "confidence": 0.5}},
    {"rules": {"then": {"illness": "hiv"}, "support": 3, "confidence": 0.7, "max_items": 2}},
    {"share": {"where": {"illness": "flu"}, "of": {"sex": "m"}, "at_most": 0.3}},
    {"correlation": {"columns": ["town", "illness"], "at_most": 0.2}},
    {"order": {"column": "age", "by": "town", "at_most": 0.9}},
    {"model": {"target": "illness", "at_most": 0.1, "columns": ["sex", "town", "age"]}},
]


def test_every_engine_gives_one_verdict(engine: Engine) -> None:
    table = pa.concat_tables([small_table(each) for each in range(5)])
    table = table.append_column("age", pa.array([20 + each % 40 for each in range(table.num_rows)]))
    released = table.slice(10)
    entry = ResultPrivacy(results=RESULTS, quasi_identifiers=("sex", "town", "job"))
    pair = DistinctPair(keys=("sex", "town", "job"), released=counted(released), original=counted(table))
    assert judged(engine, entry, table, released).observed == entry.judge_tables(pair).observed


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_more_blank_cells_never_add_support(seed: int, support: int) -> None:
    table, draw = small_table(seed), random.Random(seed)
    rule = {"rule": {"if": {"sex": "f"}, "then": {"illness": "hiv"}, "support": support}}
    before = verdict_of(rule, table).observed["results"][0]["support"]
    rows = [{**row, "illness": None if draw.random() < 0.2 else row["illness"]} for row in table.to_pylist()]
    after = verdict_of(rule, pa.Table.from_pylist(rows, schema=table.schema), table).observed
    assert after is None or after["results"][0]["support"] <= before


def test_over_nothing_it_is_an_error() -> None:
    table = small_table(1)
    misspelt = {"rule": {"if": {"sex": "f"}, "then": {"illness": "HIV"}}}
    misspelt["rule"]["support"] = 1  # type: ignore[assignment]
    verdict = verdict_of(misspelt, table)
    assert (verdict.outcome, "'illness'" in verdict.reason, "HIV" in verdict.reason) == ("error", True, False)
    assert verdict_of(misspelt, table, table).outcome == "error"
    blank = table.set_column(3, "illness", pa.nulls(table.num_rows, pa.string()))
    hidden = {"rule": {"if": {"sex": "f"}, "then": {"illness": "hiv"}, "support": 1}}
    assert verdict_of(hidden, blank, table).outcome == "error"
    assert verdict_of({"correlation": {"columns": ["sex", "illness"], "at_most": 1}}, blank).outcome == "error"
    assert verdict_of({"model": {"target": "illness", "at_most": 1}}, blank).outcome == "error"


def test_a_value_behind_a_label_is_an_error() -> None:
    original = pa.table({"sex": ["f"] * 6, "town": ["a", "a", "b"] * 2, "job": ["x"] * 6, "illness": ["hiv"] * 6})
    labels = original.set_column(1, "town", pa.array(["a or b"] * 6))
    rule = {"rule": {"if": {"town": "a"}, "then": {"illness": "hiv"}, "support": 2, "confidence": 0.9}}
    verdict = verdict_of(rule, labels, original)
    assert (verdict.outcome, "'town' (result 1)" in verdict.reason, "recoded" in verdict.reason) == (
        "error",
        True,
        True,
    )
    named = {"rule": {**rule["rule"], "if": {"town": "a or b"}}}
    assert verdict_of(named, labels, original).outcome == "fail"
    blank = original.set_column(1, "town", pa.array(["b", None, None] * 2))
    assert verdict_of(rule, blank, original).outcome == "pass"  # suppressed, and not behind a label


def test_rules_need_a_left_side_that_some_record_shows() -> None:
    rules = {"rules": {"then": {"illness": "hiv"}, "support": 30}}
    table = pa.table({"sex": pa.nulls(9, pa.string()), "illness": ["hiv", "flu", "flu"] * 3})
    assert verdict_of(rules, table).outcome == "error"
    assert verdict_of(rules, table.select(["illness"])).outcome == "error"
    assert verdict_of(rules, table.set_column(0, "sex", pa.array(["f"] * 9))).outcome == "pass"


def test_half_of_the_records_have_to_show_the_columns(embedded: Engine) -> None:
    illness = ["hiv", "flu", "flu", *[None] * 4]
    table = pa.table({"sex": ["f"] * 7, "illness": pa.array(illness, pa.string())})
    entry = ResultPrivacy(results=[{"rules": {"then": {"illness": "hiv"}, "support": 5}}])
    assert judged(embedded, entry, table, table).outcome == "error"
    assert judged(embedded, entry, table.slice(0, 6), table.slice(0, 6)).outcome == "pass"


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        "rule",
        [{"rule": {}}],
        [{"rul": {"if": {"a": 1}, "then": {"b": 1}}}],
        [{"rule": {"if": {"a": 1}, "then": {"b": 1}}}],
        [{"rule": {"if": {"a": 1}, "then": {"a": 2}, "support": 1}}],
        [{"rule": {"if": {"a": [1]}, "then": {"b": 2}, "support": 1}}],
        [{"rule": {"if": {"a": 1}, "then": {"b": 2}, "support": 0}}],
        [{"rules": {"then": {"a": 1}, "support": 1, "max_items": 4}}],
        [{"rules": {"then": {"a": 1}, "support": 1, "columns": ["a"]}}],
        [{"correlation": {"columns": ["a"], "at_most": 0.1}}],
        [{"correlation": {"columns": ["a", "b"], "at_most": 1.1}}],
        [{"share": {"where": {}, "at_most": 0.1}}],
        [{"order": {"column": "a", "by": "a", "at_most": 0.1}}],
        [{"model": {"target": "a", "columns": ["a"], "at_most": 0.1}}],
        [{"model": {"target": "a", "at_most": 0.1, "depth": 2}}],
    ],
    ids=str,
)
def test_a_wrong_result_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="result_privacy"):
        ResultPrivacy(results=wrong)


def test_a_release_is_refused_where_a_rule_holds() -> None:
    table = pa.table({"sex": ["f"] * 6 + ["m"] * 6, "illness": ["hiv"] * 5 + ["flu"] * 7})
    results = [{"rules": {"then": {"illness": "hiv"}, "support": 5, "confidence": 0.6}}]
    verdict = pp.assess(table, [ResultPrivacy(results=results)], quasi_identifiers=["sex"], sensitive=["illness"])
    assert [each.outcome for each in verdict.verdicts if each.name == "result_privacy"] == ["fail"]

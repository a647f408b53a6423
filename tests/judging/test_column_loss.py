"""What every column of a release has lost: the figures next to an oracle in plain Python, on every engine."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.judging import loss_counts, paired_columns
from privpipe.judging.loss_counts import labels_of
from privpipe.judging.paired_columns import moments_moved

TREE = {"*": {"north": ["a", "b", "c"], "south": ["d", "e"]}}
SEED = {"insecure": "a seed for tests"}


def table(seed: int = 5, rows: int = 240) -> pd.DataFrame:
    draw = random.Random(seed)
    return pd.DataFrame(
        {
            "key": [f"k{row:04d}" for row in range(rows)],
            "town": [draw.choice("abcde") for _ in range(rows)],
            "sex": [draw.choice(["f", "m", None]) for _ in range(rows)],
            "age": [draw.randint(20, 59) for _ in range(rows)],
            "income": [draw.choice([None, *range(100, 400)]) for _ in range(rows)],
            "illness": [draw.choice(["flu", "flu", "cold", "gout"]) for _ in range(rows)],
            "kept": [draw.choice(["x", "y", "*"]) for _ in range(rows)],
            "name": [f"n{row}" for row in range(rows)],
        }
    ).astype({"income": "float64"})


def document(transform: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "columns": {
            "key": {"role": "insensitive"},
            "town": {"role": "quasi_identifier", "hierarchy": {"tree": TREE}},
            "sex": {"role": "quasi_identifier"},
            "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 20, "widths": [10, 20]}}},
            "income": {"role": "insensitive"},
            "illness": {"role": "insensitive"},
            "kept": {"role": "insensitive"},
            "name": {"role": "identifier"},
        },
        "record_id": "name",
        "guarantees": [{"k_anonymity": {"k": 6}}],
        "transform": list(transform),
        "seed": SEED,
        "allow_insecure_seed": True,
        **more,
    }


STAGES: list[dict[str, Any]] = [
    {"add_noise": {"columns": ["income"], "variance_ratio": 0.5}},
    {"pram": {"columns": ["illness"], "diagonal": 0.7}},
    {"generalize": {"levels": {"town": 1, "age": 1}}},
    {"suppress_cells": {}},
]


def plain(value: Any) -> Any:
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else value


def blank(value: Any) -> bool:
    return value is None or value == "*"


def pairs_of(before: pd.DataFrame, after: pd.DataFrame, column: str) -> list[tuple[Any, Any]]:
    """Cells of the records of both tables, joined by a column that no stage touches."""
    first = dict(zip(before["key"], before[column], strict=True))
    found = zip(after["key"], after[column], strict=True)
    return [(plain(first[key]), plain(value)) for key, value in found]


def ranks(values: Sequence[Any]) -> list[float]:
    order = sorted(values)
    first, times = {value: order.index(value) for value in set(values)}, Counter(values)
    return [first[value] + (times[value] + 1) / 2 for value in values]


def correlation(x: Sequence[float], y: Sequence[float]) -> float:
    a, b = sum(x) / len(x), sum(y) / len(y)
    own, other = (sum((v - m) ** 2 for v in side) for side, m in ((x, a), (y, b)))
    return sum((v - a) * (w - b) for v, w in zip(x, y, strict=True)) / math.sqrt(own * other)


def entropy(values: Sequence[Any]) -> float:
    return -sum(count / len(values) * math.log(count / len(values)) for count in Counter(values).values())


def uncertainty(pairs: Sequence[tuple[Any, Any]]) -> float:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    chance = (len(set(x)) - 1) * (len(set(y)) - 1) / (2 * len(pairs))
    told = entropy(x) + entropy(y) - entropy(pairs)
    return max(0.0, (told - chance) / (entropy(x) - chance))


def label_share(value: str, label: str) -> float:
    if label == value:
        return 1 / 5
    return {"north": 3 / 5, "south": 2 / 5}[label]


def oracle(column: str, pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    valued = [(x, y) for x, y in pairs if not blank(x)]
    left = [(x, y) for x, y in valued if not blank(y)]
    share = len(left) / len(valued)
    differ = sum(x != y and not (blank(x) and blank(y)) for x, y in pairs)
    if column == "town":
        each = [(label_share(x, y) - 1 / 5) / (1 - 1 / 5) if not blank(y) else 1.0 for x, y in valued]
        loss = sum(each) / len(each)
    elif column == "income":
        loss = 1 - share * correlation(*(ranks([pair[side] for pair in left]) for side in (0, 1)))
    else:
        loss = 1 - share * uncertainty(left) if differ else 0.0
    return {
        "changed": differ / len(pairs),
        "blanked": sum(not blank(x) and blank(y) for x, y in pairs) / len(pairs),
        "loss": loss,
    }


def labels(values: Sequence[Any]) -> int:
    return len({value for value in map(plain, values) if not blank(value)})


@pytest.mark.parametrize("few", [0, loss_counts.FEW], ids=["columns abreast", "one column after another"])
def test_the_figures_are_those_of_the_definition(engine: Engine, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_counts, "FEW", few)
    before = table()
    policy = pp.Policy.from_dict(document(STAGES))
    made = pp.plan(before, policy, engine=engine)
    after = pp.transform(before, made, policy=policy, engine="embedded")
    assert made.lost is not None
    assert made.lost.records == len(after)
    assert [each.column for each in made.lost.columns] == [*after.columns, "name"]
    for column in ("town", "sex", "income", "illness", "kept"):
        row = made.lost.of(column)
        expected = oracle(column, pairs_of(before, after, column))
        assert {name: getattr(row, name) for name in expected} == pytest.approx(expected), column
        assert row.labels_before == labels(before[column])
        assert row.labels_after == labels(after[column])
    assert made.lost.of("age").measured_by == made.lost.of("town").measured_by == "hierarchy"
    assert made.lost.of("income").measured_by == "rank correlation"
    assert made.lost.of("illness").measured_by == "association"
    assert made.lost.of("town").done == ("generalize (level 1)", "suppress_cells")
    assert made.lost.of("illness").done == ("pram",)
    assert made.lost.of("name").done == ("not released",)
    assert made.lost.of("key").loss == 0.0
    roles = {column: spec["role"] for column, spec in document(STAGES)["columns"].items()}
    assert {row.column: row.role for row in made.lost.columns} == roles


def test_every_engine_gives_the_same_figures(engine: Engine, embedded: Engine) -> None:
    policy = pp.Policy.from_dict(document(STAGES))
    assert pp.plan(table(), policy, engine=engine).lost == pp.plan(table(), policy, engine=embedded).lost


def test_a_large_table_is_sampled_and_its_labels_are_counted_in_all(
    engine: Engine, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = pp.Policy.from_dict(document(STAGES))
    whole = pp.plan(table(), policy, engine=embedded).lost
    monkeypatch.setattr(paired_columns, "LARGEST_SAMPLE", 60)
    found = pp.plan(table(), policy, engine=engine).lost
    assert whole is not None
    assert found is not None
    assert found == pp.plan(table(), policy, engine=embedded).lost
    assert not found.whole
    assert found.records is not None
    assert 30 < found.records < 120
    for row in whole.columns:
        assert (found.of(row.column).labels_before, found.of(row.column).labels_after) == (
            row.labels_before,
            row.labels_after,
        )


def test_of_a_wide_table_fewer_records_are_looked_at(
    engine: Engine, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = pp.Policy.from_dict(document(STAGES))
    monkeypatch.setattr(paired_columns, "LARGEST_SAMPLE", 120)
    monkeypatch.setattr(paired_columns, "SMALLEST_SAMPLE", 10)
    all_columns = pp.plan(table(), policy, engine=embedded).lost
    monkeypatch.setattr(paired_columns, "WIDE", 2)
    found = pp.plan(table(), policy, engine=engine).lost
    assert found == pp.plan(table(), policy, engine=embedded).lost
    assert all_columns is not None
    assert found is not None
    assert all_columns.records is not None
    assert found.records is not None
    assert 0 < found.records < all_columns.records
    assert {row.column: row.labels_after for row in found.columns} == {
        row.column: row.labels_after for row in all_columns.columns
    }


def test_a_table_that_fits_is_brought_whole_however_wide(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_columns, "LARGEST_SAMPLE", 240)
    monkeypatch.setattr(paired_columns, "SMALLEST_SAMPLE", 10)
    monkeypatch.setattr(paired_columns, "WIDE", 1)
    people = embedded.with_record_ids(embedded.scan(Source(data=table())), "name", Seed.insecure("wide"))
    found = paired_columns.paired_sample(embedded, people, people, people.schema.names)
    assert found is not None
    assert found.whole
    assert len(found.pairs[0]) == 240


LABELLED: dict[str, list[Any]] = {
    "two": ["a", "b"] * 5,
    "text": ["a", "b", "c", "d", None, "*", None, "a", "*", "e"],
    "number": [1.0, 2.0, float("nan"), None, 3.0, 4.0, 5.0, -0.0, 0.0, None],
    "whole": [1, 2, 3, 4, 5, 6, 7, 8, 9, 9],
    "nothing": [None, "*"] * 5,
}


@pytest.mark.parametrize("largest", [0, 4, 100])
def test_labels_are_the_same_whether_values_or_classes_are_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(loss_counts, "LARGEST_HISTOGRAM", largest)
    counted = engine.scan(Source(data=pa.table(LABELLED)))
    assert labels_of(engine, counted, list(LABELLED), "*") == {name: labels(LABELLED[name]) for name in LABELLED}


def test_only_columns_of_few_values_come_to_the_driver(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many records make no column large; many values do."""
    facts, reduced = type(embedded).facts, type(embedded).reduce_classes
    came, stayed = set(), set()

    def seen_facts(self: Any, table: Any, request: FactsRequest) -> Any:
        came.update(request.histograms)
        return facts(self, table, request)

    def seen_classes(self: Any, table: Any, query: ClassQuery, *more: Any) -> Any:
        stayed.update(query.keys)
        return reduced(self, table, query, *more)

    monkeypatch.setattr(loss_counts, "LARGEST_HISTOGRAM", 2)
    monkeypatch.setattr(type(embedded), "facts", seen_facts)
    monkeypatch.setattr(type(embedded), "reduce_classes", seen_classes)
    labels_of(embedded, embedded.scan(Source(data=pa.table(LABELLED))), ["two", "whole", "nothing"], "*")
    assert (came, stayed) == ({"two", "nothing"}, {"whole"})


def test_one_label_left_is_an_alarm_and_one_label_kept_is_none() -> None:
    before = table().assign(kept="always")
    made = pp.plan(before, pp.Policy.from_dict(document([{"generalize": {"levels": {"age": 2, "town": 1}}}])))
    assert made.lost is not None
    assert made.lost.of("kept").alarm is None
    assert made.lost.of("kept").loss == 0.0
    assert made.lost.alarms == ()
    half = before.assign(town=[each if each in "abc" else "a" for each in before["town"]])
    made = pp.plan(half, pp.Policy.from_dict(document([{"generalize": {"levels": {"town": 1}}}])))
    assert made.lost is not None
    assert made.lost.of("town").alarm == "one label"
    assert made.lost.alarms == ("`town` has one label left of 3",)


def test_a_column_blanked_from_top_to_bottom_is_an_alarm(engine: Engine) -> None:
    made = pp.plan(table(), pp.Policy.from_dict(document([{"generalize": {"levels": {"town": 2}}}])), engine=engine)
    assert made.lost is not None
    row = made.lost.of("town")
    assert (row.alarm, row.loss, row.blanked, row.labels_after) == ("blank", 1.0, 1.0, 0)
    assert made.lost.alarms == ("`town` is blank from top to bottom; it had 5 labels",)


def test_a_shuffled_column_has_lost_more_than_the_policy_allows() -> None:
    more = {"utility": {"column_loss": {"at_most": 0.2}}}
    made = pp.plan(table(), pp.Policy.from_dict(document(STAGES, **more)))
    assert made.lost is not None
    assert {each.column for each in made.lost.columns if each.alarm == "loss"} >= {"illness", "town"}
    assert all("more than 0.2" in alarm for alarm in made.lost.alarms)


def test_a_model_that_forbids_counts_leaves_the_source_out() -> None:
    asked = document([{"safepub": {"epsilon": 1.0, "delta": 1e-3, "levels": {"town": 2, "age": 1}}}])
    asked["guarantees"] = [{"differential_privacy": {"epsilon": 1.0, "delta": 1e-3}}]
    for name in ("key", "income", "illness", "kept", "sex"):
        asked["columns"][name]["role"] = "identifier"
    policy = pp.Policy.from_dict(asked)
    made = pp.plan(table(rows=2000), policy)
    assert made.lost is not None
    assert made.lost.withheld
    assert made.lost.records is None
    for row in made.lost.columns:
        assert (row.labels_before, row.changed, row.blanked, row.loss) == (None, None, None, None)
    assert made.lost.alarms == ("`town` is blank from top to bottom",)


def figures_of(pairs: Sequence[tuple[Any, Any]]) -> dict[str, float | None]:
    """What a user sees of a number, from the definitions."""

    def share(some: Sequence[tuple[Any, Any]], gone: Any) -> float | None:
        return sum(map(gone, some)) / len(some) if some else None

    held = [(first, second) for first, second in pairs if first is not None and second is not None]
    first, second = (sorted(pair[side] for pair in pairs if pair[side] is not None) for side in (0, 1))
    mean = sum(first) / len(first)
    deviation = math.sqrt(sum((each - mean) ** 2 for each in first) / len(first))
    ends = [
        [side[math.ceil(share * len(side)) - 1] for share in (0.05, 0.25, 0.5, 0.75, 0.95)] for side in (first, second)
    ]
    return {
        "zeros": sum(pair[0] == 0 for pair in pairs) / len(pairs),
        "zeros_changed": share([pair for pair in pairs if pair[0] == 0], lambda pair: pair[1] != 0),
        "signs_changed": share([pair for pair in held if pair[0] != 0], lambda pair: pair[0] * pair[1] < 0),
        "missing_changed": share([pair for pair in pairs if pair[0] is None], lambda pair: pair[1] is not None),
        "mean_change": (sum(second) / len(second) - mean) / deviation,
        "quantile_change": max((b - a for a, b in zip(*ends, strict=True)), key=abs) / deviation,
    }


@pytest.mark.parametrize("rows", [40, 400])
def test_what_a_user_sees_of_a_number_is_reported(engine: Engine, rows: int) -> None:
    draw = random.Random(rows)
    values = [0.0, 0.0, None, -1.0, -250.0, 4.0, 900.0]
    before = table(rows=rows).assign(income=[draw.choice(values) for _ in range(rows)])
    policy = pp.Policy.from_dict(document([STAGES[0]], guarantees=[{"k_anonymity": {"k": 1}}]))
    made = pp.plan(before, policy, engine=engine)
    after = pp.transform(before, made, policy=policy, engine="embedded")
    assert made.lost is not None
    found = made.lost.of("income")
    for name, figure in figures_of(pairs_of(before, after, "income")).items():
        assert getattr(found, name) == (None if figure is None else pytest.approx(figure)), name
    assert found.alarm == "zeros"
    assert made.lost.alarms == ("100 % of the zeros of `income` are no longer zero",)


@pytest.mark.parametrize("unit", [1e-320, 1e306])
def test_the_unit_of_a_number_changes_no_figure_of_its_change(unit: float) -> None:
    values, moved, times = np.array([-9.0, 0.0, 4.0, 9.0]), np.array([-9.0, 1.0, 4.0, 9.0]), np.array([1, 2, 3, 1])
    found = moments_moved(values * unit, times, moved * unit, times)
    assert found == pytest.approx(moments_moved(values, times, moved, times), rel=0.01)


def test_a_fifth_of_the_cells_blanked_is_an_alarm_and_labels_have_no_mean() -> None:
    stages: list[dict[str, Any]] = [{"suppress_cells": {}}]
    made = pp.plan(table(rows=60), pp.Policy.from_dict(document(stages)))
    assert made.lost is not None
    rows = {each.column: each for each in made.lost.columns}
    assert (rows["town"].mean_change, rows["town"].zeros, rows["town"].zeros_changed) == (None, None, None)
    worst = next(each for each in made.lost.columns if each.alarm == "blanked")
    assert (worst.blanked or 0) > 0.2
    assert f"{100 * (worst.blanked or 0):.3g} % of the cells of `{worst.column}` are blanked" in made.lost.alarms
    allowed = document(stages, utility={"column_loss": {"blanked_at_most": 1}})
    made = pp.plan(table(rows=60), pp.Policy.from_dict(allowed))
    assert made.lost is not None
    assert [each.column for each in made.lost.columns if each.alarm == "blanked"] == []

"""Relations between two columns that a release lost: the figures of the definitions, on every engine."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.judging import column_loss

NUMBERS = ("age", "income")


def table(rows: int = 400, seed: int = 3) -> pd.DataFrame:
    draw = random.Random(seed)
    age = [draw.randint(20, 79) for _ in range(rows)]
    town = [draw.choice("abcd") for _ in range(rows)]
    return pd.DataFrame(
        {
            "key": [f"k{row}" for row in range(rows)],
            "age": age,
            "income": [None if draw.random() < 0.1 else 100 * each + draw.randint(0, 2000) for each in age],
            "to`wn": town,
            "region": [None if draw.random() < 0.1 else "NS"[each in "ab"] for each in town],
            "rent": [draw.randint(0, 9) + 9 * (each == "a") for each in town],
        }
    )


def lost(frame: pd.DataFrame, transform: list[Any], engine: Any = "embedded", **rule: Any) -> Any:
    document = {
        "columns": {
            "key": {"role": "insensitive"},
            "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 20, "widths": [20, 60]}}},
            **{name: {"role": "insensitive"} for name in frame.columns if name not in ("key", "age")},
        },
        "record_id": "key",
        "guarantees": [{"k_anonymity": {"k": 1}}],
        "transform": transform,
        "utility": {"column_loss": {"at_most": 1.0, **rule}},
        "seed": {"insecure": "relations"},
        "allow_insecure_seed": True,
    }
    policy = pp.Policy.from_dict(document)
    made = pp.plan(frame, policy, engine=engine)
    return made.lost, pp.transform(frame, made, policy=policy)


def ranks(values: Sequence[float]) -> list[float]:
    order, times = sorted(values), Counter(values)
    return [order.index(value) + (times[value] + 1) / 2 for value in values]


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    a, b = sum(x) / len(x), sum(y) / len(y)
    own, other = (sum((v - m) ** 2 for v in side) for side, m in ((x, a), (y, b)))
    return sum((v - a) * (w - b) for v, w in zip(x, y, strict=True)) / math.sqrt(own * other) if own * other else 0.0


def ratio(values: Sequence[float], labels: Sequence[Any]) -> float:
    x, of = ranks(values), defaultdict(list)
    for rank, label in zip(x, labels, strict=True):
        of[label].append(rank)
    mean, n = sum(x) / len(x), len(x)
    within = sum((rank - sum(each) / len(each)) ** 2 for each in of.values() for rank in each)
    whole = sum((rank - mean) ** 2 for rank in x)
    return math.sqrt(max(0.0, 1 - within / whole * (n - 1) / (n - len(of))))


def cramer(x: Sequence[Any], y: Sequence[Any]) -> float:
    n, rows, columns, cells = len(x), Counter(x), Counter(y), Counter(zip(x, y, strict=True))
    r, c = len(rows), len(columns)
    chi = sum((cells[a, b] - rows[a] * columns[b] / n) ** 2 / (rows[a] * columns[b] / n) for a in rows for b in columns)
    corrected = max(0.0, chi / n - (r - 1) * (c - 1) / (n - 1))
    return math.sqrt(corrected / (min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1))


def related(frame: pd.DataFrame, first: str, second: str) -> float:
    kept = frame[[first, second]].dropna()
    x, y = kept[first].tolist(), kept[second].tolist()
    if first in NUMBERS and second in NUMBERS:
        return abs(pearson(ranks(x), ranks(y)))
    if second == "rent":
        return ratio(y, x)
    return cramer(x, y)


SWAPS: list[Any] = [
    {"rank_swap": {"columns": ["income"], "p": 0.9}},
    {"pram": {"columns": ["to`wn"], "diagonal": 0.3}},
]


def test_the_figures_are_those_of_the_definitions(engine: Engine) -> None:
    before = table()
    found, after = lost(before, SWAPS, engine)
    after = before[["key"]].merge(after, on="key")
    assert {each.columns: each.measured_by for each in found.relations} == {
        ("age", "income"): "rank correlation",
        ("to`wn", "region"): "association",
        ("to`wn", "rent"): "correlation ratio",
    }
    for each in found.relations:
        assert each.before == pytest.approx(related(before, *each.columns)), each.columns
        assert each.after == pytest.approx(related(after, *each.columns)), each.columns
        assert each.after < each.before / 2
        assert each.records == len(after[list(each.columns)].dropna())
        assert each.of == len(before)
    worst = found.relations[0]
    assert found.alarms[0] == (
        f"the relation of `{worst.columns[0]}` and `{worst.columns[1]}` fell from {worst.before:.2f} to "
        f"{worst.after:.2f} ({worst.records} of 400 records have both)"
    )
    assert found.documents()["column_loss"]["relations"][0]["columns"] == list(worst.columns)


def test_ranges_are_in_the_order_of_their_numbers() -> None:
    found, _ = lost(table(), [{"generalize": {"levels": {"age": 1}}}], relation_lost_at_most=0.0)
    (fallen,) = found.relations
    assert fallen.columns == ("age", "income")
    assert fallen.after > 0.8 * fallen.before


def test_what_stays_and_what_has_one_label_left_is_not_a_relation_lost() -> None:
    assert lost(table(), [], relation_lost_at_most=0.0)[0].relations == ()
    found, _ = lost(table(), [{"generalize": {"levels": {"age": 2}}}])
    assert found.relations == ()
    assert len(found.alarms) == 1  # the column is blank


@pytest.mark.parametrize(("rows", "reported"), [(49, False), (200, True)])
def test_over_few_records_there_is_no_figure(rows: int, reported: bool) -> None:
    found, _ = lost(table(rows), SWAPS[:1])
    assert bool(found.relations) is reported
    few = table(200).assign(rent=[None] * 160 + list(range(40)), age=range(200))
    assert lost(few, [{"rank_swap": {"columns": ["rent"], "p": 0.9}}])[0].relations == ()


def test_the_policy_says_how_much_of_a_relation_may_be_lost() -> None:
    assert len(lost(table(), SWAPS)[0].relations) == 3
    assert lost(table(), SWAPS, relation_lost_at_most=1.0)[0].alarms == ()


def test_of_many_relations_the_worst_have_sentences() -> None:
    wide = table().drop(columns=["income", "to`wn", "region", "rent"])
    for at in range(5):
        wide[f"copy{at}"] = wide["age"] * 10 + at
    found, _ = lost(wide, [{"rank_swap": {"columns": ["copy0"], "p": 0.95}}])
    assert len(found.relations) == 5
    assert len(found.alarms) == 4
    assert found.alarms[-1] == "2 more relations between two columns lost as much"


def test_of_a_large_table_the_same_records_are_looked_at(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_loss, "MOST_RECORDS", 200)
    found, _ = lost(table(), SWAPS, engine)
    assert {each.of for each in found.relations} == {200}
    assert found.relations == lost(table(), SWAPS)[0].relations

"""k-confusion, compared with distances between all records written out."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks.file_pair import DistinctPair
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.measures import KConfusion
from privpipe.measures.risk.linkage import k_confusion

from ..joined import judged


def sd(values: list[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values)


def by_definition(original: pa.Table, released: pa.Table, entry: KConfusion) -> list[int]:
    """Candidates of each original record; euclidean over numbers alone, gower over numbers and texts."""
    names, euclidean = original.column_names, entry.metric != "gower"
    before, after = original.to_pylist(), released.to_pylist()
    scale = {}
    for name in names:
        if not isinstance(before[0][name], str):
            sides = [[float(row[name]) for row in rows] for rows in (before, after)]
            least, most = min(*sides[0], *sides[1]), max(*sides[0], *sides[1])
            first = sd(sides[0])
            ranges = (least, most - least), (least, most - least)
            scale[name] = (first, first if entry.standardise == "original" else sd(sides[1])) if euclidean else ranges
    found = []
    for own in before:
        distances = []
        for shown in after:
            apart = []
            for name in names:
                if name in scale:
                    (at, by), (mean, over) = scale[name]
                    if by and over:
                        apart.append((own[name] - at) / by - (shown[name] - mean) / over)
                    else:
                        apart.append(0.0)
                else:
                    apart.append(float(own[name] != shown[name]))
            total = math.sqrt(sum(x * x for x in apart)) if euclidean else sum(map(abs, apart)) / len(names)
            distances.append(total)
        found.append(sum(each <= min(distances) + entry.within + 1e-12 for each in distances))
    return found


def small_tables(seed: int, *, texts: bool) -> tuple[pa.Table, pa.Table]:
    draw = random.Random(seed)
    n = draw.randint(2, 7)
    rows = [{"age": draw.randint(1, 6), "pay": draw.choice([10, 20, 40])} for _ in range(n)]
    rows[0], rows[1] = {"age": 1, "pay": 10}, {"age": 6, "pay": 40}
    shown = [{**row, "age": min(6, row["age"] + draw.choice([0, 0, 1]))} for row in rows[: draw.randint(2, n)]]
    shown += shown if seed % 3 == 0 else []
    shown = [dict(row) for row in shown]
    if texts:
        for row in (*rows, *shown):
            row["town"] = draw.choice("ab")
        values = {row["town"] for row in rows}
        for row in shown:
            row["town"] = row["town"] if row["town"] in values else min(values)
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(shown)


CASES = [
    KConfusion(metric="gower"),
    KConfusion(metric="gower", within=0.2),
    KConfusion(metric="euclidean"),
    KConfusion(metric="euclidean", standardise="original", within=0.5),
]


@pytest.mark.parametrize("entry", CASES, ids=repr)
def test_candidates_are_those_of_all_distances(entry: KConfusion) -> None:
    seen = set()
    for seed in range(75):
        original, released = small_tables(seed, texts=entry.metric == "gower" and seed % 2 == 0)
        pair = DistinctPair(keys=tuple(original.column_names), original=counted(original), released=counted(released))
        verdict = entry.judge_tables(pair)
        expected = by_definition(original, released, entry)
        assert verdict.observed == min(expected), seed
        for k in (1, 2):
            gate = KConfusion(**{**entry.parameters(), "k": k}).judge_tables(pair)
            assert gate.failing_records == sum(each < k for each in expected)
            assert gate.outcome == ("pass" if min(expected) >= k else "fail")
        seen.add(verdict.observed)
    assert len(seen) > 1


def counted(table: pa.Table) -> pa.Table:
    ones = table.append_column("__count", pa.array([1] * table.num_rows, pa.int64()))
    sums = ones.group_by(table.column_names).aggregate([("__count", "sum")])
    return sums.rename_columns([*table.column_names, "__count"])


@pytest.mark.parametrize("texts", [False, True])
def test_every_engine_gives_the_figure_of_the_definition(engine: Engine, texts: bool) -> None:
    original, released = small_tables(4, texts=texts)
    entry = KConfusion(metric="gower" if texts else "euclidean", standardise="original")
    assert judged(engine, entry, original, released).observed == min(by_definition(original, released, entry))


def test_classes_of_k_confuse_k(engine: Engine) -> None:
    """Labels are at distance 0 of what they cover, and a record of another class is farther."""
    original = pa.table({"age": [31, 35, 38, 42, 47], "town": ["a", "a", "b", "b", "b"]})
    released = pa.table({"age": ["[30, 40["] * 3 + ["[40, 50["] * 2, "town": ["{a, b}"] * 5})
    verdict = judged(engine, KConfusion(k=2), original, released)
    assert (verdict.outcome, verdict.observed) == ("pass", 2)
    assert judged(engine, KConfusion(k=3), original, released).failing_records == 2


def test_perturbed_records_that_differ_confuse_within_a_distance(embedded: Engine) -> None:
    original = pa.table({"x": [0.0, 0.1, 10.0, 10.1]})
    released = pa.table({"x": [0.02, 0.09, 10.03, 10.08]})
    assert judged(embedded, KConfusion(k=2), original, released).outcome == "fail"
    assert judged(embedded, KConfusion(k=2, within=0.05), original, released).outcome == "pass"


def test_nothing_compared_is_an_error(embedded: Engine) -> None:
    original = pa.table({"age": [30, 40, 50, 60], "town": ["a", "b", "c", "d"]})
    blank = pa.table({"age": pa.nulls(4, pa.int64()), "town": ["a", "b", "c", "d"]})
    assert judged(embedded, KConfusion(k=1), original, blank).outcome == "error"
    blank = pa.table({"age": [30, 40, 50, 60], "town": pa.nulls(4, pa.string())})
    assert judged(embedded, KConfusion(k=1), original, blank).outcome == "error"
    worded = pa.table({"age": [30, 40, 50, 60], "town": ["north", "south", "east", "d"]})
    assert judged(embedded, KConfusion(k=1), original, worded).outcome == "error"
    half = pa.table({"age": [30, 40, 50, 60], "town": ["north", "south", "c", "d"]})
    assert judged(embedded, KConfusion(k=1), original, half).outcome == "pass"


def test_without_an_original_or_distances_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    table = counted(pa.table({"x": [1.0, 1.0]}))
    entry = KConfusion(k=1)
    assert entry.judge_tables(DistinctPair(keys=("x",), released=table)).outcome == "error"
    assert entry.judge_tables(DistinctPair(keys=("x",), released=table, original=table.slice(0, 0))).outcome == "error"
    # Every record has the same value: no column distinguishes any.
    assert entry.judge_tables(DistinctPair(keys=("x",), released=table, original=table)).outcome == "error"
    monkeypatch.setattr(k_confusion, "LARGEST", 0)
    assert "distances" in entry.judge_tables(DistinctPair(keys=("x",), released=table, original=table)).reason


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"metric": "cosine"}, {"standardise": "none"}, {"within": -0.1}, {"within": math.inf}]
)
def test_a_wrong_parameter_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        KConfusion(**wrong)


@pytest.mark.parametrize("metric", ["gower", "euclidean"])
def test_numbers_that_floats_round_to_one_are_not_ties(embedded: Engine, metric: Any) -> None:
    large = pa.table({"x": [2**53, 2**53 + 1, 5, 6]})
    verdict = judged(embedded, KConfusion(k=1, metric=metric), large, large)
    assert (verdict.outcome, "64-bit floats" in verdict.reason) == ("error", True)
    apart = judged(embedded, KConfusion(metric=metric), pa.table({"x": [2**53, 5]}), pa.table({"x": [2**53 + 1, 5]}))
    assert apart.outcome == "error"
    assert judged(embedded, KConfusion(metric=metric), large.slice(1), large.slice(1)).observed == 1

"""Distance linkage gives the reference figures, the worked example, and the same on every engine.

Sources: reference/sdcmicro.json (recordLinkage: scipy, counts compared with sdcMicro 5.8.1); reference/torra.json.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.measures import RecordLinkage

from ..attribute.test_rank_interval_disclosure import worked_tables


def test_figures_of_the_reference(embedded: Engine, sdcmicro: Any, casc: Any, judged_pair: Any) -> None:
    cases = [case for case in sdcmicro if case["fn"] == "recordLinkage"]
    assert cases
    for case in cases:
        original = casc(case["data"]).select(case["vars"])
        released = casc(case["masked"]).select(case["vars"])
        measure = RecordLinkage(metric=case["distance"], standardise="original", ties="any", sample=None)
        found = judged_pair(embedded, measure, original, released).observed
        n, wanted = original.num_rows, case["expected"]
        # The reference takes the first of equally near ones: between `strict` and `any`.
        strict = RecordLinkage(metric=case["distance"], standardise="original", ties="strict", sample=None)
        least = judged_pair(embedded, strict, original, released).observed
        for way, name in (
            ("from_intruder", "nearest_neighbour_correct"),
            ("from_released", "nn_from_masked_side_correct"),
        ):
            assert round(least[way] * n) <= wanted[name] <= round(found[way] * n), (case["id"], way)
            assert round(found[way] * n) - round(least[way] * n) <= 3
        counts = []
        for ties in ("strict", "fractional", "any"):
            paired = RecordLinkage(metric=case["distance"], standardise="original", assignment="one_to_one", ties=ties)
            found = judged_pair(embedded, paired, original, released).observed
            assert found["total_distance"] == pytest.approx(wanted["total_distance"], rel=1e-9)
            counts.append(found["one_to_one"] * n)
        # The total is unique, the count is not: the reference's solver ends somewhere between the fewest and the most.
        assert counts[0] - 0.01 <= wanted["correct_matches_hungarian"] <= counts[2] + 0.01, case["id"]
        assert counts[1] == pytest.approx(wanted["correct_matches_hungarian"], abs=5), case["id"]


def test_the_worked_example(engine: Engine, torra: dict[str, Any], judged_pair: Any) -> None:
    original, released = worked_tables(torra)
    worked = torra["worked_examples"]["rank_swap_attack"]["distance_linkage_own_standardisation"]
    order = [9, 2, 5, 7, 0, 1, 3, 4, 8, 6]
    found = judged_pair(engine, RecordLinkage(at_most=0.5), original, released, order=order)
    assert found.observed["from_intruder"] == pytest.approx(worked["from_intruder_fractional"])
    assert found.observed["from_released"] == pytest.approx(worked["from_released"])
    assert found.outcome == "fail"
    anyone = judged_pair(engine, RecordLinkage(ties="any", direction="from_intruder"), original, released)
    assert anyone.observed["share"] == pytest.approx(worked["from_intruder_any"])


def test_suppressed_originals_are_not_linked_but_counted(embedded: Engine, judged_pair: Any) -> None:
    table = pa.table({"a": [float(v) for v in (1, 5, 9, 14, 30)]})
    verdict = judged_pair(embedded, RecordLinkage(at_most=0.5), table, table, left_out=2)
    assert verdict.observed["from_intruder"] == pytest.approx(3 / 5)
    assert verdict.observed["from_released"] == pytest.approx(1.0)
    assert "2 of them not released" in verdict.reason


def test_a_sample_is_judged_by_its_upper_limit(embedded: Engine, judged_pair: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    table, masked = pa.table({"a": x}), pa.table({"a": x + rng.normal(0, 0.001, 400)})
    whole = judged_pair(embedded, RecordLinkage(sample=None, direction="from_intruder"), table, masked).observed
    part = judged_pair(embedded, RecordLinkage(sample=50, direction="from_intruder"), table, masked)
    assert part.observed["share"] > part.observed["estimate_from_intruder"]
    assert part.observed["estimate_from_intruder"] == pytest.approx(whole["share"], abs=0.2)
    assert "upper 0.95 limit from 50 sampled records" in part.reason
    order = rng.permutation(400).tolist()
    again = judged_pair(embedded, RecordLinkage(sample=50, direction="from_intruder"), table, masked, order=order)
    assert again.observed == part.observed


def test_labels_cover_their_values(embedded: Engine, judged_pair: Any) -> None:
    tree = {"tree": {"*": {"north": ["a", "b"], "south": ["c", "d"]}}}
    spec = HierarchySpec.from_mapping(tree, column="town")
    original = pa.table({"town": ["a", "b", "c", "d"], "age": [1.0, 2.0, 1.0, 2.0]})
    released = pa.table({"town": ["north", "north", "south", "south"], "age": [1.0, 2.0, 1.0, 2.0]})
    measure = RecordLinkage(at_most=0.9)
    covered = judged_pair(embedded, measure, original, released, hierarchies={"town": spec})
    assert covered.observed["share"] == 1.0
    assert covered.observed["metric"] == "gower"
    unknown = judged_pair(embedded, measure, original, released)
    assert unknown.observed["share"] == 0.5


def test_ranges_and_sets_cover_their_values(embedded: Engine, judged_pair: Any) -> None:
    original = pa.table({"age": [1.0, 2.0, 8.0, 9.0], "town": ["a", "b", "c", "a"]})
    released = pa.table({"age": ["[0, 5[", "[0, 5[", ">=5", ">=5"], "town": ["{a, b}", "{a, b}", "c", "a"]})
    found = judged_pair(embedded, RecordLinkage(direction="from_intruder"), original, released)
    # The first two records share all; the others are distinguished by town.
    assert found.observed["share"] == pytest.approx((0.5 + 0.5 + 1 + 1) / 4)


def test_ties_of_values_far_from_zero(embedded: Engine, judged_pair: Any) -> None:
    """Over a range that is a millionth of the values, quotients by it have no digits left for what ties them."""
    columns = {"a": [1, 1, 4, 3, 5, 4, 1, 0, 3], "b": [2, 1, 0, 4, 5, 5, 0, 4, 3], "c": [3, 5, 5, 4, 5, 1, 4, 0, 4]}
    masked = {"a": [0, 1, 1, 4, 0, 3, 2, 3, 4], "b": [2, 1, 0, 4, 5, 5, 0, 2, 4], "c": [0, 4, 0, 3, 0, 2, 3, 0, 0]}
    measure = RecordLinkage(metric="gower", at_most=0.3)
    for start in (0.0, 1e6, 1e12):
        original, released = (
            pa.table({name: [start + value for value in values] for name, values in side.items()})
            for side in (columns, masked)
        )
        found = judged_pair(embedded, measure, original, released).observed
        assert (found["from_intruder"], found["from_released"]) == (pytest.approx(5 / 18), pytest.approx(5 / 12))


def test_blocks_lose_links_and_knowledge_adds_them(embedded: Engine, judged_pair: Any) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 3))
    original = pa.table({"g": ["u"] * 30 + ["v"] * 30, **{f"c{at}": x[:, at] for at in range(3)}})
    released = original.set_column(0, "g", pa.array(["u"] * 20 + ["v"] * 40))
    columns = ("c0", "c1", "c2")
    free = judged_pair(embedded, RecordLinkage(columns=columns, knows="curve"), original, released)
    assert free.observed["share"] == 1.0
    assert list(free.observed["knows"]) == ["1", "2", "3"]
    blocked = judged_pair(embedded, RecordLinkage(columns=columns, block_by=("g",)), original, released)
    assert blocked.observed["share"] == pytest.approx(50 / 60)
    random = judged_pair(embedded, RecordLinkage(columns=columns, knows={"random": 2}), original, released)
    assert set(random.observed["knows"]) == {"1", "2", "3"}


def test_mahalanobis_of_collinear_columns(embedded: Engine, judged_pair: Any) -> None:
    rng = np.random.default_rng(6)
    a = rng.normal(size=50)
    noise = rng.normal(0, 0.01, 50)
    original = pa.table({"a": a, "b": 2 * a})
    released = pa.table({"a": a + noise, "b": 2 * (a + noise)})
    found = judged_pair(embedded, RecordLinkage(metric="mahalanobis"), original, released)
    assert 0 < found.observed["share"] <= 1


def test_what_cannot_be_linked(embedded: Engine, judged_pair: Any) -> None:
    constant = pa.table({"a": [1.0, 1.0, 1.0]})
    assert judged_pair(embedded, RecordLinkage(at_most=1.0), constant, constant).outcome == "error"
    texts = pa.table({"a": ["x", "y", "z"]})
    with pytest.raises(DataError, match="use gower"):
        judged_pair(embedded, RecordLinkage(metric="euclidean"), texts, texts)
    long = pa.table({"a": np.arange(5001.0)})
    assert "sample both files" in judged_pair(embedded, RecordLinkage(assignment="one_to_one"), long, long).reason
    wrongs: list[dict[str, Any]] = [
        {"at_most": -1},
        {"metric": "cosine"},
        {"sample": 0},
        {"confidence": 1},
        {"knows": "all"},
        {"knows": {"random": 0}},
        {"knows": {"t": 1}},
        {"ties": "first"},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            RecordLinkage(**wrong)


def test_so_many_records_are_assigned_one_to_one_and_no_more(
    embedded: Engine, judged_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, entry = pa.table({"a": [1.0, 2.0, 4.0, 8.0]}), RecordLinkage(assignment="one_to_one")
    for largest, outcome in ((4, "pass"), (3, "error")):
        monkeypatch.setattr(importlib.import_module(RecordLinkage.__module__), "LARGEST_ASSIGNMENT", largest)
        assert judged_pair(embedded, entry, table, table).outcome == outcome


def test_the_curve_adds_one_column_after_the_other(embedded: Engine, judged_pair: Any) -> None:
    rng = np.random.default_rng(11)
    x = rng.normal(size=(40, 3))
    y = x + rng.normal(0, 0.4, x.shape)
    names = ("c0", "c1", "c2")
    sides = [pa.table({name: side[:, at] for at, name in enumerate(names)}) for side in (x, y)]
    curve = judged_pair(embedded, RecordLinkage(knows="curve"), *sides).observed["knows"]
    for size in (1, 2, 3):
        alone = judged_pair(embedded, RecordLinkage(columns=names[:size]), *sides).observed
        assert curve[str(size)] == alone["share"]
    assert curve["1"] < curve["2"] < curve["3"]


def test_labels_that_nothing_explains_link_no_one_and_prove_nothing(engine: Engine, judged_pair: Any) -> None:
    ages = [str(20 + at % 40) for at in range(80)]
    original = pa.table({"age": ages, "zip": [str(at % 3) for at in range(80)]})
    released = original.set_column(0, "age", pa.array(["20-39" if int(age) < 40 else "40-59" for age in ages]))
    verdict = judged_pair(engine, RecordLinkage(at_most=1.0), original, released)
    assert verdict.outcome == "error"
    assert "0 of 80 released records have a label of 'age' that is explained" in verdict.reason


def test_a_few_of_them_cover_every_value(embedded: Engine, judged_pair: Any) -> None:
    """Apart from all values, the label of the first would hide it from whoever looks for the nearest row."""
    original = pa.table({"town": ["a", "b", "c", "d"], "age": [1.0, 2.0, 3.0, 4.0]})
    released = pa.table({"town": ["anywhere", "b", "c", "d"], "age": [1.0, 2.0, 3.0, 4.0]})
    verdict = judged_pair(embedded, RecordLinkage(at_most=0.9, metric="gower"), original, released)
    assert (verdict.outcome, verdict.observed["share"]) == ("fail", 1.0)
    assert "3 of 4 released records have a label of 'town' that is explained" in verdict.reason


def test_blocks_that_part_records_from_their_originals_prove_nothing(embedded: Engine, judged_pair: Any) -> None:
    table = pa.table({"g": [str(at % 4) for at in range(40)], "x": [float(at) for at in range(40)]})
    for moved, outcome in ((0, "fail"), (20, "fail"), (21, "error"), (40, "error")):
        groups = [str((at + (at < moved)) % 4) for at in range(40)]
        released = table.set_column(0, "g", pa.array(groups))
        entry = RecordLinkage(columns=("x",), block_by=("g",), at_most=0.4)
        assert judged_pair(embedded, entry, table, released).outcome == outcome, moved

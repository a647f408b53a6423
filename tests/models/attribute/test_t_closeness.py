"""t-closeness."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Cells, ClassBlock, Facts, Histogram, Verdict, prepared
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.models import TCloseness
from privpipe.testing import block_of, facts_of, judged

SALARIES = [3, 4, 5, 6, 7, 8, 9, 10, 11]


def facts(values: pa.Array, counts: list[int]) -> Facts:
    return Facts(histograms={"it": Histogram(values, np.array(counts))})


def salary_table() -> tuple[Facts, list[list[int]]]:
    """Nine salaries, once each; classes {3, 4, 5}, {6, 8, 11} and {7, 9, 10}."""
    classes = [[3, 4, 5], [6, 8, 11], [7, 9, 10]]
    return facts(pa.array(SALARIES), [1] * 9), [[int(s in of) for s in SALARIES] for of in classes]


def test_ordered_distance_of_the_paper() -> None:
    """Source: Li, Li, Venkatasubramanian, ICDE 2007, section 4: D({3k,4k,5k}) = 0.375, D({6k,8k,11k}) = 0.167."""
    known, rows = salary_table()
    block = block_of(it=rows)
    scores = TCloseness(column="it", distance="ordered").scores(block, known)
    assert scores[:2].tolist() == pytest.approx([0.375, 1 / 6])


def test_equal_distance_of_the_same_table() -> None:
    known, rows = salary_table()
    assert judged(TCloseness(column="it"), block_of(it=rows), known).observed == pytest.approx(2 / 3)


def test_the_threshold_itself_passes() -> None:
    known, rows = salary_table()
    for t in (0.375, 2 / 3):
        model = TCloseness(column="it", t=t, distance="ordered" if t == 0.375 else "equal")
        assert judged(model, block_of(it=rows), known).passed
    verdict = judged(TCloseness(column="it", t=0.37, distance="ordered"), block_of(it=rows), known)
    assert (verdict.failing_classes, verdict.failing_records) == (1, 3)


def test_values_absent_from_a_class_count() -> None:
    known = facts(pa.array(["a", "b", "c"]), [2, 1, 1])
    block = block_of(it=[[2, 0, 0]])
    assert judged(TCloseness(column="it"), block, known).observed == 0.5


def test_two_values_have_one_distance() -> None:
    known = facts(pa.array([1, 2]), [3, 1])
    block = block_of(it=[[1, 1], [2, 0]])
    equal, ordered = (judged(TCloseness(column="it", distance=d), block, known).observed for d in ("equal", "ordered"))
    assert equal == ordered == 0.25


def test_one_class_is_at_no_distance() -> None:
    block = block_of(it=[[3, 1, 7]])
    for distance in ("equal", "ordered"):
        model = TCloseness(column="it", t=0, distance=distance)
        verdict = judged(model, block, facts_of(block))
        assert verdict.passed
        assert verdict.observed == pytest.approx(0, abs=1e-12)


def test_one_value_is_at_no_distance() -> None:
    block = block_of(it=[[3], [1]])
    assert judged(TCloseness(column="it", t=0, distance="ordered"), block, facts_of(block)).observed == 0


def test_a_listed_order_is_that_of_the_ranks() -> None:
    known = facts(pa.array(["high", "low", "middle"]), [1, 1, 1])
    block = block_of(it=[[1, 0, 0]])  # all of it high
    listed = TCloseness(column="it", distance="ordered", order=("low", "middle", "high"))
    assert judged(listed, block, known).observed == pytest.approx(0.5)
    by_text = TCloseness(column="it", distance="ordered", order="text")
    assert judged(by_text, block_of(it=[[0, 0, 1]]), known).observed == pytest.approx(0.5)
    assert judged(by_text, block_of(it=[[0, 1, 0]]), known).observed == pytest.approx(1 / 3)


def test_a_listed_value_that_the_base_lacks_takes_no_rank() -> None:
    known = facts(pa.array(["a", "c"]), [1, 1])
    block = block_of(it=[[1, 0]])
    narrow, wide = (TCloseness(column="it", distance="ordered", order=order) for order in (("a", "c"), ("a", "b", "c")))
    assert judged(narrow, block, known).observed == judged(wide, block, known).observed == 0.5


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (pa.array([7, 30, 200]), ("7", "30", "200")),
        (pa.array([7, 30, 200]), (7, 30, 200)),
        (pa.array([7.0, 30.5, 200.0]), (7, 30.5, 200.0)),
        (pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3)]), ("2024-01-01", "2024-01-02", "2024-01-03")),
        (pa.array([7, 30, 200]), None),
        (pa.array(["a", "b", "c"]), "text"),
    ],
)
def test_orders_of_typed_values(values: pa.Array, order: object) -> None:
    model = TCloseness(column="it", distance="ordered", order=order)
    assert judged(model, block_of(it=[[1, 0, 0]]), facts(values, [1, 1, 1])).observed == pytest.approx(0.5)


def test_numbers_as_text_sort_by_code_points() -> None:
    model = TCloseness(column="it", distance="ordered", order="text")
    known = facts(pa.array([7, 30, 200]), [1, 1, 1])  # as text: 200, 30, 7
    assert judged(model, block_of(it=[[0, 1, 0]]), known).observed == pytest.approx(1 / 3)


def test_two_orders_of_one_column_do_not_meet() -> None:
    """Figures of a block are remembered; the order is part of what was asked."""
    known, block = facts(pa.array(["a", "b", "c"]), [1, 1, 1]), block_of(it=[[1, 0, 0]])
    observed = [
        judged(TCloseness(column="it", distance="ordered", order=order), block, known).observed
        for order in (("a", "b", "c"), ("b", "a", "c"))
    ]
    assert observed == pytest.approx([1 / 2, 1 / 3])


def test_text_without_an_order_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'it' is text, which has no natural order"):
        judged(TCloseness(column="it", distance="ordered"), block_of(it=[[1]]), facts(pa.array(["secret"]), [1]))


def test_a_missing_value_has_no_rank() -> None:
    with pytest.raises(DataError, match="'it' has 4 missing values"):
        judged(TCloseness(column="it", distance="ordered"), block_of(it=[[1, 4]]), facts(pa.array([1, None]), [1, 4]))


def test_a_missing_value_is_a_value_of_equal_distance() -> None:
    known = facts(pa.array(["a", None]), [1, 1])
    assert judged(TCloseness(column="it"), block_of(it=[[0, 3]]), known).observed == 0.5


def test_values_that_the_order_leaves_out_are_counted_not_shown() -> None:
    model = TCloseness(column="it", distance="ordered", order=("a",))
    with pytest.raises(DataError, match="has 2 distinct values that its `order` does not list") as raised:
        judged(model, block_of(it=[[1, 1, 1]]), facts(pa.array(["a", "secret", "other"]), [1, 1, 1]))
    assert "secret" not in str(raised.value)


DISEASES = {
    "any": {
        "respiratory": {"infection": ["flu", "pneumonia"], "vascular": ["oedema"]},
        "digestive": {"colon": ["colitis"], "stomach": ["gastritis", "ulcer"]},
    }
}


def along(tree: object, values: list[object], counts: list[int], rows: list[list[int]], **more: object) -> Verdict:
    """The verdict along a tree, the facts prepared as an assessment does."""
    model = TCloseness(column="it", distance="hierarchical", hierarchy={"tree": tree}, **more)
    known = prepared(facts(pa.array(values), counts), [model])
    return judged(model, block_of(it=rows), known)


def test_hierarchical_distance_is_that_of_the_lowest_common_node() -> None:
    """Everyone has one of two values: half of the records move as far as the node that joins the two."""
    for pair, level in ((("flu", "pneumonia"), 1), (("flu", "oedema"), 2), (("flu", "ulcer"), 3)):
        held = sorted(pair)
        verdict = along(DISEASES, held, [1, 1], [[2, 0], [0, 2]])
        assert verdict.observed == pytest.approx(0.5 * level / 3)


def test_two_values_under_the_root_have_the_equal_distance() -> None:
    assert along({"any": ["a", "b"]}, ["a", "b"], [3, 1], [[2, 0], [1, 1]]).observed == 0.25


def test_values_of_the_tree_that_no_one_has_do_not_count() -> None:
    small, large = ({"any": ["a", "b"]}, {"any": ["a", "b", "c", "d"]})
    found = [along(tree, ["a", "b"], [1, 1], [[2, 0], [0, 2]]).observed for tree in (small, large)]
    assert found == [0.5, 0.5]


def test_a_missing_value_is_as_far_as_the_root() -> None:
    assert along(DISEASES, ["flu", None], [1, 1], [[2, 0], [0, 2]]).observed == 0.5


def test_one_class_is_exactly_the_base() -> None:
    verdict = along(DISEASES, ["colitis", "flu", "ulcer"], [3, 7, 11], [[3, 7, 11]], t=0.0)
    assert (verdict.observed, verdict.passed) == (0.0, True)


def test_a_value_outside_the_tree_is_counted_not_shown() -> None:
    with pytest.raises(DataError, match="1 distinct values") as raised:
        along(DISEASES, ["flu", "secret"], [1, 1], [[1, 1]])
    assert "secret" not in str(raised.value)


def test_the_declared_tree_serves_unless_the_guarantee_has_its_own() -> None:
    known = replace(
        facts(pa.array(["a", "b", "c"]), [1, 1, 1]),
        hierarchies={"it": HierarchySpec.from_mapping({"tree": {"any": {"x": ["a", "b"], "y": ["c"]}}}, column="it")},
    )
    declared = TCloseness(column="it", distance="hierarchical")
    own = TCloseness(column="it", distance="hierarchical", hierarchy={"tree": {"any": {"x": ["a", "c"], "y": ["b"]}}})
    learnt = prepared(known, [declared, own])
    assert not learnt.hierarchies, "files are where the driver is"
    block = block_of(it=[[1, 1, 0]])
    assert judged(declared, block, learnt).observed == pytest.approx(1 / 3)
    assert judged(own, block, learnt).observed == pytest.approx(1 / 4)


def test_each_guarantee_measures_along_its_own_tree() -> None:
    trees = ({"any": {"x": ["a", "b"], "y": ["c"]}}, {"any": {"x": ["a", "c"], "y": ["b"]}})
    models = [TCloseness(column="it", distance="hierarchical", hierarchy={"tree": tree}) for tree in trees]
    learnt = prepared(facts(pa.array(["a", "b", "c"]), [1, 1, 1]), models)
    block = block_of(it=[[1, 1, 0]])
    assert [judged(model, block, learnt).observed for model in models] == pytest.approx([1 / 3, 1 / 4])


@pytest.mark.parametrize(
    ("rows", "values"), [([["a", "x"], ["b", "y"]], ["a", "b"]), ([["a"]], ["a"])], ids=["two roots", "no level"]
)
def test_a_tree_ends_in_one_root_above_the_values(rows: list[list[str]], values: list[object]) -> None:
    model = TCloseness(column="it", distance="hierarchical", hierarchy={"rows": rows, "root": "optional"})
    with pytest.raises(DataError, match="must end in one root"):
        prepared(facts(pa.array(values), [1] * len(values)), [model])


def test_without_a_tree_it_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="declare its `hierarchy:`"):
        prepared(facts(pa.array(["a"]), [1]), [TCloseness(column="it", distance="hierarchical")])


def test_memory_is_that_of_the_cells() -> None:
    """100,000 values under 1,000 nodes, in classes of one record: a matrix would hold 10^10 numbers."""
    values = 100_000
    tree = {"any": {f"node {at}": [f"{value:06d}" for value in range(at, values, 1000)] for at in range(1000)}}
    model = TCloseness(column="it", distance="hierarchical", hierarchy={"tree": tree})
    histogram = Histogram(pa.array([f"{value:06d}" for value in range(values)]), np.ones(values, dtype=np.int64))
    known = prepared(Facts(histograms={"it": histogram}), [model])
    each = np.arange(values, dtype=np.int64)
    block = ClassBlock(
        np.ones(values, dtype=np.int64), {"it": Cells(np.arange(values + 1), each, np.ones(values, dtype=np.int64))}
    )
    verdict = judged(model, block, known)
    near, far = (100 - 1) / values, 1 - 100 / values
    assert verdict.observed == pytest.approx(near / 2 + far)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"t": -0.1}, "t must"),
        ({"t": 1.1}, "t must"),
        ({"t": True}, "t must"),
        ({"distance": "order"}, "did you mean 'ordered'"),
        ({"order": ("a",)}, "write distance: ordered"),
        ({"hierarchy": {"tree": {"any": ["a"]}}}, "write distance: hierarchical"),
        ({"distance": "hierarchical", "hierarchy": {"trees": {}}}, "tree"),
        ({"distance": "ordered", "order": "a"}, 'list of values or "text"'),
        ({"distance": "ordered", "order": 3}, 'list of values or "text"'),
        ({"distance": "ordered", "order": {"a": 1}}, 'list of values or "text"'),
        ({"distance": "ordered", "order": ()}, "at least one value"),
        ({"distance": "ordered", "order": (True,)}, "texts or numbers"),
        ({"distance": "ordered", "order": ("a", "a")}, "twice"),
        ({"base": "population"}, "base must be"),
        ({"base": {"path": "x"}}, "base must be"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        TCloseness(column="it", **parameters)


def test_one_value_spelt_twice_in_an_order() -> None:
    model = TCloseness(column="it", distance="ordered", order=(1, "1"))
    with pytest.raises(UsageError, match="lists a value twice"):
        judged(model, block_of(it=[[1]]), facts(pa.array([1]), [1]))


def test_an_order_and_a_base_come_through_a_policy() -> None:
    built = TCloseness.build(
        {"column": "it", "t": 1, "distance": "ordered", "order": ["a", "b"], "base": {"file": "base.csv"}}
    )
    assert built.order == ("a", "b")
    assert built.parameters()["base"].file == "base.csv"
    assert "base.BaseFile.path" in TCloseness.problems({"column": "it", "base": {"file": "a", "path": "b"}})

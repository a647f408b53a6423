"""Linkability through a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks.file_pair import TableFiles
from privpipe.draws import Stream
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.kernels.linkage.criteria import linked_by_chance
from privpipe.measures import LinkabilityAttack

from .gower_oracle import distance, linked, ranges, rows_of

Tables = Callable[[str], tuple[pa.Table, pa.Table, pa.Table]]


def mixed(rng: np.random.Generator, n: int, blanks: float = 0.15) -> pa.Table:
    """Two numbers and two texts of few values, with blanks, so that most distances tie."""

    def column(values: list[Any]) -> list[Any]:
        return [None if rng.random() < blanks else value for value in values]

    return pa.table(
        {
            "a": pa.array(column(rng.integers(0, 4, n).tolist()), pa.int64()),
            "b": pa.array(column(rng.integers(0, 3, n).tolist()), pa.int64()),
            "c": pa.array(column(rng.choice(["u", "v"], n).tolist()), pa.string()),
            "d": pa.array(column(rng.choice(["x", "y", "z"], n).tolist()), pa.string()),
        }
    )


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_links_are_those_of_the_definition_over_every_way_to_break_ties(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, h = mixed(rng, 12), mixed(rng, 9), mixed(rng, 7)
    known = (("a", "c"), ("b", "d"))
    observed = (
        LinkabilityAttack(known=known, neighbours=k, holdout="h")
        .judge_tables(TableFiles(original=x, released=y, holdout=h))
        .observed
    )
    sides = [ranges(rows_of(x), rows_of(y), names) for names in known]
    for name, table in (("hits", x), ("control_hits", h)):
        wanted = sum(linked(row, rows_of(y), sides, k) for row in rows_of(table))
        assert observed[name] == pytest.approx(float(wanted), rel=1e-9), name
    assert (observed["records"], observed["attacked"], observed["holdout"]) == (12, 12, 7)
    assert observed["success_upper"] == observed["success"], "every record was attacked"


def test_the_reference_figures(figures: dict[str, Any], tables: Tables) -> None:
    cases = [case for case in figures["cases"] if case["measure"] == "linkability_attack"]
    assert len(cases) == 14
    for case in cases:
        if case["data"] == "inline":
            files = TableFiles(original=pa.table(case["original"]), released=pa.table(case["released"]))
        else:
            x, y, h = tables(case["data"])
            files = TableFiles(original=x, released=y, holdout=h)
        entry = LinkabilityAttack(
            known=case["known"], neighbours=case["neighbours"], holdout=None if files.holdout is None else "h"
        )
        observed, wanted = entry.judge_tables(files).observed, case["expected"]
        assert observed["hits"] == pytest.approx(wanted["original"], rel=1e-9)
        if files.holdout is not None:
            assert observed["control_hits"] == pytest.approx(wanted["holdout"], rel=1e-9)
            assert observed["naive"] == pytest.approx(wanted["naive"], rel=1e-9)


def test_figures_do_not_depend_on_the_order_of_rows_or_on_names() -> None:
    rng = np.random.default_rng(3)
    x, y, h = mixed(rng, 60), mixed(rng, 50), mixed(rng, 40)
    entry = LinkabilityAttack(known=(("a", "c"), ("b", "d")), holdout="h", sample=25, neighbours=2)
    stream = Stream(bytes(range(16)))
    wanted = entry.judge_tables(TableFiles(original=x, released=y, holdout=h, order=stream)).observed
    assert wanted["attacked"] == 25
    shuffled = [table.take(rng.permutation(table.num_rows)) for table in (x, y, h)]
    files = TableFiles(original=shuffled[0], released=shuffled[1], holdout=shuffled[2], order=stream)
    assert entry.judge_tables(files).observed == pytest.approx(wanted)
    names = ['it\'s "a"', "select from", "b.c", "`d`"]
    strange = [table.rename_columns(names) for table in (x, y, h)]
    renamed = LinkabilityAttack(
        known=((names[0], names[2]), (names[1], names[3])), holdout="h", sample=25, neighbours=2
    ).judge_tables(TableFiles(original=strange[0], released=strange[1], holdout=strange[2], order=stream))
    assert renamed.observed == pytest.approx(wanted)
    assert LinkabilityAttack(known=(("a", "c"), ("b", "d")), holdout="h").judge_tables(files).observed["attacked"] == 60


def test_unrelated_categories_are_linked_by_chance_alone() -> None:
    """First-index ties elsewhere gave 0 of 500, or 1.8 % once the rows of the release were shuffled."""
    rng = np.random.default_rng(1)
    x, y = mixed(rng, 500, blanks=0), mixed(rng, 400, blanks=0)
    observed = LinkabilityAttack(known=(("c",), ("d",))).judge_tables(TableFiles(original=x, released=y)).observed
    assert observed["success"] == pytest.approx(1 / 400, rel=0.1)


def test_blanks_do_not_link_unrelated_records() -> None:
    """NaN distances in row order elsewhere: half of the targets were "linked" to row 0."""
    rng = np.random.default_rng(2)
    n = 200
    blank = [None if at % 2 else float(at) for at in range(n)]
    x = pa.table({"a": blank, "b": blank})
    y = pa.table({"a": rng.normal(0, 50, n).tolist(), "b": rng.normal(0, 50, n).tolist()})
    observed = LinkabilityAttack(known=(("a",), ("b",))).judge_tables(TableFiles(original=x, released=y)).observed
    assert observed["success"] < 0.03


def test_a_verbatim_copy_is_refused_and_other_people_pass() -> None:
    rng = np.random.default_rng(5)

    def people(n: int) -> pa.Table:
        return pa.table({name: rng.normal(0, 1, n).round(2).tolist() for name in "abcd"})

    x, h = people(400), people(300)
    entry = LinkabilityAttack(known=(("a", "b"), ("c", "d")), holdout="h", at_most=0.05)
    copy = entry.judge_tables(TableFiles(original=x, released=x, holdout=h))
    assert copy.outcome == "fail"
    assert copy.observed["excess_upper"] > 0.9
    assert "at least" in copy.reason
    few = entry.judge_tables(
        TableFiles(original=x, released=pa.concat_tables([people(340), x.slice(0, 60)]), holdout=h)
    )
    assert few.outcome == "fail"
    assert few.observed["excess"] == pytest.approx(0.15, abs=0.03)


def test_a_holdout_moves_no_range_and_may_lie_outside() -> None:
    x, y = pa.table({"a": [0, 10], "b": [0, 10]}), pa.table({"a": [0, 10, 5], "b": [0, 10, 5]})
    h = pa.table({"a": [1000, 0], "b": [0, 0]})
    observed = (
        LinkabilityAttack(known=(("a",), ("b",)), holdout="h")
        .judge_tables(TableFiles(original=x, released=y, holdout=h))
        .observed
    )
    assert (observed["hits"], observed["control_hits"]) == (2.0, 1.0)


TREE = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"], "Asia": ["Pune"]}}, column="town")


def test_labels_are_at_distance_0_of_what_they_cover() -> None:
    files = TableFiles(
        original=pa.table({"town": ["Bonn", "Pune"], "age": [20, 40]}),
        released=pa.table({"town": ["Europe", "Asia", "Europe"], "age": ["[0, 30[", "[30, 60[", "[30, 60["]}),
        hierarchies={"town": TREE},
    )
    observed = LinkabilityAttack(known=(("town",), ("age",))).judge_tables(files).observed
    assert observed["hits"] == pytest.approx(1 / 2 + 1 / 2)


def test_outliers_are_attacked_where_asked() -> None:
    rng = np.random.default_rng(8)
    far = pa.table({"a": [900.0, 950.0], "b": [900.0, 850.0]})
    near = pa.table({"a": rng.normal(0, 1, 98).tolist(), "b": rng.normal(0, 1, 98).tolist()})
    x = pa.concat_tables([far, near])
    y = pa.concat_tables([far, pa.table({"a": rng.normal(0, 1, 98).tolist(), "b": rng.normal(0, 1, 98).tolist()})])
    h = pa.table({"a": rng.normal(0, 1, 100).tolist(), "b": rng.normal(0, 1, 100).tolist()})
    entry = LinkabilityAttack(known=(("a",), ("b",)), holdout="h", targets="outliers", outlier_share=0.02)
    verdict = entry.judge_tables(TableFiles(original=x, released=y, holdout=h))
    assert (verdict.observed["attacked"], verdict.observed["controls"], verdict.observed["success"]) == (2, 2, 1.0)
    assert "farthest" in verdict.reason
    everyone = LinkabilityAttack(known=(("a",), ("b",)), holdout="h").judge_tables(
        TableFiles(original=x, released=y, holdout=h)
    )
    assert everyone.observed["success"] < 0.2, "means hide them"


def test_outliers_are_those_whose_nearest_other_original_is_farthest() -> None:
    rng = np.random.default_rng(13)
    known = (("a",), ("b",))

    def table(n: int) -> pa.Table:
        return pa.table({name: rng.integers(0, 10**6, n).tolist() for name in "ab"})

    x, y, h = table(25), table(30), table(20)
    entry = LinkabilityAttack(known=known, holdout="h", targets="outliers", outlier_share=0.2, neighbours=6)
    verdict = entry.judge_tables(TableFiles(original=x, released=y, holdout=h))
    first, second, third = rows_of(x), rows_of(y), rows_of(h)
    whole = ranges(first, second, ("a", "b"))
    sides = [ranges(first, second, names) for names in known]
    apart = [min(distance(row, other, whole) for other in first if other is not row) for row in first]
    beside = [min(distance(row, other, whole) for other in first) for row in third]
    for name, rows, far, count in (("hits", first, apart, 5), ("control_hits", third, beside, 4)):
        chosen = sorted(range(len(rows)), key=lambda at: -far[at])[:count]
        assert verdict.observed[name] == pytest.approx(float(sum(linked(rows[at], second, sides, 6) for at in chosen)))
    assert (verdict.observed["attacked"], verdict.observed["controls"]) == (5, 4)
    assert "keyed sample" not in verdict.reason, "every original was looked at"
    alone = LinkabilityAttack(known=known, targets="outliers", outlier_share=0.2)
    single = alone.judge_tables(TableFiles(original=x.slice(0, 1), released=y))
    assert single.observed["attacked"] == 1, "who has no other is the farthest"


def test_labels_that_cover_the_same_people_tell_no_rows_apart() -> None:
    towns = pa.table({"town": ["Bonn", "Graz"], "age": [20, 40]})

    def verdict(labels: list[str]) -> Any:
        released = pa.table({"town": labels, "age": [20, 40]})
        files = TableFiles(original=towns, released=released, hierarchies={"town": TREE})
        return LinkabilityAttack(known=(("town",), ("age",))).judge_tables(files)

    assert "no column of town distinguishes rows" in verdict(["Europe", "*"]).reason
    assert verdict(["Europe", "Asia"]).outcome == "pass"


NOTHING: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"figure": "excess"}, {}, "needs a holdout"),
    (
        {"holdout": "h"},
        {"holdout": pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())})},
        "needs a",
    ),
    ({}, {"released": pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())})}, "holds no row"),
    ({}, {"original": pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())})}, "no record to attack"),
    ({}, {"released": pa.table({"a": [4, 4], "b": [1, 2]})}, "no column of a distinguishes rows"),
    ({}, {"released": pa.table({"a": [1, 2, 3], "b": [3, 1, 2]})}, "broken"),
    ({"holdout": "h"}, {"holdout": pa.table({"a": [1], "b": [1]})}, "nothing is left to exceed"),
]


@pytest.mark.parametrize(("parameters", "tables_", "reason"), NOTHING, ids=[each[2] for each in NOTHING])
def test_what_proves_nothing_is_an_error(parameters: dict[str, Any], tables_: dict[str, Any], reason: str) -> None:
    same = pa.table({"a": [1, 2, 3], "b": [1, 2, 3]})
    files = TableFiles(**{"original": same, "released": same, **tables_})
    verdict = LinkabilityAttack(known=(("a",), ("b",)), at_most=1.0, **parameters).judge_tables(files)
    assert verdict.outcome == "error"
    assert reason in verdict.reason


ILL: list[dict[str, Any]] = [
    {"known": [["a"]]},
    {"known": [["a"], []]},
    {"known": [["a"], ["a", "b"]]},
    {"known": [["a", "a"], ["b"]]},
    {"known": "ab"},
    {"known": [["a"], ["b"]], "neighbours": 0},
    {"known": [["a"], ["b"]], "neighbours": 11},
    {"known": [["a"], ["b"]], "at_most": 1.5},
    {"known": [["a"], ["b"]], "figure": "risk"},
    {"known": [["a"], ["b"]], "targets": "some"},
    {"known": [["a"], ["b"]], "outlier_share": 0},
    {"known": [["a"], ["b"]], "sample": 0},
]


@pytest.mark.parametrize("parameters", ILL, ids=repr)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        LinkabilityAttack(**parameters)


def test_more_neighbours_than_rows_link_everybody() -> None:
    table = pa.table({"a": [1, 2], "b": [1, 2]})
    observed = (
        LinkabilityAttack(known=(("a",), ("b",)), neighbours=5)
        .judge_tables(TableFiles(original=table, released=table))
        .observed
    )
    assert (observed["success"], observed["naive"], observed["neighbours"]) == (1.0, 1.0, 2)
    assert linked_by_chance(2, 5) == 1.0

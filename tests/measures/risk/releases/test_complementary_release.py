"""Releases that are safe alone and split persons together.

Source: reference/torra.json (slides after L. Sweeney, 2002): two tables of twelve records; the example of the
persons a to f is that of the definition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.blocks.release_history import EarlierTables, ReleaseHistory, ReleaseRows
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.kernels.classes.joins import combined_sizes, signatures, values_left
from privpipe.measures import ComplementaryRelease
from privpipe.measures.risk.releases.joined_releases import Joined, joined, relation_of
from tests.tiers import at_most

KEYS = ["race", "birth", "gender", "zip"]


def hashed(items: list[Any]) -> np.ndarray:
    """Two words an item, as a ledger holds them."""
    seen: dict[Any, int] = {}
    numbers = [seen.setdefault(item, len(seen)) for item in items]
    return np.array([[number, 7 * number + 1] for number in numbers], dtype=np.int64).reshape(-1, 2)


def rows_of(release: dict[Any, Any], values: dict[Any, Any] | None = None) -> ReleaseRows:
    units = hashed([*"abcdefghijklmnopqrstuvwxyz"])
    index = {name: at for at, name in enumerate("abcdefghijklmnopqrstuvwxyz")}
    own = np.array([units[index[name]] for name in release], dtype=np.int64).reshape(-1, 2)
    told = None if values is None else hashed([0, 1, 2, 3])[[values[name] for name in release]]
    return ReleaseRows(own, hashed(list(release.values())), np.ones(len(release), dtype=np.int64), told)


def test_the_worked_tables(torra: dict[str, Any]) -> None:
    worked = torra["worked_examples"]["complementary_release"]
    tables = [[tuple(row[at] for at in worked["qi"]) for row in worked[name]] for name in ("release_1", "release_2")]
    units, ones = hashed(list(range(12))), np.ones(12, dtype=np.int64)
    releases = [ReleaseRows(units, hashed(rows), ones) for rows in tables]
    codes, weights, numbers = signatures([units, units], [r.classes for r in releases], [ones, ones], persons=True)
    assert (
        combined_sizes(codes, weights, presence_known=True)[numbers[:12]].tolist()
        == (worked["combined_class_sizes_same_person_same_row"])
    )
    alone = [ComplementaryRelease(ledger="l", k=2).judge_history(ReleaseHistory(current=rows)) for rows in releases]
    assert [verdict.observed["k"] for verdict in alone] == [worked["k_1"], worked["k_2"]]
    assert all(verdict.passed for verdict in alone)
    both = ReleaseHistory(current=releases[1], earlier=(releases[0],))
    for presence in ("known", "unknown"):  # everyone is in both, so that it makes no difference
        verdict = ComplementaryRelease(ledger="l", k=2, presence=presence).judge_history(both)
        assert (verdict.outcome, verdict.observed["k"]) == ("fail", worked["combined_k"])
        assert verdict.observed["below"] == 2


TREES = {
    "race": {"tree": {"person": ["black", "white"]}},
    "birth": {"tree": {"1960-69": ["1964", "1965", "1967"]}},
    "gender": {"tree": {"human": ["male", "female"]}},
    "zip": {"redact": {"keep": "left"}},
}


def test_the_worked_tables_as_anybody_has_them(torra: dict[str, Any], tmp_path: Path) -> None:
    worked = torra["worked_examples"]["complementary_release"]
    names = [*KEYS, "problem"]
    first, second = (
        pa.table({name: [row[at] for row in worked[side]] for at, name in enumerate(names)})
        for side in ("release_1", "release_2")
    )
    pyarrow.csv.write_csv(first, tmp_path / "first.csv")
    policy: dict[str, Any] = {
        "columns": {
            **{name: {"role": "quasi_identifier", "hierarchy": TREES[name]} for name in KEYS},
            "problem": {"role": "insensitive"},
        },
        "guarantees": [{"complementary_release": {"earlier": [str(tmp_path / "first.csv")], "k": 2}}],
    }
    (verdict,) = pp.assess(second, policy).verdicts
    assert verdict.outcome == "fail"
    assert verdict.observed["linked"] == worked["rows_linked_uniquely_by_problem_and_compatible_region"] / 12
    assert verdict.observed["joined_k"] == worked["combined_k"]
    assert verdict.observed["crossing"] > 0
    (same,) = pp.assess(first, policy).verdicts
    assert (same.outcome, same.observed["k"], same.observed["crossing"]) == ("pass", 2, 0)
    coarser = first.set_column(0, "race", pa.array(["person"] * 12)).set_column(3, "zip", pa.array(["*"] * 12))
    (verdict,) = pp.assess(coarser, policy).verdicts
    assert (verdict.outcome, verdict.observed["crossing"]) == ("pass", 0)


def test_the_persons_of_the_definition() -> None:
    one, two = rows_of(dict.fromkeys("abc", "A")), rows_of({"a": "C", "b": "C", "d": "C", "e": "D", "f": "D"})
    history = ReleaseHistory(current=two, earlier=(one,))
    known = ComplementaryRelease(ledger="l", k=2).judge_history(history)
    assert (known.outcome, known.observed) == ("fail", {"k": 1, "releases": 2, "below": 1})
    unknown = ComplementaryRelease(ledger="l", k=2, presence="unknown").judge_history(history)
    assert (unknown.outcome, unknown.observed["k"]) == ("pass", 2)


def test_values_that_several_releases_give_away() -> None:
    people = "abcd"
    one = rows_of(dict.fromkeys(people, "A"), dict(zip(people, [0, 0, 1, 1], strict=True)))
    two = rows_of(dict(zip(people, "CCCC", strict=True)), dict(zip(people, [0, 2, 2, 2], strict=True)))
    measure = ComplementaryRelease(ledger="l", k=2, sensitive="illness")
    verdict = measure.judge_history(ReleaseHistory(current=two, earlier=(one,)))
    assert (verdict.outcome, verdict.observed["k"]) == ("fail", 4)
    assert (verdict.observed["l"], verdict.observed["values_left"]) == (2, 1)  # only value 0 is in both classes
    assert measure.judge_history(ReleaseHistory(current=one)).passed
    changed = rows_of(dict(zip(people, "CCCC", strict=True)), dict(zip(people, [2, 2, 3, 3], strict=True)))
    verdict = measure.judge_history(ReleaseHistory(current=changed, earlier=(one,)))
    assert (verdict.outcome, verdict.observed["values_changed"]) == ("pass", 4)


def test_persons_who_all_have_a_value_have_that_one_alone() -> None:
    """A ledger that follows persons counts the sets of their values, as l-diversity does; combinations their values."""
    words, illnesses = hashed(list("aabbcc")), hashed([0, 1, 2, 3])
    visits = ReleaseRows(words, hashed(["A"] * 6), np.ones(6, dtype=np.int64), illnesses[[0, 1, 0, 2, 0, 3]])
    measure = ComplementaryRelease(ledger="l", k=3, sensitive="illness")
    verdict = measure.judge_history(ReleaseHistory(current=visits))
    assert (verdict.outcome, verdict.observed["k"], verdict.observed["l"]) == ("fail", 3, 1)
    apart = replace(visits, values=illnesses[[0, 1, 0, 1, 2, 3]])
    verdict = measure.judge_history(ReleaseHistory(current=apart))
    assert (verdict.outcome, verdict.observed["l"]) == ("pass", 2)  # {0, 1} twice, and {2, 3}
    assert measure.judge_history(ReleaseHistory(current=visits, persons=False)).observed["l"] == 4


def test_values_of_another_column_are_not_a_change() -> None:
    """One ledger, and a release between that remembered another column: what the others give away stays given away."""
    people = "abcd"
    one = replace(
        rows_of(dict.fromkeys(people, "A"), dict(zip(people, [0, 0, 1, 1], strict=True))), sensitive="illness"
    )
    other = replace(rows_of(dict.fromkeys(people, "B"), dict.fromkeys(people, 3)), sensitive="smoker")
    two = replace(
        rows_of(dict.fromkeys(people, "C"), dict(zip(people, [0, 2, 2, 2], strict=True))), sensitive="illness"
    )
    measure = ComplementaryRelease(ledger="l", k=2, sensitive="illness")
    for earlier in ((one,), (one, other), (other, one), (replace(one, sensitive="diagnosis"), other)):
        verdict = measure.judge_history(ReleaseHistory(current=two, earlier=earlier))
        assert (verdict.outcome, verdict.observed["values_left"]) == ("fail", 1), earlier


releases = st.lists(st.lists(st.integers(-1, 2), min_size=7, max_size=7), min_size=1, max_size=4)


@settings(max_examples=at_most(40), deadline=None)
@given(releases)
def test_combined_sizes_are_those_of_the_definition(vectors: list[list[int]]) -> None:
    people = [person for person in range(7) if any(release[person] >= 0 for release in vectors)]
    if not people:
        return
    held = [[person for person in people if release[person] >= 0] for release in vectors]
    units = hashed(list(range(7)))
    codes, weights, numbers = signatures(
        [units[there].reshape(-1, 2) for there in held],
        [
            hashed([0, 1, 2])[[release[person] for person in there]].reshape(-1, 2)
            for release, there in zip(vectors, held, strict=True)
        ],
        [np.ones(len(there), dtype=np.int64) for there in held],
        persons=True,
    )
    order = [person for there in held for person in there]
    places = {person: int(numbers[at]) for at, person in enumerate(order)}
    known, unknown = (combined_sizes(codes, weights, presence_known=flag) for flag in (True, False))

    def sig(person: int) -> tuple[int, ...]:
        return tuple(release[person] for release in vectors)

    for i in people:
        assert known[places[i]] == sum(sig(j) == sig(i) for j in people)
        alike = 0
        for j in people:
            both = [(a, b) for a, b in zip(sig(i), sig(j), strict=True) if a >= 0 and b >= 0]
            alike += bool(both) and all(a == b for a, b in both)
        assert unknown[places[i]] == alike
        assert known[places[i]] <= unknown[places[i]]


def test_persons_with_several_records_and_combinations() -> None:
    units, classes = hashed([0, 0, 1, 1, 2]), hashed(["A", "B", "B", "A", "A"])
    ones = np.ones(5, dtype=np.int64)
    codes, weights, _ = signatures([units], [classes], [ones], persons=True)
    assert sorted(combined_sizes(codes, weights, presence_known=True).tolist()) == [1, 2, 2]
    codes, weights, _ = signatures([units], [classes], [np.array([3, 1, 1, 1, 4])], persons=False)
    assert sorted(combined_sizes(codes, weights, presence_known=True).tolist()) == [4, 6, 6]


def test_a_release_of_one_class_tells_no_one_apart() -> None:
    units, classes, records = hashed([0, 1, 2, 0]), hashed([5] * 4), np.array([1, 2, 3, 4])
    codes, weights, numbers = signatures([units], [classes], [records], persons=False)
    assert codes.tolist() == [[0]] * 3
    assert weights[numbers].tolist() == [[5], [2], [3], [5]]
    assert combined_sizes(codes, weights, presence_known=True).tolist() == [10] * 3


def test_how_labels_lie_to_one_another() -> None:
    def related(one: str | None, other: str | None, spec: Any = None) -> tuple[bool, ...]:
        return tuple(bool(flags[0, 0]) for flags in relation_of([one], [other], spec))

    apart, crossing, inside, around, same = (
        (False, False, False), (True, False, False), (True, True, False), (True, False, True), (True, True, True)
    )  # fmt: skip
    for one, other, wanted in (
        ("[10, 20[", "[20, 30[", apart), ("[10, 20]", "[20, 30[", crossing), ("15", "[10, 20[", inside),
        ("<30", "[10, 30[", around), (">=10", "[10, 20[", around), ("[10, 20[", "[10, 20[", same),
        ("0213*", "02138", around), ("0213*", "02148", apart), ("021**", "0213*", around), ("*", "x", around),
        ("10-19", "[10, 20[", same), ("10-19", "20-29", apart), ("10-19", "15-24", crossing), ("12", "10-19", inside),
        ("[10, 20)", "20 to under 30", apart), ("under 10", "0-9", around), ("30 or more", ">=30", same),
        ("-10 to -1", "-5", around), ("0-4", "a", crossing), ("2024-05", "2024-06", crossing), ("5-1", "1-5", crossing),
        ("a", "b", crossing), (None, "a", crossing), (None, "5", crossing), (None, None, same),
        ("{a, b}", "a", crossing), ("2024-05-03", "2024-05-04", apart), ("true", "false", apart),
        ("2024-05-03", "2024-05-03 10:00", crossing), ("2024", "2024-05-03", crossing), ("196*", "aged", crossing),
    ):  # fmt: skip
        assert related(one, other) == wanted, (one, other)
    bands = HierarchySpec.from_mapping({"bands": {"steps": [5, 10]}}, column="age")
    assert related("10-14", "10-19", bands) == inside
    tree = HierarchySpec.from_mapping(TREES["race"], column="race")
    assert related("person", "black", tree) == around
    assert related("black", "white", tree) == apart
    assert related("mulatto", "white", tree) == crossing  # nothing is known of it
    grouped = HierarchySpec.from_mapping({"priority": {"levels": 2, "order": "frequency"}}, column="town")
    assert related("other", "Crewe", grouped) == crossing


def test_a_text_of_both_tables_is_a_value_and_no_other_is() -> None:
    """`person` of one table may be `white` of the other; `male` and `female` of both are apart."""
    overlap, inside, around = relation_of(["white", "male", None], ["person", "male", "female", None], None)
    assert overlap.tolist() == [[True] * 4, [True, True, True, False], [True, False, True, True]]
    same = [[False] * 4, [False, True, False, False], [False, False, False, True]]
    assert inside.tolist() == around.tolist() == same


LINKED = pd.DataFrame(
    [("black", "1965", "male", "02141")] * 2 + [("black", "1965", "female", "02138")] * 2
    + [("black", "1964", "female", "02138")] * 2 + [("white", "1964", "male", "02138")]
    + [("white", "1964", "male", "02139")] * 2 + [("white", "1967", "male", "02138")] * 2,
    columns=["race", "birth", "sex", "zip"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "outcome", "said"),
    [
        ({"zip": "0213*"}, {"race": "person"}, "error", "0 of 11 records of this release have a label of 'race'"),
        ({"race": "person"}, {"birth": "196*"}, "error", "0 of 11 records of this release have a label of 'race'"),
        ({"zip": "0213*"}, {"birth": "196*"}, "fail", "neither inside the other"),
        ({}, {}, "pass", ""),
    ],
)  # fmt: skip
def test_labels_that_nothing_explains_are_not_a_pass(
    engine: Engine, tmp_path: Path, first: dict[str, str], second: dict[str, str], outcome: str, said: str
) -> None:
    """Without hierarchies: white, male, 1964, 02138 is one person, and two tables that hide it do so apart alone."""
    if engine.name == "spark" and outcome != "error":
        pytest.skip("an error says it on Spark")
    LINKED.assign(**first).to_parquet(tmp_path / "first.parquet")
    model = ComplementaryRelease(earlier=(str(tmp_path / "first.parquet"),), k=1)
    found = pp.assess(LINKED.assign(**second), model, quasi_identifiers=list(LINKED), engine=engine.name)
    verdict = found.verdicts[0]
    assert (verdict.outcome, said in verdict.reason) == (outcome, True)
    if outcome == "error":
        assert "declare the hierarchy" in verdict.reason


@pytest.mark.parametrize("side", ["released", "earlier"])
def test_suppressed_records_alone_are_an_error(engine: Engine, tmp_path: Path, side: str) -> None:
    if engine.name == "spark" and side == "earlier":
        pytest.skip("one side says it on Spark")
    gone = pd.DataFrame("*", index=LINKED.index, columns=LINKED.columns)
    now, before = (gone, LINKED) if side == "released" else (LINKED, gone)
    before.to_parquet(tmp_path / "first.parquet")
    model = ComplementaryRelease(earlier=(str(tmp_path / "first.parquet"),), k=2)
    found = pp.assess(now, model, quasi_identifiers=list(LINKED), engine=engine.name)
    assert found.verdicts[0].outcome == "error"
    assert "suppressed" in found.verdicts[0].reason


@pytest.mark.parametrize("beside", ["16", "flat 3", "unknown", "other"])
def test_numbers_with_a_dash_are_ranges_whatever_is_next_to_them(beside: str) -> None:
    overlap, _, around = relation_of(["12-15", beside], ["13-14", "12-17", "15", "20-30"], None)
    assert overlap[0].tolist() == [True, True, True, False]
    assert around[0].tolist() == [True, False, True, False]


@pytest.mark.parametrize("unknown", [[], ["unknown"] * 4])
def test_no_word_next_to_ranges_hides_that_two_tables_cross(tmp_path: Path, unknown: list[str]) -> None:
    """40-59 of one release and 45-64 of the next have those of 45 to 59 in common, and 40 to 44 apart."""
    earlier = str(tmp_path / "earlier.csv")
    pd.DataFrame({"age": ["45-64"] * 4 + unknown}).to_csv(earlier, index=False)
    released = pd.DataFrame({"age": ["40-59"] * 4 + unknown})
    model = ComplementaryRelease(earlier=(earlier,), k=2)
    verdict = pp.assess(released, model, quasi_identifiers=["age"]).verdicts[0]
    assert (verdict.outcome, verdict.observed["crossing"]) == ("fail", 1)


def test_ill_formed_parameters_are_refused() -> None:
    for wrong in (
        {}, {"ledger": "l", "earlier": ("x",)}, {"ledger": "l", "k": 0}, {"ledger": "l", "key": {"literal": "x"}},
        {"earlier": ("x",), "key": {"from_env": "X"}}, {"earlier": "x"}, {"ledger": "l", "presence": "maybe"},
        {"earlier": ("x",), "sensitive": "illness"}, {"ledger": "l", "l": 0},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            ComplementaryRelease(**wrong)
    assert Counter(type(example).__name__ for example in ComplementaryRelease.examples()) == {"ComplementaryRelease": 3}


def test_labels_of_large_integers_are_distinguished() -> None:
    """Beyond 2^53 neighbours are one double: taken for one another, two persons would hide behind each other."""
    n = 2**60
    overlap, inside, _ = relation_of([str(n + 1), f"[{n}, {n + 2}["], [str(n + 2), str(n + 1), f">={n + 2}"], None)
    assert overlap.tolist() == [[False, True, False], [False, True, False]]
    assert inside.tolist() == [[False, True, False], [False, False, False]]


def beside(current: dict[str, list[Any]], earlier: dict[str, list[Any]]) -> Any:
    sides = (pa.table(side) for side in (current, earlier))
    tables = EarlierTables(
        current=next(sides), earlier=(next(sides),), keys=("age", "zip"), joined=("job", "nick", "height")
    )
    return joined(tables, 0)


def test_a_column_that_a_release_lacks_may_be_anything_there() -> None:
    """Who is 40 is of one zip code or the other: each class of the finer table is in the one of the coarser."""
    coarse: dict[str, list[Any]] = {"age": ["40"], "job": ["nurse"], "height": ["tall"], "__count": [3]}
    fine: dict[str, list[Any]] = {"age": ["40"] * 2, "zip": ["1", "2"], "job": ["nurse", "smith"], "nick": ["a", "b"]}
    fine["__count"] = [1, 2]
    # The three nurses are like one earlier row, by what both tables show; the earlier nurse is like three.
    assert beside(coarse, fine) == Joined(crossing=0, smallest=1, linked=1.0, joined_k=3)
    assert beside(fine, coarse) == Joined(crossing=0, smallest=1, linked=0.0, joined_k=0)
    by_zip: dict[str, list[Any]] = {"zip": ["1"], "job": ["cook"], "__count": [5]}
    assert beside(coarse, by_zip) == Joined(crossing=1, smallest=3, linked=0.0, joined_k=0)
    assert beside(by_zip, coarse) == Joined(crossing=1, smallest=3, linked=0.0, joined_k=0)


def test_the_least_of_all_classes_counts() -> None:
    people = "abcdef"
    values = dict(zip(people, [0, 1, 2, 0, 1, 1], strict=True))
    one = rows_of(dict(zip(people, "AAABBB", strict=True)), values)
    verdict = ComplementaryRelease(ledger="l", k=2, l=3, sensitive="illness").judge_history(ReleaseHistory(current=one))
    assert (verdict.outcome, verdict.observed["l"]) == ("fail", 2)


def test_a_value_with_the_name_of_a_group_is_apart_from_none_of_its_members() -> None:
    """`a` of one release may be the town or the region of a and b; who is of b in the other may be there, or not."""
    rows = [["a", "a", "*"], ["b", "a", "*"], ["c", "c", "*"], ["d", "e", "*"], ["f", "e", "*"]]
    spec = HierarchySpec.from_mapping({"rows": rows}, column="town")
    overlap, inside, around = relation_of(["a", "b", "c", "d"], ["a", "b", "c", "e"], spec)
    assert overlap.tolist() == [
        [True, True, False, False], [True, True, False, False], [False, False, True, False], [False, False, False, True]
    ]  # fmt: skip
    same = [[True, False, False, False], [False, True, False, False], [False, False, True, False]]
    assert inside.tolist() == [*same, [False, False, False, True]]
    assert around.tolist() == [*same, [False] * 4]


def test_two_names_for_the_same_values_are_in_one_another() -> None:
    spec = HierarchySpec.from_mapping({"rows": [["a", "north", "*"], ["b", "south", "*"]]}, column="town")
    for flags in relation_of(["a"], ["north", "south"], spec):
        assert flags.tolist() == [[True, False]]


def test_a_unit_that_no_release_shows_a_value_of_has_none_left() -> None:
    """Absent from all releases, or only in one without the column."""
    rows = np.array([0, 0]), np.array([5, 6])
    assert values_left(np.array([[-1, -1], [0, -1]]), [rows, rows]).tolist() == [0, 2]
    assert values_left(np.array([[0, -1]]), [None, rows]).tolist() == [0]

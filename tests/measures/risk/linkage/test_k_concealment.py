"""k-concealment, compared with all assignments of small tables written out."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks.file_pair import DistinctPair
from privpipe.blocks.verdict import Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import assess
from privpipe.judging.assessment import founded
from privpipe.measures import KConcealment, KConfusion
from privpipe.measures.risk.linkage import k_concealment
from privpipe.models import KAnonymity
from privpipe.testing import HostileTable
from tests.gathering import gathered
from tests.hostile_kinds import on_every_engine

from ..joined import judged

VALUES = {"town": ["a", "b", "c"], "job": ["x", "y", "z"]}
Row = tuple[Any, ...]


def covered(label: Any, value: Any) -> bool:
    """Written from the definition, over labels that this file makes."""
    if label == "*":
        return True
    return value in label[1:-1].split(", ") if isinstance(label, str) and label.startswith("{") else label == value


def by_definition(original: list[Row], released: list[Row]) -> dict[str, int] | None:
    """Fewest partners over all assignments, and over consistent pairs; None where no assignment is complete."""
    fits = [[all(map(covered, shown, own)) for shown in released] for own in original]
    pairs: set[tuple[int, int]] = set()
    for chosen in permutations(range(len(original)), len(released)):
        if all(fits[row][column] for column, row in enumerate(chosen)):
            pairs |= {(row, column) for column, row in enumerate(chosen)}
    if not pairs:
        return None
    matched = [sum((row, column) in pairs for column in range(len(released))) for row in range(len(original))]
    found = {
        "concealment": min(each for each in matched if each),
        "one_k": min(sum(row) for row in fits if any(row)),
        "k_one": min(sum(column) for column in zip(*fits, strict=True)),
    }
    return {**found, "k_k": min(found["one_k"], found["k_one"])}


def label(draw: random.Random, column: str, value: str) -> str:
    values = sorted({value, *draw.sample(VALUES[column], draw.choice([0, 0, 1, 2]))})
    return draw.choice(["*", value]) if len(values) == 1 else "{" + ", ".join(values) + "}"


def small_tables(seed: int, others: float = 0.1) -> tuple[list[Row], list[Row]]:
    """A table of up to six records and a release of some of them; now and then one of other records."""
    draw = random.Random(seed)
    n = draw.randint(1, 6)
    original = [tuple(draw.choice(VALUES[name]) for name in VALUES) for _ in range(n)]
    base = original
    if draw.random() < others:
        base = [tuple(draw.choice(VALUES[name]) for name in VALUES) for _ in range(n)]
    kept = draw.sample(base, draw.randint(max(1, n - 1), n))
    released = [tuple(label(draw, name, value) for name, value in zip(VALUES, row, strict=True)) for row in kept]
    # A row of marks alone is a suppressed record, which the judge leaves out.
    return original, [row if set(row) != {"*"} else ("{a, b, c}", "*") for row in released]


def tabled(rows: list[Row], names: Any = VALUES) -> pa.Table:
    return pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(names)})


def counted(table: pa.Table) -> pa.Table:
    ones = table.append_column("__count", pa.array([1] * table.num_rows, pa.int64()))
    sums = ones.group_by(table.column_names).aggregate([("__count", "sum")])
    return sums.rename_columns([*table.column_names, "__count"])


def alone(entry: KConcealment, original: pa.Table, released: pa.Table, **more: Any) -> Verdict:
    pair = DistinctPair(
        keys=tuple(original.column_names), original=counted(original), released=counted(released), **more
    )
    return founded(entry.judge_tables(pair), released.num_rows)


@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_all_assignments(seed: int) -> None:
    judged_tables = 0
    for number in range(100):
        original, released = small_tables(100 * seed + number)
        verdict, expected = alone(KConcealment(), tabled(original), tabled(released)), by_definition(original, released)
        if expected is None:
            assert verdict.outcome == "error", (original, released)
        else:
            assert verdict.observed == expected, (original, released)
            judged_tables += 1
    assert judged_tables > 85


@pytest.mark.parametrize("kind", ["concealment", "k_k", "one_k", "k_one"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_threshold_is_compared_with_its_kind(kind: Any, k: int) -> None:
    for seed in range(12):
        original, released = small_tables(seed, others=0)
        expected = by_definition(original, released)
        verdict = alone(KConcealment(k=k, kind=kind), tabled(original), tabled(released))
        assert expected is not None
        assert verdict.outcome == ("pass" if expected[kind] >= k else "fail")
        assert (verdict.failing_records == 0) == (expected[kind] >= k)


def test_every_engine_gives_the_figures_of_the_definition(engine: Engine) -> None:
    for seed in range(3):
        original, released = small_tables(seed, others=0)
        verdict = judged(engine, KConcealment(), tabled(original), tabled(released))
        assert verdict.observed == by_definition(original, released)


def test_consistent_pairs_are_more_than_concealment_leaves() -> None:
    """Two consistent records on either side, and yet one assignment alone: (2, 2)-anonymous and not concealed."""
    original = [("a",), ("b",), ("c",), ("d",)]
    released = [("{a, b}",), ("{a, b, c}",), ("{c, d}",), ("{c, d}",)]
    verdict = alone(KConcealment(k=2, kind="k_k"), tabled(original, ["town"]), tabled(released, ["town"]))
    assert (verdict.outcome, verdict.observed["k_k"], verdict.observed["concealment"]) == ("pass", 2, 2)
    released = [("{a, b}",), ("{a, b}",), ("{b, c}",), ("{c, d}",)]
    observed = alone(KConcealment(), tabled(original, ["town"]), tabled(released, ["town"])).observed
    assert (observed["one_k"], observed["concealment"]) == (1, 1)
    original, released = [("a",), ("b",), ("c",)], [("{a, b}",), ("{a, b}",), ("*",)]
    verdict = alone(KConcealment(k=2), tabled(original, ["town"]), tabled(released, ["town"]))
    # The released `*` fits all three, and the two others leave it to the third record.
    assert (verdict.outcome, verdict.failing_records, verdict.observed["concealment"]) == ("fail", 1, 1)


rows = st.lists(st.tuples(*(st.sampled_from(values) for values in VALUES.values())), min_size=2, max_size=40)


@given(rows=rows, seed=st.integers(0, 1000))
@settings(deadline=None)
def test_classes_of_k_conceal_k_and_concealment_needs_consistent_pairs(rows: list[Row], seed: int) -> None:
    """k-anonymity implies k-concealment implies (k, k)."""
    by_town = {"a": "{a, b}", "b": "{a, b}", "c": "c"}
    grouped = [(by_town[town], "{x, y, z}") for town, _ in rows]
    observed = alone(KConcealment(), tabled(rows), tabled(grouped)).observed
    smallest = min(grouped.count(row) for row in grouped)
    assert observed["concealment"] == smallest == observed["one_k"] == observed["k_one"]
    draw = random.Random(seed)
    local = [tuple(label(draw, name, value) for name, value in zip(VALUES, row, strict=True)) for row in rows]
    found = alone(KConcealment(), tabled(rows), tabled(local)).observed
    assert min(local.count(row) for row in local) <= found["concealment"] <= found["one_k"]
    shuffled = draw.sample(local, len(local))
    assert alone(KConcealment(), tabled(rows), tabled(shuffled)).observed == found
    coarser = [(first, "*") for first, _ in local]
    assert alone(KConcealment(), tabled(rows), tabled(coarser)).observed["concealment"] >= found["concealment"]


def test_labels_are_read_by_hierarchies_ranges_and_the_mark() -> None:
    tree = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"], "Asia": ["Kobe"]}}, column="town")
    original = pa.table({"town": ["Bonn", "Graz", "Kobe", "Kobe"], "age": [30, 34, 51, 58]})
    released = pa.table({"town": ["Europe", "Europe", "Asia", "***"], "age": ["30-39", "30-39", "[50, 60[", ">=50"]})
    verdict = alone(KConcealment(k=2), original, released, hierarchies={"town": tree}, blanks=("***",))
    assert (verdict.outcome, verdict.observed["concealment"]) == ("pass", 2)
    assert alone(KConcealment(k=2), original, released, blanks=("***",)).outcome == "error"


def test_missing_values_cover_any_under_wildcards_alone(engine: Engine) -> None:
    original = pa.table({"town": ["a", "a", "b", None], "age": [1, 2, 2, 2]})
    released = pa.table({"town": [None, None, None, None], "age": [1, 2, 2, 2]}, schema=original.schema)
    assert judged(engine, KConcealment(k=1), original, released).outcome == "error"
    verdict = judged(engine, KConcealment(k=1), original, released, nulls="wildcard")
    assert (verdict.outcome, verdict.observed["concealment"], verdict.observed["one_k"]) == ("pass", 1, 1)
    same = judged(engine, KConcealment(), original, original).observed
    assert same == {"concealment": 1, "one_k": 1, "k_one": 1, "k_k": 1}
    text = {"nulls": "wildcard", "wildcard": "any"}
    worded = pa.table({"town": ["any", "a", "any", "any"], "age": [1, 2, 2, 2]})
    assert judged(engine, KConcealment(), original, worded, **text).observed["concealment"] == 1
    assert judged(engine, KConcealment(), original, worded, nulls="wildcard").outcome == "error"


def test_anything_but_a_generalization_is_an_error_and_never_a_pass(engine: Engine) -> None:
    original = pa.table({"age": [30, 40, 50, 60]})
    noisy = judged(engine, KConcealment(k=1), original, pa.table({"age": [31, 40, 50, 60]}))
    assert (noisy.outcome, "1 of 4 released records have a label of 'age'" in noisy.reason) == ("error", True)
    more = judged(engine, KConcealment(k=1), original, pa.table({"age": [30, 30, 40, 50]}))
    assert (more.outcome, "1 of 4 released records are left over" in more.reason) == ("error", True)
    assert "k_confusion" in more.reason
    assert "31" not in noisy.reason.replace("k = 1", "")


def test_without_an_original_it_is_an_error() -> None:
    released = counted(pa.table({"town": ["a", "a"]}))
    verdict = KConcealment(k=1).judge_tables(DistinctPair(keys=("town",), released=released))
    assert (verdict.outcome, verdict.observed) == ("error", None)
    empty = released.slice(0, 0)
    assert KConcealment(k=1).judge_tables(DistinctPair(keys=("town",), released=released, original=empty)).outcome == (
        "error"
    )


def test_a_removed_record_is_left_out_and_counted() -> None:
    original = tabled([("a",), ("a",), ("b",), ("b",), ("c",)], ["town"])
    verdict = alone(KConcealment(k=2), original, tabled([("{a, b}",)] * 4, ["town"]))
    assert (verdict.outcome, verdict.observed["concealment"]) == ("pass", 4)
    assert "1 original records can be no released one" in verdict.reason
    # Over fewer than half of the original it proves nothing.
    assert alone(KConcealment(k=2), original, tabled([("a",)] * 2, ["town"])).outcome == "error"


def test_too_many_pairs_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    original, released = tabled([("a",), ("b",)], ["town"]), tabled([("{a, b}",), ("b",)], ["town"])
    for name in ("LARGEST_COMPARED", "LARGEST_CONSISTENT", "LARGEST_LABELS", "LARGEST_TOTAL"):
        with monkeypatch.context() as less:
            less.setattr(k_concealment, name, 1)
            assert alone(KConcealment(k=1), original, released).outcome == "error", name
    monkeypatch.setattr(k_concealment, "CHUNK", 1)
    assert alone(KConcealment(k=1), original, released).observed["k_one"] == 1


def test_a_wrong_kind_is_refused() -> None:
    with pytest.raises(UsageError):
        KConcealment(kind="anonymity")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        KConcealment(k=0)


@on_every_engine
def test_tables_released_unchanged_conceal_and_confuse_as_many_as_their_classes_have(
    engine: Engine, tables: list[HostileTable]
) -> None:
    judged_tables = 0
    with gathered() as case:
        for table in tables:
            with case(table.name):
                concealed, confused, classes = unchanged(engine, table)
                # Marks are not candidates, infinite numbers have no distance.
                assert concealed.observed is None or concealed.observed["concealment"] == classes
                assert confused is None or confused.observed in (None, classes)
                assert "4711" not in concealed.reason
                judged_tables += concealed.outcome == "pass"
    assert judged_tables > len(tables) // 2


def unchanged(engine: Engine, table: HostileTable) -> tuple[Verdict, Verdict | None, Any]:
    frame = engine.scan(Source(data=table.frame()))
    found = []
    for entry in (KConcealment(), KConfusion(metric="gower"), KAnonymity(k=1)):
        try:
            how: Any = {"guarantees": (), "measures": [entry], "roles": table.roles, "original": frame}
            found.append(assess(engine, frame, **how).measures[0])
        except DataError as error:
            if "infinite values, which have no distance" not in str(error):
                raise
            found.append(None)
    return found[0], found[1], found[2].observed

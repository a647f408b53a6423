"""Recovery: what released columns tell of transformed ones, against the definition in plain Python."""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from privpipe.blocks import Verdict
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.judging.recovery import Recoveries, recoveries
from privpipe.measures import Recovery
from privpipe.roles import Roles
from tests.tiers import at_most

ROLES = Roles(quasi_identifiers=["region", "age"], sensitive=["illness"], insensitive=["weight"], identifiers=["id"])
Rows = dict[str, list[Any]]


def modal(values: list[Any], evidence: list[tuple[Any, ...]]) -> int:
    """Sum over evidence of max over values of n(value, evidence)."""
    cells: dict[tuple[Any, ...], Counter[Any]] = defaultdict(Counter)
    for value, seen in zip(values, evidence, strict=True):
        cells[seen][value] += 1
    return sum(max(counts.values()) for counts in cells.values())


def alone(values: list[Any], evidence: list[tuple[Any, ...]], least: int) -> int:
    """Records in groups of one value and at least so many records."""
    groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for value, seen in zip(values, evidence, strict=True):
        groups[seen].append(value)
    return sum(len(group) for group in groups.values() if len(set(group)) == 1 and len(group) >= least)


def oracle(original: Rows, released: Rows, entry: Recovery, measured: tuple[str, ...] = ("age",)) -> dict[str, Any]:
    """Gain, recovered, baseline and determined of the worst pair, from the definition."""
    n = len(original["id"])
    names = [name for name in released if name != "id"]
    evidence = [name for name in names if len(set(released[name])) <= entry.max_distinct * n + 1e-9]
    found = []
    for column in [name for name in names if name in original and (not entry.columns or name in entry.columns)]:
        values, labels = original[column], [(label,) for label in released[column]]
        base = modal(values, labels)
        labels_of = defaultdict(set)
        for value, label in zip(values, released[column], strict=True):
            labels_of[value].add(label)
        several = any(len(each) > 1 for each in labels_of.values())
        if base == n or (not entry.columns and column in measured and several):
            continue
        others = [(name,) for name in evidence if name != column]
        if entry.pairs:
            others += list(combinations([name for name in evidence if name != column], 2))
        for by in others:
            seen = list(zip(released[column], *(released[name] for name in by), strict=True))
            right = modal(values, seen)
            found.append((Fraction(right - base, n), right, base, alone(values, seen, entry.min_group)))
    if not found:
        return {"gain": 0.0, "recovered": None, "baseline": None, "determined": None}
    gain, right, base, single = max(found, key=lambda each: each[0])
    return {"gain": float(gain), "recovered": right / n, "baseline": base / n, "determined": single / n}


def table(rows: Rows) -> pa.Table:
    numbers = {"age", "weight", "id"}
    text = {name for name, cells in rows.items() if any(isinstance(cell, str) for cell in cells)}
    kinds = {name: pa.int64() if name in numbers - text else pa.string() for name in rows}
    return pa.table({name: pa.array(cells, kinds[name]) for name, cells in rows.items()})


def judged(engine: Engine, original: Rows, released: Rows, *entries: Recovery, **rules: Any) -> list[Verdict]:
    seed = Seed.of(bytes(range(16)))
    sides = [engine.with_record_ids(engine.scan(Source(data=table(rows))), "id", seed) for rows in (original, released)]
    left = engine.select(sides[1], [name for name in released if name != "id"])
    found = assess(
        engine, left, guarantees=[], measures=list(entries), roles=ROLES, rules=JudgingRules(**rules), original=sides[0]
    )
    return list(found.measures)


# Weights of 50, 60, 70 name the regions north, south, west; ages 30 and 40 do not.
HAND: tuple[Rows, Rows] = (
    {
        "id": list(range(8)),
        "region": ["north", "north", "south", "south", "west", "west", "west", "south"],
        "age": [30, 40, 30, 40, 30, 40, 30, 40],
        "weight": [50, 50, 60, 60, 70, 70, 70, 60],
        "illness": ["a", "a", "a", "b", "b", "b", "b", "b"],
    },
    {
        "id": list(range(8)),
        "region": ["*", "*", "*", "*", "west", "west", "west", "*"],
        "age": [30, 40, 30, 40, 30, 40, 30, 40],
        "weight": [50, 50, 60, 60, 70, 70, 70, 60],
        "illness": ["a", "a", "a", "b", "b", "b", "b", "b"],
    },
)


def test_a_table_worked_by_hand(engine: Engine) -> None:
    """By the label alone 3 of the 5 in `*` are south, and 3 of 3 in west: 6 of 8. With the weight all 8 are right."""
    every, illness, groups = (
        Recovery(max_distinct=1.0),
        Recovery(max_distinct=0.25, columns=("region",)),
        Recovery(max_distinct=1.0, min_group=3),
    )
    first, second, third = judged(engine, *HAND, every, illness, groups)
    assert first.observed == {"gain": 0.25, "recovered": 1.0, "baseline": 0.75, "determined": 1.0}
    assert "`weight` tells `region` for 100 % of the records" in first.reason
    # Two distinct values at most: age and illness. (*, a): 2 north of 3; (*, b): 2 south; west: 3. That is 7 of 8.
    assert second.observed == {"gain": 0.125, "recovered": 0.875, "baseline": 0.75, "determined": 0.625}
    assert "`illness` tells `region` for 87.5 %" in second.reason
    assert third.observed["determined"] == 0.75  # the two of the north are too few


@pytest.mark.parametrize(("bound", "outcome"), [(0.25, "pass"), (0.2, "fail")])
def test_the_threshold_is_compared_with_the_gain(embedded: Engine, bound: float, outcome: str) -> None:
    [verdict] = judged(embedded, *HAND, Recovery(max_distinct=1.0, at_most=bound))
    assert (verdict.outcome, verdict.threshold) == (outcome, bound)


def test_perturbed_numbers_are_left_to_others_unless_named(embedded: Engine) -> None:
    original, released = {**HAND[0]}, {**HAND[1], "region": HAND[0]["region"]}
    released["age"] = [30, 40, 40, 30, 30, 40, 40, 40]  # 30 was released as 30 and as 40
    unnamed, named = Recovery(max_distinct=1.0), Recovery(max_distinct=1.0, columns=("age",))
    first, second = judged(embedded, original, released, unnamed, named)
    assert first.observed["gain"] == 0
    assert second.observed == oracle(original, released, named)
    stages = ({"name": "pram", "parameters": {"columns": ["age"]}, "detail": {}},)
    [third] = judged(embedded, original, released, unnamed, stages=stages)
    assert third.observed == second.observed


def test_suppressed_records_are_left_out(engine: Engine) -> None:
    """Rows of nothing but marks and blanks would count as records that nothing is known of."""
    original = {name: [*cells, *(cells[:2] if name != "id" else [8, 9])] for name, cells in HAND[0].items()}
    blank = {"region": "*", "age": None, "weight": None, "illness": "*"}
    released = {name: [*cells, *([blank[name]] * 2 if name != "id" else [8, 9])] for name, cells in HAND[1].items()}
    [verdict] = judged(engine, original, released, Recovery(max_distinct=1.0))
    assert verdict.observed == judged(engine, *HAND, Recovery(max_distinct=1.0))[0].observed


def test_records_in_one_table_alone_count_for_nothing(engine: Engine) -> None:
    released = {name: cells[2:] for name, cells in HAND[1].items()}
    original = {name: cells[2:] for name, cells in HAND[0].items()}
    [verdict] = judged(engine, HAND[0], released, Recovery(max_distinct=1.0))
    assert verdict.observed == oracle(original, released, Recovery(max_distinct=1.0))


def test_without_an_original_it_is_an_error(embedded: Engine) -> None:
    found = assess(
        embedded,
        embedded.scan(Source(data=table(HAND[1]).drop_columns("id"))),
        guarantees=[Recovery(at_most=0.5)],
        roles=ROLES,
    )
    assert found.verdicts[0].outcome == "error"
    assert not found.passed


def test_a_column_that_is_in_neither_table_is_named(embedded: Engine) -> None:
    with pytest.raises(DataError, match="column 'regoin' is not in the original; did you mean 'region'"):
        judged(embedded, *HAND, Recovery(columns=("regoin",)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"at_most": 1.5},
        {"max_distinct": 0.0},
        {"max_distinct": 2},
        {"min_group": 0},
        {"pairs": 1},
        {"columns": ()},
        {"columns": ("a", "a")},
        {"columns": ("a",), "quasi_identifiers": ("b",)},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Recovery"):
        Recovery(**wrong)


BOUND = Recovery(max_distinct=1.0, columns=("age",), beyond_chance=True)


def others_guess(values: list[Any], lone: float) -> float:
    """Records of one group whose value the others show; in groups of 30 or more the most frequent value is guessed."""
    if len(values) >= 30:
        return max(values.count(each) for each in values)
    right = 0.0
    for at, value in enumerate(values):
        rest = values[:at] + values[at + 1 :]
        best = {each for each in rest if rest.count(each) == max(rest.count(other) for other in rest)}
        right += lone if not rest else (value in best) / min(len(best), 2)
    return right


def beyond_chance(original: Rows, released: Rows, column: str, by: str) -> float:
    """The gain of one pair of columns without luck, from the definition."""
    values, labels = original[column], [(label,) for label in released[column]]
    seen = list(zip(released[column], released[by], strict=True))
    n = len(values)
    groups = [
        [value for value, own in zip(values, side, strict=True) if own == each]
        for side in (labels, seen)
        for each in set(side)
    ]
    alone, together = groups[: len(set(labels))], groups[len(set(labels)) :]
    base = sum(others_guess(group, 1 / n) for group in alone)
    right = sum(others_guess(group, base / n) for group in together)
    return max(min(right - base, modal(values, seen) - modal(values, labels)), 0.0) / n


SMALL = {
    "region": st.sampled_from(["north", "south", "west", None, "*"]),
    "age": st.sampled_from([30, 40, 50, None]),
    "weight": st.sampled_from([1, 2, 3, None]),
    "illness": st.sampled_from(["a", "b", None]),
}
LABELS = {"region": st.sampled_from(["*", "n", None]), "age": st.sampled_from([30, 40, None])}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Rows, Rows]:
    """An original and a release of it in which `region` became a label and `age` another number; ties and nulls."""
    n = draw(st.integers(1, 14))
    original: Rows = {name: draw(st.lists(each, min_size=n, max_size=n)) for name, each in SMALL.items()}
    changed = {name: draw(st.lists(each, min_size=n, max_size=n)) for name, each in LABELS.items()}
    original["id"] = list(range(n))
    released = {**original, **changed}
    kept = [
        row
        for row in range(n)
        if any(released[name][row] not in (None, "*") for name in ("region", "age", "weight", "illness"))
    ]
    return (
        {name: [cells[row] for row in kept] for name, cells in original.items()},
        {name: [cells[row] for row in kept] for name, cells in released.items()},
    )


ENTRIES = [
    Recovery(max_distinct=1.0),
    Recovery(max_distinct=0.3, min_group=2),
    Recovery(max_distinct=1.0, pairs=True, columns=("region", "age")),
]


@pytest.mark.deep
@settings(max_examples=at_most(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=tables())
@example(rows=HAND)
def test_the_figures_are_those_of_the_definition(embedded: Engine, rows: tuple[Rows, Rows]) -> None:
    if not rows[0]["id"]:
        return
    for entry, verdict in zip(ENTRIES, judged(embedded, *rows, *ENTRIES), strict=True):
        assert verdict.observed == oracle(*rows, entry)


@pytest.mark.parametrize("largest", [200_000, 100])
def test_every_engine_counts_alike(engine: Engine, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the driver, and on the engine where the driver could not hold the records."""
    monkeypatch.setattr(importlib.import_module("privpipe.judging.paired_columns"), "LARGEST_SAMPLE", largest)
    n = 500
    original: Rows = {
        "id": list(range(n)),
        "region": [["north", "south", "west", None][row * 7 % 4] for row in range(n)],
        "age": [row * 13 % 37 for row in range(n)],
        "weight": [row * 7 % 9 for row in range(n)],
        "illness": [["a", "b", "c"][row * 11 % 3] for row in range(n)],
    }
    released = {
        **original,
        "region": ["*" if row % 5 else original["region"][row] for row in range(n)],
        "age": [age // 10 * 10 for age in original["age"]],
    }
    verdicts = judged(engine, original, released, *ENTRIES, BOUND)
    assert [verdict.observed for verdict in verdicts[:-1]] == [oracle(original, released, entry) for entry in ENTRIES]
    gains = [beyond_chance(original, released, "age", by) for by in ("region", "weight", "illness")]
    assert verdicts[-1].observed["gain"] == pytest.approx(max(gains))


class TestNotes:
    """The same figures over a sample on the driver, as sentences."""

    def noted(self, engine: Engine, rows: tuple[Rows, Rows], **rules: Any) -> tuple[str, ...]:
        seed = Seed.of(bytes(range(16)))
        first, second = (engine.with_record_ids(engine.scan(Source(data=table(each))), "id", seed) for each in rows)
        left = engine.select(second, [name for name in rows[1] if name != "id"])
        return recoveries(engine, left, first, ROLES, JudgingRules(**rules), Stream(bytes(16))).notes

    def large(self) -> tuple[Rows, Rows]:
        """Forty copies of the hand example, so that no column is near-unique."""
        copies = 40
        return tuple(  # type: ignore[return-value]
            {name: cells * copies if name != "id" else list(range(8 * copies)) for name, cells in rows.items()}
            for rows in HAND
        )

    def test_they_name_what_shows_and_what_helps(self, engine: Engine) -> None:
        stages = ({"name": "generalize", "parameters": {"levels": {"region": 1}}, "detail": {}},)
        assert self.noted(engine, self.large(), stages=stages) == (
            "`weight` tells `region` for 100 % of the records although it was generalized; drop `weight`, generalize "
            "it, or make it a quasi-identifier (its label alone reveals 75 %)",
            "`illness` tells `region` for 87.5 % of the records although it was generalized; drop `illness`, "
            "generalize it, or make it a quasi-identifier (its label alone reveals 75 %)",
        )

    def test_a_large_table_is_sampled_by_its_keyed_order(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.import_module("privpipe.judging.paired_columns"), "LARGEST_SAMPLE", 100)
        noted = self.noted(engine, self.large())
        assert noted[0].startswith("`weight` tells `region` for 100 % of the records although it was transformed")
        reordered = tuple({name: cells[::-1] for name, cells in rows.items()} for rows in self.large())
        assert self.noted(engine, reordered) == noted  # type: ignore[arg-type]

    def test_small_gains_and_near_unique_columns_are_not_named(self, embedded: Engine) -> None:
        original, released = self.large()
        n = len(released["id"])
        harmless = {"illness": ["a"] * n}
        noted = self.noted(embedded, ({**original, **harmless}, {**released, **harmless, "weight": list(range(n))}))
        assert noted == ()

    def test_tables_that_cannot_be_paired_say_nothing(self, embedded: Engine) -> None:
        first, second = (embedded.scan(Source(data=table(rows))) for rows in self.large())
        assert recoveries(embedded, second, first, ROLES, JudgingRules(), Stream(bytes(16))) == Recoveries()


def test_without_a_column_that_could_be_evidence_nothing_is_shown(embedded: Engine) -> None:
    """Ten records: by the default each released column has too many values to be evidence."""
    weights = [float(at) for at in range(10)]
    original: Rows = {"id": list(range(10)), "region": list("abcdefghij"), "weight": weights, "age": weights}
    released = {**original, "region": ["x", "y"] * 5}
    [verdict] = judged(embedded, original, released, Recovery(at_most=0.05))
    assert (verdict.outcome, "raise max_distinct" in verdict.reason) == ("error", True)
    [verdict] = judged(embedded, original, released, Recovery(at_most=0.05, max_distinct=1.0))
    assert verdict.observed["gain"] == 0.8

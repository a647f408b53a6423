"""Mondrian against a tree grown in plain Python, on released figures, and what it refuses."""

from __future__ import annotations

import datetime
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import Facts, FactsRequest, Histogram
from privpipe.blocks.guarantee import prepared
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, HierarchyError, NoSolutionError, UnsupportedError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import (
    AverageRisk,
    DeltaDisclosure,
    DistinctLDiversity,
    KAnonymity,
    KMap,
    TCloseness,
)
from privpipe.roles import Roles
from privpipe.testing import GAPS, Classes, oracle_of
from privpipe.transforms import Mondrian
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.mondrian.cut_tree import CutTree
from privpipe.transforms.mondrian.mondrian import plan
from tests.tiers import at_most

SEED = Seed.insecure(1)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def scanned(engine: Engine, rows: pa.Table) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, SEED)


def made(engine: Engine, stage: Mondrian, table: Any, context: StageContext) -> tuple[StagePlan, pa.Table]:
    found = plan(engine, table, stage, context)
    text = StagePlan(name=found.name, parameters={}, detail=json.loads(json.dumps(found.detail)))
    released = stage.run(engine, table, text, Draws(SEED, 0, "mondrian"), context)
    rows = engine.collect(released)
    assert rows.schema.equals(released.schema)
    return found, rows


def context_of(rows: pa.Table, sensitive: tuple[str, ...] = (), **options: Any) -> StageContext:
    keys = [name for name in rows.column_names if name not in sensitive]
    return StageContext(
        roles=Roles(quasi_identifiers=keys, sensitive=list(sensitive)),
        schema=rows.schema,
        place="transform[0].mondrian",
        **options,
    )


class Grown:
    """A tree of a problem in plain Python: parts of its rows, and what they are called."""

    def __init__(self, problem: Any, lookahead: int = 0) -> None:
        self.problem = problem
        self.lookahead = lookahead
        self.trees = {}
        for name, rows in problem.hierarchies.items():
            least, most = problem.limits.get(name, (0, len(rows[0]) - 1))
            self.trees[name] = (Hierarchy.from_rows(rows), least, most)
        self.fixed = [name for name in problem.keys if name not in self.trees and self.is_judged(name)]
        self.models = [
            guarantee for guarantee in problem.guarantees if set(self.keys_of(guarantee)) & set(problem.columns)
        ]
        values = {"ill": problem.rows["ill"]}
        self.values, self.base = values, {"ill": Counter(problem.rows["ill"])}
        self.leaves = self.split(list(range(len(problem))))

    def keys_of(self, guarantee: Any) -> tuple[str, ...]:
        own = guarantee.quasi_identifiers
        return self.problem.keys if own is None else own

    def is_judged(self, name: str) -> bool:
        return any(name in self.keys_of(guarantee) for guarantee in self.problem.guarantees)

    def label(self, name: str, row: int, level: int) -> str:
        cells = next(cells for cells in self.problem.hierarchies[name] if cells[0] == self.problem.rows[name][row])
        return str(cells[level])

    def code(self, name: str, row: int) -> int:
        tree, least, _ = self.trees[name]
        return tree.labels(least).index(self.label(name, row, least))

    def size(self, rows: list[int]) -> int:
        return len(rows)

    def passes(self, rows: list[int]) -> bool:
        for model in self.models:
            verdict = oracle_of(type(model))(model, Classes([rows], 0, self.values, self.base))
            if verdict.outcome != "pass":
                return False
        return True

    def split(self, rows: list[int]) -> list[list[int]]:
        for name, (_, _, most) in self.trees.items():
            if len({self.label(name, row, most) for row in rows}) > 1:
                return self.apart(rows, lambda row, name=name, most=most: self.label(name, row, most))
        for name in self.fixed:
            if len({self.problem.rows[name][row] for row in rows}) > 1:
                return self.apart(rows, lambda row, name=name: self.problem.rows[name][row])
        cuts = list(self.cuts(rows))
        for left, right in cuts:
            if self.passes(left) and self.passes(right):
                return [*self.split(left), *self.split(right)]
        for left, right in cuts if self.lookahead else []:
            if self.passes_further(left) and self.passes_further(right):
                return [*self.split(left), *self.split(right)]
        return [rows]

    def passes_further(self, rows: list[int]) -> bool:
        """Whether a side meets the rules, or both of its own sides by some cut."""
        return self.passes(rows) or any(self.passes(one) and self.passes(other) for one, other in self.cuts(rows))

    def cuts(self, rows: list[int]) -> Iterator[tuple[list[int], list[int]]]:
        """The sides of every cut that is tried, the first one first."""
        spans = {}
        for name, (tree, least, _) in self.trees.items():
            codes = [self.code(name, row) for row in rows]
            spans[name] = (max(codes) - min(codes)) / max(1, len(tree.labels(least)) - 1)
        for name in sorted(spans, key=lambda name: -spans[name]):
            cuts = []
            for cut in sorted({self.code(name, row) for row in rows})[:-1]:
                left = [row for row in rows if self.code(name, row) <= cut]
                right = [row for row in rows if self.code(name, row) > cut]
                cuts.append((abs(self.size(left) - self.size(right)), cut, left, right))
            least_size = max((model.least_size() for model in self.models), default=1)
            legal = [cut for cut in cuts if min(self.size(cut[2]), self.size(cut[3])) >= least_size]
            yield from ((left, right) for _, _, left, right in sorted(legal)[:8])

    def apart(self, rows: list[int], of: Any) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for row in rows:
            groups.setdefault(of(row), []).append(row)
        return [leaf for group in groups.values() for leaf in self.split(group)]

    def labels(self) -> dict[str, list[Any]]:
        found = {name: list(cells) for name, cells in self.problem.rows.items()}
        for rows in self.leaves:
            for name, (tree, least, _) in self.trees.items():
                levels = range(least, tree.height + 1)
                common = next(level for level in levels if len({self.label(name, row, level) for row in rows}) == 1)
                for row in rows:
                    found[name][row] = self.label(name, row, common)
        return found

    def cell_loss(self) -> float:
        losses = []
        labels = self.labels()
        for name, (tree, _, _) in self.trees.items():
            n, d = len(self.problem), len(tree.values)
            total = 0.0
            for row, label in enumerate(labels[name]):
                level = next(level for level in range(tree.height + 1) if self.label(name, row, level) == label)
                total += self.problem.share(name, self.problem.rows[name][row], level)
            losses.append(0.0 if d == 1 else float(total - n / d) / (n - n / d))
        return float(math.prod(1 + loss for loss in losses)) ** (1 / len(losses)) - 1


@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data())
def test_a_release_is_that_of_a_tree_grown_by_hand(
    embedded: Engine, random_problems: Any, suppressed_rows: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    if any(isinstance(guarantee, AverageRisk) or "sample" in guarantee.name() for guarantee in problem.guarantees):
        return
    wanted = Grown(problem)
    labels = wanted.labels()
    failing = suppressed_rows(labels, problem.guarantees, problem.keys, wanted.values, lambda keys, row: [])
    table = scanned(embedded, problem.table)
    if failing:
        # Nothing but uncut, or parts with one label that fail together: cut less, or not at all.
        try:
            _, rows = made(embedded, Mondrian(), table, problem.context)
        except NoSolutionError:
            return
        again = {name: rows.column(name).to_pylist() for name in rows.column_names}
        assert not suppressed_rows(again, problem.guarantees, problem.keys, {"ill": again["ill"]}, lambda *_: [])
        return
    found, rows = made(embedded, Mondrian(), table, problem.context)
    expected = Counter(tuple(labels[name][row] for name in labels) for row in range(len(problem)))
    assert Counter(tuple(row.values()) for row in rows.to_pylist()) == expected
    assert found.detail["cell_loss"] == pytest.approx(wanted.cell_loss())
    for score in ("loss",):
        _, other = made(embedded, Mondrian(score=score), table, problem.context)
        again = {name: other.column(name).to_pylist() for name in other.column_names}
        assert not suppressed_rows(again, problem.guarantees, problem.keys, {"ill": again["ill"]}, lambda *_: [])


class GrownOfPersons(Grown):
    """As `Grown`, where a person with several records in a part counts once, and the set of her values is hers."""

    def __init__(self, problem: Any, who: list[int], lookahead: int = 0) -> None:
        self.who = who
        super().__init__(problem, lookahead)

    def size(self, rows: list[int]) -> int:
        return len({self.who[row] for row in rows})

    def passes(self, rows: list[int]) -> bool:
        held = {(self.problem.rows["ill"][row], self.who[row]) for row in range(len(self.problem))}
        base = {"ill": Counter(value for value, _ in held)}
        part = Classes([rows], 0, self.values, base, persons=self.who, base_members=len(set(self.who)))
        return all(oracle_of(type(model))(model, part).outcome == "pass" for model in self.models)

    def fails(self, labels: dict[str, list[Any]]) -> bool:
        """Whether a class over the keys of some rule fails it."""
        every, models = range(len(self.problem)), self.models
        for model in self.problem.guarantees:
            classes: dict[Any, list[int]] = {}
            for row in every:
                classes.setdefault(tuple(labels[key][row] for key in self.keys_of(model)), []).append(row)
            self.models = [model]
            if not all(self.passes(rows) for rows in classes.values()):
                return True
        self.models = models
        return False


@settings(max_examples=at_most(60), suppress_health_check=SLOW)
@given(st.data())
def test_a_release_in_persons_is_that_of_a_tree_grown_by_hand(
    embedded: Engine, random_problems: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    if any(isinstance(guarantee, AverageRisk) or "sample" in guarantee.name() for guarantee in problem.guarantees):
        return
    n = len(problem)
    who = data.draw(st.lists(st.integers(0, max(1, n // 2)), min_size=n, max_size=n))
    lookahead = data.draw(st.integers(0, 1))
    wanted = GrownOfPersons(problem, who, lookahead)
    labels = wanted.labels()
    rows = problem.table.append_column("who", pa.array([f"person {number}" for number in who]))
    rows = rows.append_column("row", pa.array(range(n)))
    seen = Counter(value for value, _ in {*zip(problem.rows["ill"], who, strict=True)})
    values = sorted(seen, key=lambda value: (value is None, value or ""))
    counts = np.array([seen[value] for value in values])
    histogram = Histogram(pa.array(values, pa.string()), counts, members=len(set(who)))
    context = replace(problem.context, person="who", base=Facts(records=n, histograms={"ill": histogram}))
    table = scanned(embedded, rows)
    if wanted.fails(labels):
        try:
            _, released = made(embedded, Mondrian(lookahead=lookahead), table, context)
        except NoSolutionError:
            return
        again = released.sort_by("row").to_pydict()
        assert not wanted.fails(again)
        return
    found, released = made(embedded, Mondrian(lookahead=lookahead), table, context)
    again = released.sort_by("row").to_pydict()
    assert {name: again[name] for name in labels} == labels
    assert found.detail["cell_loss"] == pytest.approx(wanted.cell_loss())
    for other in (Mondrian(score="loss", lookahead=lookahead), Mondrian(mode="relaxed", lookahead=lookahead)):
        again = made(embedded, other, table, context)[1].sort_by("row").to_pydict()
        assert not wanted.fails(again)


def values_problem(seed: int, guarantees: Any, make_problem: Any) -> Any:
    """Two of three illnesses are frequent in each region: a fifth of such tables has cuts to be looked through."""
    draw = random.Random(seed)
    trees = {"a": [f"v{at}" for at in range(8)], "b": [f"w{at}" for at in range(4)]}
    illnesses = ["flu", "gout", "ulcer"]
    frequent = {(a, b): draw.sample(illnesses, 2) for a in range(4) for b in range(2)}
    people = [(draw.randrange(8), draw.randrange(4)) for _ in range(60)]
    ill = [draw.choice(frequent[a // 2, b // 2] if draw.random() < 0.9 else illnesses) for a, b in people]
    return make_problem(
        rows={"a": [f"v{a}" for a, _ in people], "b": [f"w{b}" for _, b in people], "ill": ill},
        hierarchies={
            name: [[value, f"{name}{at // 2}", "*"] for at, value in enumerate(values)]
            for name, values in trees.items()
        },
        guarantees=guarantees,
    )


@pytest.mark.deep
@settings(max_examples=at_most(80), suppress_health_check=SLOW)
@given(seed=st.integers(0, 2**40), delta=st.sampled_from([0.5, 0.8, 1.1]), lookahead=st.integers(0, 1))
def test_a_cut_is_looked_through_as_by_hand(
    embedded: Engine, make_problem: Any, seed: int, delta: float, lookahead: int
) -> None:
    """Delta-disclosure of the values that are present: both parts of a class that fails it may meet it."""
    guarantees = (KAnonymity(k=2), DeltaDisclosure(column="ill", delta=delta))
    problem = values_problem(seed, guarantees, make_problem)
    wanted = Grown(problem, lookahead)
    labels = wanted.labels()
    classes: dict[Any, list[int]] = {}
    for row in range(len(problem)):
        classes.setdefault(tuple(labels[name][row] for name in labels if name != "ill"), []).append(row)
    table = scanned(embedded, problem.table)
    if not all(wanted.passes(rows) for rows in classes.values()):
        return  # parts with one label that fail together are cut less: `test_what_looking_ahead_releases_passes`
    found, rows = made(embedded, Mondrian(lookahead=lookahead), table, problem.context)
    expected = Counter(tuple(labels[name][row] for name in labels) for row in range(len(problem)))
    assert Counter(tuple(row.values()) for row in rows.to_pylist()) == expected
    assert found.detail["cell_loss"] == pytest.approx(wanted.cell_loss())


@pytest.mark.deep
@settings(max_examples=at_most(60), suppress_health_check=SLOW)
@given(
    seed=st.integers(0, 2**40),
    delta=st.sampled_from([0.5, 0.8, 1.1]),
    stage=st.sampled_from(
        [Mondrian(lookahead=1, score=s) for s in ("width", "loss")] + [Mondrian(mode="relaxed", lookahead=1)]
    ),
)
def test_what_looking_ahead_releases_passes(
    embedded: Engine, make_problem: Any, seed: int, delta: float, stage: Mondrian
) -> None:
    guarantees = (KAnonymity(k=2), DeltaDisclosure(column="ill", delta=delta))
    problem = values_problem(seed, guarantees, make_problem)
    _, rows = made(embedded, stage, scanned(embedded, problem.table), problem.context)
    released = rows.to_pydict()
    base = Counter(problem.rows["ill"])
    members: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(released["a"], released["b"], strict=True)):
        members.setdefault(key, []).append(row)
    classes = Classes(list(members.values()), 0, {"ill": released["ill"]}, {"ill": base})
    for guarantee in guarantees:
        assert oracle_of(type(guarantee))(guarantee, classes).outcome == "pass"


def test_a_cut_is_looked_through_where_it_loses_less(embedded: Engine, make_problem: Any) -> None:
    guarantees = (KAnonymity(k=2), DeltaDisclosure(column="ill", delta=0.8))
    gained = 0
    for seed in range(12):
        problem = values_problem(seed, guarantees, make_problem)
        table = scanned(embedded, problem.table)
        plain, ahead = (made(embedded, Mondrian(lookahead=steps), table, problem.context)[0].detail for steps in (0, 1))
        gained += plain["classes"] < ahead["classes"]
    assert gained > 0


@pytest.mark.parametrize(("lookahead", "classes"), [(0, 1), (1, 4)])
def test_what_is_convex_in_records_is_looked_through_in_persons(
    embedded: Engine, make_problem: Any, lookahead: int, classes: int
) -> None:
    """Each quarter has as many persons with flu as with gout, each half twice as many of one: it shares the others."""
    quarters = {"v0": ("AB", "CD"), "v1": ("AB", "EF"), "v2": ("GH", "IJ"), "v3": ("KL", "IJ")}
    cells = [
        (value, ill, who)
        for value, persons in quarters.items()
        for ill, own in zip(("flu", "gout"), persons, strict=True)
        for who in own
    ]
    problem = make_problem(
        rows={"a": [value for value, _, _ in cells], "ill": [ill for _, ill, _ in cells]},
        hierarchies={"a": [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]]},
        guarantees=(KAnonymity(k=3), TCloseness(column="ill", t=0.05)),
    )
    table = scanned(embedded, problem.table.append_column("who", pa.array([who for _, _, who in cells])))
    everybody = Facts(records=16, histograms={"ill": Histogram(pa.array(["flu", "gout"]), np.array([6, 6]))})
    context = replace(problem.context, person="who", base=everybody)
    found, rows = made(embedded, Mondrian(lookahead=lookahead), table, context)
    assert found.detail["classes"] == classes == len(set(rows["a"].to_pylist()))
    # Counted in records, every half is as every quarter.
    assert made(embedded, Mondrian(), table, problem.context)[0].detail["classes"] == 4


@settings(max_examples=at_most(25), suppress_health_check=SLOW)
@given(seed=st.integers(0, 2**40), stage=st.sampled_from([{}, {"score": "loss"}, {"mode": "relaxed"}]))
def test_looking_ahead_changes_nothing_for_k_l_and_t(
    embedded: Engine, make_problem: Any, seed: int, stage: Any
) -> None:
    guarantees = (KAnonymity(k=2), DistinctLDiversity(column="ill", l=2), TCloseness(column="ill", t=0.45))
    problem = values_problem(seed, guarantees, make_problem)
    table = scanned(embedded, problem.table)
    try:
        plain, rows = made(embedded, Mondrian(**stage), table, problem.context)
    except NoSolutionError:
        with pytest.raises(NoSolutionError):
            made(embedded, Mondrian(lookahead=1, **stage), table, problem.context)
        return
    found, same = made(embedded, Mondrian(lookahead=1, **stage), table, problem.context)
    assert (plain.detail, rows) == (found.detail, same)
    assert "lookahead" not in plain.parameters
    assert found.parameters["lookahead"] == 1


@pytest.fixture(scope="module")
def adult(shared: Any) -> tuple[pa.Table, dict[str, HierarchySpec]]:
    folder = shared / "data" / "adult"
    rows = pc.read_csv(folder / "adult.csv", parse_options=pc.ParseOptions(delimiter=";"))
    specs = {
        name: HierarchySpec.from_mapping({"file": f"adult_hierarchy_{name}.csv", "delimiter": ";"}, folder, column=name)
        for name in rows.column_names
    }
    return rows, specs


def test_figures_of_adult(embedded: Engine, adult: Any) -> None:
    """Figures of an independent prototype: 7.23 records a part and DM 251,636 at k = 5."""
    rows, specs = adult
    table = scanned(embedded, rows)
    losses = {}
    for k, parts in ((2, 9964), (5, 4171), (10, 2079), (100, 222)):
        context = context_of(rows, hierarchies=specs, guarantees=(KAnonymity(k=k),))
        detail = plan(embedded, table, Mondrian(), context).detail
        losses[k] = round(detail["cell_loss"], 3)
        assert detail["tree"]["leaves"] == parts
        assert detail["k"] == k
    assert losses == {2: 0.051, 5: 0.121, 10: 0.181, 100: 0.398}
    context = context_of(rows, hierarchies=specs, guarantees=(KAnonymity(k=5),))
    assert plan(embedded, table, Mondrian(score="loss"), context).detail["cell_loss"] < 0.08


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Every ordered type, nulls, ties; and a column that only sets can name."""
    n = 120
    return pa.table(
        {
            "age": pa.array([20 + at * 7 % 40 for at in range(n)]),
            "rent": pa.array([Decimal(at * 37 % 900) / 4 for at in range(n)], pa.decimal128(8, 2)),
            "born": pa.array([datetime.date(1990, 1, 1) + datetime.timedelta(days=at * 11 % 300) for at in range(n)]),
            "score": pa.array([None if at % 10 == 0 else (at * 13 % 17) / 8 for at in range(n)], pa.float64()),
            "town": pa.array([["Ashford", "Barrow", "Crewe", None][at * 5 % 4] for at in range(n)]),
            "ill": pa.array([["flu", "gout", "ulcer"][at * 7 % 3] for at in range(n)]),
        }
    )


def covers(label: Any, value: Any) -> bool:
    """Whether a released label represents a raw value."""
    if label == "*":
        return True
    if value is None:
        return label is None or (label.startswith("{") and "null" in label)
    if label is None:
        return False
    if label.startswith("{"):
        return str(value) in label[1:-1].split(", ")
    if label.startswith("<"):
        return bool(value < number(label[1:], value))
    if label.startswith(">="):
        return bool(value >= number(label[2:], value))
    if label.startswith("["):
        low, high = label[1:-1].split(", ")
        top = value <= number(high, value) if label.endswith("]") else value < number(high, value)
        return bool(number(low, value) <= value and top)
    return bool(number(label, value) == value)


def number(text: str, like: Any) -> Any:
    return datetime.date.fromisoformat(text) if isinstance(like, datetime.date) else type(like)(text)


@pytest.mark.parametrize("labels", ["cells", "values"])
def test_columns_without_a_hierarchy(embedded: Engine, people: pa.Table, labels: Any) -> None:
    """Released rows are matched to raw ones by a key that goes along."""
    rows = people.append_column("key", pa.array(range(len(people))))
    keys = [name for name in people.column_names if name != "ill"]
    context = StageContext(
        roles=Roles(quasi_identifiers=keys, sensitive=["ill"], insensitive=["key"]),
        schema=rows.schema,
        guarantees=(KAnonymity(k=4), DistinctLDiversity(column="ill", l=2)),
        base=Facts(),
        place="transform[0]",
    )
    stage = Mondrian(columns=keys, labels=labels)
    found, released = made(embedded, stage, scanned(embedded, rows), context)
    classes: dict[Any, list[Any]] = {}
    for row in released.to_pylist():
        raw = rows.slice(row["key"], 1).to_pylist()[0]
        assert all(covers(row[name], raw[name]) for name in keys), (row, raw)
        assert row["ill"] == raw["ill"]
        classes.setdefault(tuple(row[name] for name in keys), []).append(row["ill"])
    assert len(classes) == found.detail["classes"] > 5
    assert all(len(members) >= 4 and len(set(members)) >= 2 for members in classes.values())
    text = json.dumps(found.detail)
    assert not any(str(cell) in text for cell in ("Ashford", "gout", "1990-01-01"))
    assert 0 < found.detail["gcp"] < 1
    bounded = " ".join(str(cell) for cell in released.column("born").to_pylist())
    assert ("1990-01-01" in bounded) == (labels == "values")  # cells do not tell the extremes


def test_a_column_that_stays_whole_keeps_its_type(embedded: Engine, people: pa.Table) -> None:
    rows = people.select(["age", "ill"])
    context = context_of(rows, ("ill",), guarantees=(KAnonymity(k=1),))
    found, released = made(embedded, Mondrian(columns=["age"]), scanned(embedded, rows), context)
    assert found.detail["recoded"] == []
    assert released.schema == rows.schema
    assert sorted(released.column("age").to_pylist()) == sorted(rows.column("age").to_pylist())


def test_rules_over_all_classes_make_larger_parts(embedded: Engine, people: pa.Table) -> None:
    rows = people.select(["age", "rent"])
    stage = Mondrian(columns=["age", "rent"])
    ks = []
    for guarantee in (KAnonymity(k=3), AverageRisk(at_most=0.08)):
        context = context_of(rows, guarantees=(guarantee,))
        found, released = made(embedded, stage, scanned(embedded, rows), context)
        ks.append(found.detail["k"])
    classes = Counter(map(str, released.to_pylist()))
    assert len(classes) / len(rows) <= 0.08
    assert ks[1] > ks[0] == 3
    smaller = Mondrian(columns=["age", "rent"], k=ks[1] - 1)
    assert plan(embedded, scanned(embedded, rows), smaller, context).detail["k"] == ks[1]
    own = plan(embedded, scanned(embedded, rows), Mondrian(columns=["age", "rent"], k=30), context).detail
    assert own["k"] == 30


def test_parts_with_one_label_are_judged_as_one(embedded: Engine) -> None:
    """Delta-disclosure passes a part without a value, and fails the whole that two such parts make."""
    tree = [["v0", "*"], ["v1", "*"], ["v2", "*"], ["v3", "*"]]
    values = ["v0", "v1", "v2", "v3"]
    cells = [(value, ill) for at, value in enumerate(values) for ill in (["flu"] * 5 if at < 2 else ["gout"] * 5)]
    rows = pa.table({"a": [cell[0] for cell in cells], "ill": [cell[1] for cell in cells]})
    spec = HierarchySpec.from_hierarchy(Hierarchy.from_rows(tree), column="a")
    table = scanned(embedded, rows)
    guarantees = (KAnonymity(k=8), DeltaDisclosure(column="ill", delta=1.5))
    facts = prepared(embedded.facts(table, FactsRequest(histograms=("ill",))), guarantees)
    context = context_of(rows, ("ill",), hierarchies={"a": spec}, guarantees=guarantees, base=facts)
    found, released = made(embedded, Mondrian(), table, context)
    assert found.detail["classes"] == 1
    assert set(released.column("a").to_pylist()) == {"*"}


def test_what_is_refused(embedded: Engine, people: pa.Table) -> None:
    rows = people.select(["age", "town", "ill"])
    table = scanned(embedded, rows)

    def asked(stage: Mondrian, **options: Any) -> StagePlan:
        options.setdefault("guarantees", (KAnonymity(k=3),))
        return plan(embedded, table, stage, context_of(rows, ("ill",), **options))

    ages = Mondrian(columns=["age"])
    with pytest.raises(UsageError, match="no quasi-identifier has a `hierarchy:`; name the `columns:`"):
        asked(Mondrian())
    with pytest.raises(UsageError, match="'ill' is not a quasi-identifier"):
        asked(Mondrian(columns=["ill"]))
    with pytest.raises(UsageError, match="needs a guarantee over classes"):
        asked(ages, guarantees=())
    assert asked(Mondrian(columns=["age"], k=4), guarantees=()).detail["k"] == 4
    with pytest.raises(NoSolutionError, match="k = 121 is more than the 120 records"):
        asked(Mondrian(columns=["age"], k=121), guarantees=())
    with pytest.raises(NoSolutionError, match="it has 120 records"):
        asked(ages, guarantees=(KAnonymity(k=121),))
    with pytest.raises(NoSolutionError, match=r"120 of 120 records would be left .*'town' stay unchanged"):
        asked(ages, guarantees=(KAnonymity(k=31),))
    assert asked(ages, guarantees=(KAnonymity(k=31, quasi_identifiers=("age",)),)).detail["fixed"] == []
    facts = embedded.facts(table, FactsRequest(histograms=("ill",)))
    close = TCloseness(column="ill", t=0.0)
    uneven = plan(
        embedded, table, Mondrian(columns=["age", "town"]), context_of(rows, ("ill",), guarantees=(close,), base=facts)
    )
    assert uneven.detail["classes"] >= 1
    mixed = HierarchySpec.from_mapping({"tree": {"*": {"x": ["Ashford", "Barrow"], "Crewe": ["x1"]}}}, column="town")
    clash = HierarchySpec.from_hierarchy(
        Hierarchy.from_rows([["Ashford", "Crewe", "*"], ["Barrow", "Crewe", "*"], ["Crewe", "c", "*"]]), column="town"
    )
    with pytest.raises(HierarchyError, match="label_collision"):
        asked(Mondrian(), hierarchies={"town": clash})
    with pytest.raises(HierarchyError, match="not in"):
        asked(Mondrian(), hierarchies={"town": mixed})
    few = HierarchySpec.from_mapping(
        {"tree": {"*": {"x": ["Ashford", "Barrow"]}}, "unknown": "suppress"}, column="town"
    )
    with pytest.raises(NoSolutionError, match="30 records have a value that the hierarchy of 'town' lacks"):
        asked(Mondrian(), hierarchies={"town": few})
    with pytest.raises(GAPS["*", "cells counted otherwise"].raises):
        asked(ages, guarantees=(KMap(k=2),))
    with pytest.raises(UsageError, match="mode relaxed cuts through"):
        Mondrian(mode="relaxed", score="loss")


def test_a_plan_fits_the_table_it_was_made_for(embedded: Engine, people: pa.Table) -> None:
    rows = people.select(["age"])
    context = context_of(rows, guarantees=(KAnonymity(k=5),))
    stage = Mondrian(columns=["age"])
    found = plan(embedded, scanned(embedded, rows), stage, context)
    other = rows.slice(0, 60).append_column("b", pa.array(range(60))).select(["age"])
    other = pa.table({"age": pa.array([age + 1 for age in other.column("age").to_pylist()])})
    with pytest.raises(DataError, match="'age' are not those the plan was made with"):
        stage.run(embedded, scanned(embedded, other), found, Draws(SEED, 0, "mondrian"), context)


def test_relaxed_trees(engine: Engine, embedded: Engine, people: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the records of each part on either side, whatever their values; the same tree wherever they lie."""
    rows = people.select(["age", "town", "ill"])
    stage = Mondrian(columns=["age", "town"], mode="relaxed", k=3)
    guarantees = (DistinctLDiversity(column="ill", l=2),)
    context = context_of(rows, ("ill",), guarantees=guarantees)
    found = []
    for order in (range(120), [*range(1, 120, 2), *range(0, 120, 2)]):
        table = scanned(engine, rows.take(pa.array(order)))
        detail, released = made(engine, stage, table, context)
        found.append((detail.detail, Counter(map(str, released.to_pylist()))))
    assert found[0] == found[1]
    wanted, local = made(embedded, stage, scanned(embedded, rows), context)
    assert found[0] == (wanted.detail, Counter(map(str, local.to_pylist())))
    assert len(released) == 120
    parts = Counter((row["age"], row["town"]) for row in released.to_pylist())
    assert min(parts.values()) >= 3
    assert found[0][0]["tree"]["leaves"] > 10
    monkeypatch.setattr("privpipe.transforms.mondrian.mondrian.MOST_COMBINATIONS", 119)
    with pytest.raises(UnsupportedError, match="all 120 are held at once, and it serves 119; write mode: strict"):
        plan(engine, scanned(engine, rows), stage, context)


def test_passes_over_a_large_table_make_the_local_tree(
    engine: Engine, embedded: Engine, people: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    import privpipe.transforms.mondrian.mondrian as planner

    rows = people.select(["age", "rent", "town"])
    spec = HierarchySpec.from_mapping({"priority": {"levels": 2, "order": "frequency"}}, column="town")
    numbers = {"columns": ["age", "rent"]}
    cases: tuple[tuple[dict[str, Any], tuple[Any, ...]], ...] = (
        ({"columns": ["age", "rent", "town"]}, (KAnonymity(k=3),)),
        (numbers, (KAnonymity(k=2), AverageRisk(at_most=0.3))),
    )
    for parameters, guarantees in cases:
        context = context_of(rows, hierarchies={"town": spec}, guarantees=guarantees)
        local = plan(embedded, scanned(embedded, rows), Mondrian(**parameters), context).detail
        # On Spark each pass is a job: one is enough.
        for most in (60, 17, 1) if engine.name != "spark" else (60,):
            with monkeypatch.context() as patch:
                patch.setattr(planner, "MOST_COMBINATIONS", most)
                found = plan(engine, scanned(engine, rows), Mondrian(**parameters), context).detail
            assert found | {"tuples": None} == local | {"tuples": None}
        if engine.name == "spark":
            return
    monkeypatch.setattr(planner, "MOST_COMBINATIONS", 17)
    for stage in (Mondrian(**numbers, score="loss"), Mondrian(**numbers, mode="relaxed")):
        with pytest.raises(UnsupportedError):
            plan(engine, scanned(engine, rows), stage, context)
    visits = rows.append_column("who", pa.array([f"w{at // 2}" for at in range(len(rows))]))
    context = context_of(visits, hierarchies={"town": spec}, guarantees=(KAnonymity(k=3),), person="who")
    with pytest.raises(UnsupportedError, match="not numbers of persons; generalize some columns"):
        plan(engine, scanned(engine, visits), Mondrian(**numbers), context)


def test_a_plan_shows_no_more_of_values_than_labels_do(embedded: Engine, people: pa.Table) -> None:
    """Ranges in a plan are those of the labels: cells of numbers, whole nodes of a hierarchy."""
    rows = people.select(["age", "rent"])
    groups = {"age": HierarchySpec.from_mapping({"intervals": {"start": 20, "widths": [10, 20]}}, column="age")}
    context = context_of(rows, hierarchies=groups, guarantees=(KAnonymity(k=7),))
    found = plan(embedded, scanned(embedded, rows), Mondrian(columns=["age", "rent"]), context).detail
    tree = CutTree.unpacked(found["tree"])
    spans = {(int(low), int(high)) for low, high in zip(tree.lows[:, 0], tree.highs[:, 0], strict=True)}
    assert all((high - low + 1) in (1, 10, 20, 40) and low % (high - low + 1) == 0 for low, high in spans)
    assert any(high > low for low, high in spans)
    size = len(set(rows.column("rent").to_pylist()))
    first, last = tree.cells([40, size])
    assert (tree.lows[:, 1] == first[:, 1]).all()
    assert (tree.highs[:, 1] == last[:, 1]).all()


def test_a_missing_value_is_part_of_a_cell_only_where_there_is_one(embedded: Engine) -> None:
    """The last interval is open above, not anything, where the records without a number are elsewhere."""
    rows = pa.table({"a": pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, *[None] * 6])})
    context = context_of(rows, guarantees=(KAnonymity(k=3),))
    _, released = made(embedded, Mondrian(columns=["a"]), scanned(embedded, rows), context)
    assert Counter(released.column("a").to_pylist()) == {"<4": 3, ">=4": 3, None: 6}
    mixed = pa.table({"a": pa.array([1, 2, 3, None, 5, 6])})
    context = context_of(mixed, guarantees=(KAnonymity(k=3),))
    found, released = made(embedded, Mondrian(columns=["a"]), scanned(embedded, mixed), context)
    assert Counter(released.column("a").to_pylist()) == {"<5": 3, "*": 3}
    assert found.detail["gcp"] == pytest.approx((3 * 2 / 5 + 3 * 1) / 6)
    assert found.detail["records_without_information"] == 0


def test_penalties_of_integers_that_doubles_do_not_tell_apart(embedded: Engine) -> None:
    """NCP is a matter of differences: an offset beyond 2^53 changes none."""
    found = []
    for offset in (0, 2**60, -(2**63)):
        rows = pa.table({"age": [offset + at for at in range(20)], "kids": [0, None] * 10})
        context = context_of(rows, guarantees=(KAnonymity(k=4),))
        detail = plan(embedded, scanned(embedded, rows), Mondrian(columns=("age", "kids")), context).detail
        found.append((detail["gcp"], detail["cell_loss"]))
    assert found[0][0] > 0
    assert found == [found[0]] * 3

"""Search and suppression next to a population, in persons and under wildcards, against brute force by definition."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import ClassModel, Facts, Guarantee, Histogram
from privpipe.errors import DataError, NoSolutionError, UnsupportedError
from privpipe.kernels.quality import MODELS
from privpipe.kernels.quality.loss import LossModel
from privpipe.models import (
    AlphaKAnonymity,
    AverageRisk,
    BasicBetaLikeness,
    DeltaPresence,
    DistinctLDiversity,
    EntropyLDiversity,
    JournalistProfitability,
    KAnonymity,
    KMap,
    ProsecutorProfitability,
    PSensitiveKAnonymity,
    RecursiveCLDiversity,
    SampleUniqueness,
    TCloseness,
)
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.suppression.record_suppression import suppress_failing
from tests.tiers import at_most

TREES = {
    "a": [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"], ["v4", "g1", "*"]],
    "b": [["w0", "h0", "*"], ["w1", "h0", "*"], ["w2", "h1", "*"]],
}
AMOUNTS = {"publisher_benefit": 20.0, "publisher_loss": 30.0, "adversary_gain": 10.0, "adversary_cost": 3.0}


@dataclass(frozen=True)
class Case:
    """A small problem with what is counted next to its records."""

    problem: Any
    who: tuple[int, ...] | None = None
    population: tuple[tuple[str | None, ...], ...] | None = None
    nulls: str = "own_value"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.problem.keys)

    @property
    def table(self) -> pa.Table:
        if self.who is None:
            return self.problem.table
        return self.problem.table.append_column("who", pa.array([f"p{number}" for number in self.who]))

    @property
    def context(self) -> Any:
        counts = self.values(range(len(self.problem)))
        everybody = None if self.who is None else len(set(self.who))
        base = Histogram(pa.array(sorted(counts)), np.array([counts[value] for value in sorted(counts)]), everybody)
        cells = {name: [person[at] for person in self.population or ()] for at, name in enumerate(self.keys)}
        return replace(
            self.problem.context,
            person=None if self.who is None else "who",
            population=None
            if self.population is None
            else pa.table(cells, pa.schema([(n, pa.string()) for n in cells])),
            nulls=self.nulls,
            base=Facts(records=len(self.problem), histograms={"ill": base}),
        )

    def size(self, rows: Sequence[int] | range) -> int:
        return len(rows) if self.who is None else len({self.who[row] for row in rows})

    def values(self, rows: Sequence[int] | range) -> Counter[str]:
        ill = self.problem.rows["ill"]
        if self.who is None:
            return Counter(ill[row] for row in rows)
        return Counter(value for value, _ in {(ill[row], self.who[row]) for row in rows})

    def different(self, rows: Sequence[int]) -> Counter[Any]:
        """What l-diversity counts: sets of values of persons, and one alone where all have some value in common."""
        held: dict[int, set[str]] = {}
        for row in rows:
            held.setdefault(row if self.who is None else self.who[row], set()).add(self.problem.rows["ill"][row])
        shared = frozenset(set.intersection(*held.values()))
        return Counter({shared: len(held)}) if shared else Counter(map(frozenset, held.values()))

    def suppressed(self, node: Sequence[int]) -> tuple[set[int], bool]:
        """Rows that go at a node, and whether what is left meets everything."""
        labels = self.problem.labels(node)
        inhabitants = [self.label(person, node) for person in self.population or ()]
        gone: set[int] = set()

        def classes(keys: Sequence[str], rows: set[int]) -> dict[Any, list[int]]:
            groups: dict[Any, list[int]] = {}
            for row in sorted(rows):
                groups.setdefault(tuple(labels[key][row] for key in keys), []).append(row)
            return groups

        everybody = set(range(len(self.problem)))
        hopeless = False
        for guarantee in self.problem.guarantees:
            keys = self.keys_of(guarantee)
            known = {tuple(person[self.keys.index(key)] for key in keys) for person in inhabitants}
            if isinstance(guarantee, DeltaPresence) and guarantee.min > 0:
                hopeless |= bool(known - set(classes(keys, everybody)))
        while True:
            left = everybody - gone
            failing = {
                row
                for guarantee in self.problem.guarantees
                if isinstance(guarantee, ClassModel)
                for key, rows in classes(self.keys_of(guarantee), left).items()
                if not self.passes(guarantee, key, rows, node, inhabitants)
                for row in rows
            }
            gone |= failing
            if gone == everybody:
                return gone, not hopeless
            if failing:
                continue
            before = len(gone)
            for guarantee in self.problem.guarantees:
                if not isinstance(guarantee, ClassModel):
                    keys = self.keys_of(guarantee)
                    order = sorted(
                        classes(keys, everybody - gone).items(),
                        key=lambda item: (
                            self.size(item[1]),
                            self.own(keys, item[1][0], node),
                            [(t is None, t or "") for t in item[0]],
                        ),
                    )
                    sizes = [self.size(rows) for _, rows in order]
                    prefix = next((at for at in range(len(order)) if self.meets(guarantee, sizes[at:])), None)
                    if prefix is None:
                        return gone, False
                    gone |= {row for _, rows in order[:prefix] for row in rows}
            if len(gone) == before:
                return gone, not hopeless

    def keys_of(self, guarantee: Guarantee) -> tuple[str, ...]:
        return self.keys if guarantee.quasi_identifiers is None else guarantee.quasi_identifiers

    def label(self, person: Sequence[str | None], node: Sequence[int]) -> tuple[str | None, ...]:
        levels = dict(zip(self.problem.columns, node, strict=True))
        found = []
        for name, value in zip(self.keys, person, strict=True):
            rows = {row[0]: row for row in self.problem.hierarchies.get(name, [])}
            found.append(rows[value][levels[name]] if name in levels else value)  # type: ignore[index]
        return tuple(found)

    def own(self, keys: Sequence[str], row: int, node: Sequence[int]) -> list[float]:
        columns = [name for name in self.problem.columns if name in keys]
        levels = dict(zip(self.problem.columns, node, strict=True))
        each = [
            self.problem.unit(name, self.problem.share(name, self.problem.rows[name][row], levels[name]))
            for name in columns
        ]
        return [round(figure, 12) for figure in self.problem.aggregated(columns, each)]

    def meets(self, guarantee: Guarantee, sizes: Sequence[int]) -> bool:
        if isinstance(guarantee, AverageRisk):
            return len(sizes) / sum(sizes) <= guarantee.at_most + 1e-9
        assert isinstance(guarantee, SampleUniqueness)
        return sizes.count(1) / sum(sizes) <= guarantee.at_most + 1e-9

    def passes(
        self, guarantee: Guarantee, key: Any, rows: Sequence[int], node: Sequence[int], inhabitants: Sequence[Any]
    ) -> bool:
        n, counts = self.size(rows), self.values(rows)
        places = [self.keys.index(name) for name in self.keys_of(guarantee)]
        crowd = sum(tuple(person[place] for place in places) == key for person in inhabitants)
        match guarantee:
            case KAnonymity():
                return n >= guarantee.k
            case DistinctLDiversity():
                return len(self.different(rows)) >= guarantee.l
            case EntropyLDiversity():
                shares = [Fraction(count, n) for count in self.different(rows).values()]
                return math.exp(-sum(share * math.log(share) for share in shares)) >= guarantee.l - 1e-9
            case RecursiveCLDiversity():
                first, *others = sorted(self.different(rows).values(), reverse=True)
                return first < guarantee.c * sum(others[guarantee.l - 2 :]) - 1e-9
            case AlphaKAnonymity():
                return n >= guarantee.k and max(counts.values()) / n <= guarantee.alpha + 1e-9
            case BasicBetaLikeness():
                base, everybody = self.values(range(len(self.problem))), self.size(range(len(self.problem)))
                p = {value: Fraction(count, everybody) for value, count in base.items()}
                return max((Fraction(counts[v], n) - p[v]) / p[v] for v in counts) <= guarantee.beta + 1e-9
            case TCloseness():
                base = self.values(range(len(self.problem)))
                gaps = (abs(Fraction(counts[v], counts.total()) - Fraction(base[v], base.total())) for v in base)
                return float(sum(gaps) / 2) <= guarantee.t + 1e-9
            case KMap():
                return crowd >= guarantee.k
            case DeltaPresence():
                return guarantee.min - 1e-9 <= n / crowd <= guarantee.max + 1e-9
            case ProsecutorProfitability():
                size = crowd if isinstance(guarantee, JournalistProfitability) else n
                if guarantee.no_attack:
                    return size * guarantee.adversary_cost > guarantee.adversary_gain
                attacked = guarantee.adversary_gain / size > guarantee.adversary_cost
                loss = guarantee.publisher_loss / size if attacked else 0.0
                return guarantee.publisher_benefit * (1 - self.lost(guarantee, rows[0], node)) - loss > 1e-9
        raise LookupError(guarantee.name())

    def lost(self, guarantee: Guarantee, row: int, node: Sequence[int]) -> float:
        levels = dict(zip(self.problem.columns, node, strict=True))
        logs = domain = 0.0
        for name in self.keys_of(guarantee):
            if name in levels:
                size = len(self.problem.hierarchies[name])
                share = float(self.problem.share(name, self.problem.rows[name][row], levels[name]))
            else:
                size = len(set(self.problem.rows[name]))
                share = 1 / size
            logs, domain = logs + math.log(share), domain + math.log(size)
        return min(1.0, max(0.0, 1 + logs / domain)) if domain else 0.0

    def optimum(self) -> tuple[list[float], set[int]] | None:
        found = []
        for node in self.problem.nodes():
            gone, met = self.suppressed(node)
            n = len(self.problem)
            if met and len(gone) <= floor_share(self.problem.limit, n) and len(gone) < n:
                found.append((self.problem.exact_loss(node, gone), node, gone))
        return None if not found else min(found)[::2]


def guarantee_of(draw: random.Random, keys: Sequence[str], kind: str) -> Guarantee:
    own: dict[str, Any] = {}
    if draw.random() < 0.35:
        own["quasi_identifiers"] = tuple(draw.sample(list(keys), draw.randint(1, len(keys))))
    plain = [
        KAnonymity(k=draw.randint(1, 4), **own),
        DistinctLDiversity(column="ill", l=draw.randint(1, 4), **own),
        EntropyLDiversity(column="ill", l=draw.choice([1.5, 2.0, 2.5]), **own),
        RecursiveCLDiversity(column="ill", l=2, c=draw.choice([0.8, 1.5, 3.0]), **own),
        AlphaKAnonymity(column="ill", k=1, alpha=draw.choice([0.5, 0.7, 0.9]), **own),
        BasicBetaLikeness(column="ill", beta=draw.choice([0.5, 1.0, 2.0]), **own),
        TCloseness(column="ill", t=draw.choice([0.2, 0.35, 0.5]), **own),
        AverageRisk(at_most=draw.choice([0.25, 0.4]), **own),
        SampleUniqueness(at_most=draw.choice([0.0, 0.1]), **own),
    ]
    no_attack = draw.random() < 0.3
    special = {
        "persons": plain,
        "wildcard": [plain[0], *plain[-2:]],
        "labels": [ProsecutorProfitability(**AMOUNTS, no_attack=no_attack, **own)],
        "population": [
            KMap(k=draw.randint(1, 9), **own),
            DeltaPresence(min=draw.choice([0.0, 0.0, 0.1, 0.3]), max=draw.choice([0.4, 0.6, 1.0]), **own),
            JournalistProfitability(**AMOUNTS, no_attack=no_attack, **own),
        ],
    }[kind]
    return draw.choice(special if draw.random() < 0.7 or kind == "wildcard" else plain)


def case_of(make_problem: Any, seed: int, kind: str) -> Case:
    draw = random.Random(seed)
    columns = ("a", "b")[: draw.randint(1, 2)]
    n = draw.choice([1, 6, 12, 20, 30])
    rows: dict[str, list[str | None]] = {
        name: [TREES[name][int(len(TREES[name]) * draw.random() ** 1.5)][0] for _ in range(n)] for name in columns
    }
    if draw.random() < 0.4:
        rows["fixed"] = draw.choices(["x", "y", None], [6, 3, 2], k=n)
    keys = list(rows)
    people = list(zip(*(rows[name] for name in keys), strict=True))
    everybody = people * draw.randint(1, 3)
    for _ in range(draw.choice([0, 5, 25])):
        stranger = [
            draw.choice(TREES[name])[0] if name in TREES else draw.choice(["x", "y", "z", None]) for name in keys
        ]
        everybody.append(tuple(stranger))
    draw.shuffle(everybody)
    rows["ill"] = draw.choices(["flu", "gout", "ulcer"], [3, 2, 1], k=n)
    problem = make_problem(
        rows=rows,
        hierarchies={name: TREES[name] for name in columns},
        guarantees=tuple(guarantee_of(draw, keys, kind) for _ in range(draw.choice([1, 2, 2, 3]))),
        limit=draw.choice([0.0, 0.1, 0.3, 1.0]),
    )
    return Case(
        problem,
        who=tuple(draw.randrange(max(1, n // 2)) for _ in range(n)) if kind == "persons" else None,
        population=tuple(everybody) if kind == "population" else None,
        nulls="wildcard" if kind == "wildcard" else "own_value",
    )


class WithCount:
    """An engine that counts combinations, and all records."""

    def __init__(self, plain: Any) -> None:
        self.distinct = plain.distinct

    def count(self, table: pa.Table) -> int:
        return int(table.num_rows)


@pytest.mark.parametrize("kind", ["population", "persons", "labels", "wildcard"])
@settings(max_examples=at_most(40))
@given(seed=st.integers(0, 2**40))
def test_every_node_and_the_optimum_by_definition(plain: Any, make_problem: Any, kind: str, seed: int) -> None:
    case = case_of(make_problem, seed, kind)
    engine, context, problem = WithCount(plain), case.context, case.problem
    encoded = encode(engine, case.table, problem.stage, context)
    check = NodeCheck(encoded, context, LossModel(encoded, problem.loss))
    outcomes = {}
    for node in problem.nodes():
        gone, met = case.suppressed(node)
        found = check(node)
        if met and len(gone) < len(problem):
            assert found.suppressed == len(gone), (node, problem.guarantees)
            loss, _ = check.loss.exact(node, found.rows)
            assert list(loss) == pytest.approx(problem.exact_loss(node, gone), rel=1e-9, abs=1e-12)
        else:
            assert found.suppressed == -1, (node, problem.guarantees)
        outcomes[node] = (len(problem) + 1 if not met else len(gone)), found.must_go
    for node, (_, must_go) in outcomes.items():  # what a search may conclude of finer nodes
        for finer, (gone, _) in outcomes.items():
            if all(a <= b for a, b in zip(finer, node, strict=True)):
                assert min(must_go, len(problem) + 1) <= gone, (node, finer, problem.guarantees)
    best = case.optimum()
    try:
        detail = plan(engine, case.table, problem.stage, context).detail
    except NoSolutionError:
        assert best is None
        return
    assert best is not None
    assert detail["optimal"]
    assert detail["loss"] == pytest.approx(best[0][0], abs=1e-9)


@settings(max_examples=at_most(25))
@given(seed=st.integers(0, 2**40))
def test_a_table_unchanged(embedded: Any, make_problem: Any, seed: int) -> None:
    """Suppression on an engine removes exactly the rows that the definition names, at the raw levels."""
    from privpipe.draws import Seed
    from privpipe.engines import Source

    kind = ("population", "persons", "wildcard")[seed % 3]
    case = case_of(make_problem, seed, kind)
    context = case.context
    numbered = case.table.append_column("row", pa.array(range(len(case.problem))))
    table = embedded.with_record_ids(embedded.scan(Source(data=numbered)), "row", Seed.insecure(1))
    if context.population is not None:
        context = replace(context, population=embedded.scan(Source(data=context.population)))
    # Without a quality model ties of size go by the class key alone.
    bare = replace(case, problem=_Untied(case.problem))
    gone, met = bare.suppressed(tuple(0 for _ in case.problem.columns))
    try:
        kept = suppress_failing(embedded, table, context, 1.0, serves=Generalize.serves)
    except NoSolutionError:
        assert not met or len(gone) == len(case.problem)
        return
    assert met
    assert set(embedded.collect(kept)["row"].to_pylist()) == set(range(len(case.problem))) - gone


class _Untied:
    """A problem whose classes have no loss of their own."""

    def __init__(self, problem: Any) -> None:
        self._problem = problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def __len__(self) -> int:
        return len(self._problem)

    def aggregated(self, columns: Sequence[str], each: Sequence[Any]) -> list[float]:
        return []


def test_a_sample_of_another_population_is_refused(plain: Any, make_problem: Any) -> None:
    rows = {"a": ["v0", "v1", "v1"], "ill": ["flu"] * 3}
    problem = make_problem(rows, {"a": TREES["a"]}, (KMap(k=1),), limit=1.0)
    case = Case(problem, population=(("v0",), ("v1",), ("v2",)))
    with pytest.raises(DataError, match=r"1 of 2 classes hold more records than the population does \(2 records\)"):
        plan(WithCount(plain), case.table, problem.stage, case.context)
    # At the given levels the population holds everyone.
    given_levels = Generalize(levels={"a": 1}, suppress_at_most=0.0)
    with pytest.raises(DataError, match="1 of 1 classes"):
        plan(WithCount(plain), case.table, given_levels, case.context)
    larger = replace(case, population=(("v0",), ("v0",), ("v1",), ("v2",)))
    assert plan(WithCount(plain), case.table, given_levels, larger.context).detail["levels"] == {"a": 1}


def test_what_a_population_needs(plain: Any, make_problem: Any) -> None:
    rows = {"a": ["v0", "v1"], "ill": ["flu"] * 2}
    problem = make_problem(rows, {"a": TREES["a"]}, (KMap(k=1),), limit=1.0)
    with pytest.raises(UnsupportedError, match="needs the raw one"):
        plan(WithCount(plain), problem.table, problem.stage, problem.context)
    foreign = Case(problem, population=(("v0",), ("v1",), ("elsewhere",)))
    with pytest.raises(DataError) as caught:
        plan(WithCount(plain), problem.table, problem.stage, foreign.context)
    assert "population" in str(caught.value)
    assert "elsewhere" not in str(caught.value)
    persons = replace(foreign.context, person="who")
    with pytest.raises(UnsupportedError, match="the policy requires persons"):
        plan(WithCount(plain), problem.table, problem.stage, persons)


def test_a_missing_value_of_the_population_is_not_text(plain: Any, make_problem: Any) -> None:
    """The text "null" and a missing value are two values, and at level 0 two classes, in the population too."""
    rows = {"a": ["null", None, "v0"], "ill": ["flu"] * 3}
    tree = [["null", "g0", "*"], ["v0", "g0", "*"]]
    problem = make_problem(rows, {"a": tree}, (KMap(k=2),), limit=1.0)
    case = Case(problem, population=(("null",), (None,), (None,), ("v0",)))
    context = case.context
    found = encode(WithCount(plain), case.table, problem.stage, context)
    assert found.population_counts is not None
    counts = {level: found.population_counts((level,)).tolist() for level in (0, 1, 2)}
    assert sorted(counts[0]) == [1, 1, 2]
    assert sorted(counts[1]) == [2, 2, 2]
    assert counts[2] == [4, 4, 4]


def test_a_person_must_be_known(plain: Any, make_problem: Any) -> None:
    problem = make_problem({"a": ["v0", "v1"], "ill": ["flu"] * 2}, {"a": TREES["a"]}, (KAnonymity(k=1),))
    case = Case(problem, who=(0, 1))
    table = problem.table.append_column("who", pa.array(["p0", None]))
    with pytest.raises(DataError, match="person column 'who' has missing values"):
        plan(WithCount(plain), table, problem.stage, case.context)


def test_in_persons_nothing_follows_for_finer_levels_from_convex_models(plain: Any, make_problem: Any) -> None:
    """Two passing parts, one person in both: the whole fails, so a failing node must not take the finer ones along."""
    rows = {"a": ["v0", "v0", "v1", "v1"], "ill": ["flu", "gout", "flu", "gout"]}
    # v0: flu p0, gout p1. v1: flu p0, gout p2. Together: flu {p0}, gout {p1, p2}; the base is the same.
    problem = make_problem(rows, {"a": TREES["a"]}, (TCloseness(column="ill", t=0.4),))
    case = Case(problem, who=(0, 1, 0, 2))
    encoded = encode(WithCount(plain), case.table, problem.stage, case.context)
    check = NodeCheck(encoded, case.context, LossModel(encoded, problem.loss))
    assert not any(check.sets.convex(model) for group in check.sets.class_models.values() for model in group)


def test_in_persons_values_are_not_hereditary(plain: Any, make_problem: Any) -> None:
    """Two persons have flu and gout in one town, gout and flu in the other: both towns pass l = 2, together none does.

    A search that took the failing whole for a sign of failing parts would find nothing.
    """
    rows = {"a": ["v0", "v0", "v1", "v1"], "ill": ["flu", "gout", "gout", "flu"]}
    for model in (DistinctLDiversity(column="ill", l=2), PSensitiveKAnonymity(columns=("ill",), k=2, p=2)):
        problem = make_problem(rows, {"a": TREES["a"]}, (model,))
        case = Case(problem, who=(0, 1, 0, 1))
        detail = plan(WithCount(plain), case.table, problem.stage, case.context).detail
        assert detail["levels"] == {"a": 0}
        whole = replace(problem, guarantees=(replace(model, quasi_identifiers=()),))
        with pytest.raises(NoSolutionError):
            plan(WithCount(plain), case.table, problem.stage, replace(case, problem=whole).context)


def test_two_values_make_three_sets(plain: Any, make_problem: Any) -> None:
    """Persons with flu, with gout and with both: l = 3 of two values, which no records can meet."""
    rows = {"a": ["v0", "v1", "v0", "v1"], "ill": ["flu", "gout", "flu", "gout"]}
    problem = make_problem(rows, {"a": TREES["a"]}, (DistinctLDiversity(column="ill", l=3),))
    case = Case(problem, who=(0, 1, 2, 2))
    assert plan(WithCount(plain), case.table, problem.stage, case.context).detail["levels"] == {"a": 1}
    with pytest.raises(NoSolutionError, match="'ill' has 2 distinct values"):
        plan(WithCount(plain), case.table, problem.stage, replace(case, who=None).context)


@pytest.mark.parametrize("name", MODELS)
def test_no_quality_model_minds_that_persons_are_distinguished(plain: Any, make_problem: Any, name: str) -> None:
    """A combination is then in several rows of the distinct table, at its own cost."""
    own: dict[str, dict[str, Any]] = {
        "static": {"penalties": {"a": [0.0, 0.1, 0.2], "b": [0.0, 0.5, 1.0]}},
        "classification": {"response": "ill"},
    }
    draw = random.Random(3)
    rows = {column: [draw.choice(tree)[0] for _ in range(40)] for column, tree in TREES.items()}
    rows["ill"] = draw.choices(["flu", "gout"], k=40)
    problem = make_problem(rows, TREES, (KAnonymity(k=1),), limit=1.0)
    stage = Generalize(loss=LossSpec(name=name, **own.get(name, {})), suppress_at_most=1.0)  # type: ignore[arg-type]
    losses = []
    for who in (None, tuple(draw.randrange(15) for _ in range(40))):
        case = Case(problem, who=who)
        encoded = encode(WithCount(plain), case.table, stage, case.context)
        model = searched_quality(encoded, stage, case.context)
        gone = np.zeros(len(encoded), dtype=np.bool_)
        losses.append([figure for node in problem.nodes() for figure in model.exact(node, gone)[0]])
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)

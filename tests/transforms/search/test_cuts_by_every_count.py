"""Mondrian and local recoding under wildcards and in persons: what they release, judged by definition, row by row."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import Facts, Histogram
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, NoSolutionError, UnsupportedError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import (
    AlphaKAnonymity,
    AverageRisk,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    SampleUniqueness,
    TCloseness,
)
from privpipe.models.identity.average_risk import StrictAverageRisk
from privpipe.roles import Roles
from privpipe.tolerance import floor_share
from privpipe.transforms import LocalRecoding, Mondrian
from privpipe.transforms.base import StageContext, StagePlan
from tests.tiers import at_most

SEED = Seed.insecure(1)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
TREES = {
    "a": [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]],
    "b": [["w0", "h0", "*"], ["w1", "h0", "*"], ["w2", "h1", "*"]],
}
STAGES = [
    Mondrian(),
    Mondrian(score="loss"),
    Mondrian(mode="relaxed"),
    LocalRecoding(suppress_at_most=0.3),
    LocalRecoding(method="search", suppress_at_most=0.3),
    LocalRecoding(method="rounds", suppress_at_most=0.3),
    LocalRecoding(rest="merge", share=0.2, suppress_at_most=0.3),
]


def scanned(engine: Engine, rows: pa.Table) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), "row", SEED)


def made(engine: Engine, stage: Any, rows: pa.Table, context: StageContext) -> tuple[StagePlan, dict[str, list[Any]]]:
    table = scanned(engine, rows)
    found = stage.learn(engine, table, context)
    released = engine.collect(stage.run(engine, table, found, Draws(SEED, 0, "cuts"), context))
    return found, released.sort_by("row").to_pydict()


def context_of(rows: pa.Table, guarantees: Any, **options: Any) -> StageContext:
    specs = {
        name: HierarchySpec.from_hierarchy(Hierarchy.from_rows(tree, column=name), column=name)
        for name, tree in TREES.items()
    }
    return StageContext(
        roles=Roles(quasi_identifiers=["a", "b"], sensitive=["ill"]),
        schema=rows.schema,
        hierarchies=specs,
        guarantees=tuple(guarantees),
        place="transform[0].cuts",
        **options,
    )


def blanked_rows(draw: random.Random, n: int) -> pa.Table:
    """Rows of which one cell in five is missing."""
    cells = {
        name: [None if draw.random() < 0.2 else tree[int(len(tree) * draw.random() ** 1.5)][0] for _ in range(n)]
        for name, tree in TREES.items()
    }
    return pa.table({**cells, "ill": ["flu"] * n, "row": [f"r{at:03d}" for at in range(n)]})


def matching(released: dict[str, list[Any]], wildcard: str | None) -> list[int]:
    """w of each row: equal or blank on either side in every column; a row of blanks matches rows of blanks."""
    cells = [
        tuple(None if cell == wildcard else cell for cell in pair)
        for pair in zip(released["a"], released["b"], strict=True)
    ]
    found = []
    for one in cells:
        blank = one == (None, None)
        found.append(
            sum(
                (other == (None, None)) == blank
                and all(x is None or y is None or x == y for x, y in zip(one, other, strict=True))
                for other in cells
            )
        )
    return found


def meets(guarantee: Any, sizes: list[int]) -> bool:
    risk = sum(1 / size for size in sizes) / len(sizes)
    match guarantee:
        case KAnonymity():
            return min(sizes) >= guarantee.k
        case AverageRisk():
            return risk <= guarantee.at_most + 1e-9
        case SampleUniqueness():
            return sizes.count(1) / len(sizes) <= guarantee.at_most + 1e-9
        case StrictAverageRisk():
            least = round(1 / guarantee.highest)
            return risk <= guarantee.at_most + 1e-9 and not any(size < least for size in sizes)
    raise LookupError(guarantee.name())


@pytest.mark.deep
@settings(max_examples=at_most(60), suppress_health_check=SLOW)
@given(seed=st.integers(0, 2**40), stage=st.sampled_from(STAGES), wildcard=st.sampled_from([None, "*"]))
def test_what_matches_meets_everything(embedded: Engine, seed: int, stage: Any, wildcard: str | None) -> None:
    draw = random.Random(seed)
    rows = blanked_rows(draw, draw.choice([4, 12, 25, 40]))
    guarantees = [KAnonymity(k=draw.randint(1, 4))]
    guarantees += draw.sample(
        [
            AverageRisk(at_most=draw.choice([0.2, 0.35])),
            SampleUniqueness(at_most=draw.choice([0.0, 0.1])),
            StrictAverageRisk(at_most=0.4, highest=0.5, records_at_risk=0.0),
        ],
        draw.randint(0, 1),
    )
    context = context_of(rows, guarantees, nulls="wildcard")
    plain = replace(context, nulls="own_value")
    try:
        found, released = made(embedded, stage, rows, context)
    except NoSolutionError:
        assert not all(meets(guarantee, [len(rows)] * len(rows)) for guarantee in guarantees)  # not even uncut
        with pytest.raises(NoSolutionError):
            made(embedded, stage, rows, plain)
        return
    sizes = matching(released, wildcard)
    assert all(meets(guarantee, sizes) for guarantee in guarantees)
    assert len(rows) - len(released["row"]) <= floor_share(getattr(stage, "suppress_at_most", 0.0), len(rows))
    other, same = made(embedded, stage, rows, plain)
    assert (found.detail, released) == (other.detail, same)  # a null is a value of its own


def visits(draw: random.Random, n: int) -> pa.Table:
    """Records of about half as many persons, some of whom have several combinations."""
    own = {who: [draw.choice(tree)[0] for tree in TREES.values()] for who in range(n)}
    people = [draw.randrange(max(1, n // 2)) for _ in range(n)]
    cells = [own[who] if draw.random() < 0.6 else [draw.choice(tree)[0] for tree in TREES.values()] for who in people]
    ill = draw.choices(["flu", "gout", "ulcer"], [3, 2, 1], k=n)
    who = [f"person {number}" for number in people]
    rows = [f"r{at:03d}" for at in range(n)]
    return pa.table({"a": [a for a, _ in cells], "b": [b for _, b in cells], "ill": ill, "who": who, "row": rows})


def value_sets(rows: list[tuple[str, str]]) -> Counter[frozenset[str]]:
    """The sets of illnesses that the persons of a class have; one alone where all have some illness in common."""
    held: dict[str, set[str]] = {}
    for ill, who in rows:
        held.setdefault(who, set()).add(ill)
    shared = frozenset(set.intersection(*held.values()))
    return Counter({shared: len(held)}) if shared else Counter(map(frozenset, held.values()))


def in_persons(guarantee: Any, rows: list[tuple[Any, Any, str, str]], base: Counter[str]) -> bool:
    """Whether released rows (a, b, illness, person) meet a guarantee, from its definition."""
    classes: dict[Any, list[tuple[str, str]]] = {}
    keys = guarantee.quasi_identifiers or ("a", "b")
    for a, b, ill, who in rows:
        classes.setdefault(tuple({"a": a, "b": b}[key] for key in keys), []).append((ill, who))
    sizes = [len({who for _, who in own}) for own in classes.values()]
    values = [Counter(ill for ill, _ in set(own)) for own in classes.values()]
    different = [value_sets(own) for own in classes.values()]
    match guarantee:
        case KAnonymity():
            return min(sizes) >= guarantee.k
        case DistinctLDiversity():
            return min(map(len, different)) >= guarantee.l
        case EntropyLDiversity():
            shares = [[Fraction(count, own.total()) for count in own.values()] for own in different]
            return all(math.exp(-sum(p * math.log(p) for p in own)) >= guarantee.l - 1e-9 for own in shares)
        case TCloseness():
            gaps = [
                sum(abs(Fraction(own[value], own.total()) - Fraction(base[value], base.total())) for value in base) / 2
                for own in values
            ]
            return max(gaps) <= guarantee.t + 1e-9
        case AlphaKAnonymity():
            shares = [max(own.values()) / size for own, size in zip(values, sizes, strict=True)]
            return min(sizes) >= guarantee.k and max(shares) <= guarantee.alpha + 1e-9
        case AverageRisk():
            return len(sizes) / sum(sizes) <= guarantee.at_most + 1e-9
        case SampleUniqueness():
            return sizes.count(1) / sum(sizes) <= guarantee.at_most + 1e-9
    raise LookupError(guarantee.name())


@pytest.mark.deep
@settings(max_examples=at_most(120), suppress_health_check=SLOW)
@given(seed=st.integers(0, 2**40), stage=st.sampled_from(STAGES))
def test_persons_meet_everything(embedded: Engine, seed: int, stage: Any) -> None:
    draw = random.Random(seed)
    rows = visits(draw, draw.choice([1, 8, 20, 40]))
    subset = {"quasi_identifiers": ("a",)} if draw.random() < 0.25 else {}
    guarantees = [
        KAnonymity(k=draw.randint(1, 4)),
        *draw.sample(
            [
                DistinctLDiversity(column="ill", l=2, **subset),
                DistinctLDiversity(column="ill", l=3, **subset),
                EntropyLDiversity(column="ill", l=1.7, **subset),
                AlphaKAnonymity(column="ill", k=1, alpha=draw.choice([0.5, 0.75]), **subset),
                TCloseness(column="ill", t=draw.choice([0.25, 0.4]), **subset),
                AverageRisk(at_most=draw.choice([0.2, 0.35]), **subset),
                SampleUniqueness(at_most=draw.choice([0.0, 0.1]), **subset),
            ],
            draw.randint(0, 2),
        ),
    ]
    everybody = sorted(set(zip(rows["ill"].to_pylist(), rows["who"].to_pylist(), strict=True)))
    base = Counter(ill for ill, _ in everybody)
    histogram = Histogram(pa.array(sorted(base)), np.array([base[value] for value in sorted(base)]))
    facts = Facts(records=len(rows), histograms={"ill": histogram})
    context = context_of(rows, guarantees, person="who", base=facts)
    try:
        found, released = made(embedded, stage, rows, context)
    except NoSolutionError:
        uncut = [
            ("*", "*", ill, who) for ill, who in zip(rows["ill"].to_pylist(), rows["who"].to_pylist(), strict=True)
        ]
        assert not all(in_persons(guarantee, uncut, base) for guarantee in guarantees)
        return
    kept = list(zip(*(released[name] for name in ("a", "b", "ill", "who")), strict=True))
    for guarantee in guarantees:
        assert in_persons(guarantee, kept, base), (guarantee, stage)
    gone = len(rows) - len(kept)
    assert gone <= floor_share(getattr(stage, "suppress_at_most", 0.0), len(rows))
    assert gone == found.detail.get("left", 0)
    assert found.detail["records"] == len(rows)


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_who_has_one_record_each_counts_as_records_do(embedded: Engine, stage: Any) -> None:
    for seed in range(4):
        rows = blanked_rows(random.Random(seed), 40)
        rows = rows.append_column("who", pa.array([f"w{at * 7 % 40}" for at in range(40)]))
        context = context_of(rows, [KAnonymity(k=3)])
        plain, released = made(embedded, stage, rows, context)
        found, same = made(embedded, stage, rows, replace(context, person="who"))
        if stage.name() == "mondrian" or stage.method == "rounds":
            # Bounds of a search are others in persons, not what it finds.
            first, second = (replace(each, detail={**each.detail, "nodes_checked": 0}) for each in (plain, found))
            assert (first.detail, released) == (second.detail, same)
        assert plain.detail["records"] == found.detail["records"] == 40


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_visits_of_one_person_are_not_a_crowd(embedded: Engine, stage: Any) -> None:
    """Twenty records of someone next to three of others: k = 3 in persons holds nowhere but in the whole."""
    rows = pa.table(
        {
            "a": ["v0"] * 20 + ["v1", "v2", "v3"],
            "b": ["w0"] * 20 + ["w0", "w1", "w2"],
            "ill": ["flu"] * 23,
            "who": ["x"] * 20 + ["y", "z", "u"],
            "row": [f"r{at:02d}" for at in range(23)],
        }
    )
    exact = replace(stage, suppress_at_most=0.0) if stage.name() == "local_recoding" else stage
    context = context_of(rows, [KAnonymity(k=3)], person="who")
    _, released = made(embedded, exact, rows, context)
    assert set(zip(released["a"], released["b"], strict=True)) == {("*", "*")}
    with pytest.raises(NoSolutionError):
        made(embedded, exact, rows, context_of(rows, [KAnonymity(k=5)], person="who"))


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_a_record_without_a_person_is_an_error(embedded: Engine, stage: Any) -> None:
    rows = visits(random.Random(2), 20)
    rows = rows.set_column(3, "who", pa.array([None, *rows["who"].to_pylist()[1:]]))
    with pytest.raises(DataError, match="person column 'who' has missing values"):
        made(embedded, stage, rows, context_of(rows, [KAnonymity(k=2)], person="who"))


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_models_without_a_meaning_under_wildcards_stay_refused(embedded: Engine, stage: Any) -> None:
    rows = blanked_rows(random.Random(1), 20)
    for guarantee in (DistinctLDiversity(column="ill", l=1), TCloseness(column="ill", t=0.5)):
        context = context_of(rows, (KAnonymity(k=2), guarantee), nulls="wildcard")
        with pytest.raises(UnsupportedError, match="there are no classes to judge it by"):
            made(embedded, stage, rows, context)

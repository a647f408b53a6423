"""Mondrian next to a population: labels that cover everyone, and persons counted by definition, row by row."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import Facts
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, NoSolutionError, UnsupportedError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import DeltaPresence, DistinctLDiversity, JournalistProfitability, KAnonymity, KMap
from privpipe.roles import Roles
from privpipe.transforms import LocalRecoding, Mondrian
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.mondrian import cut_search
from tests.tiers import at_most

SEED = Seed.insecure(1)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
TREE = [[f"v{at}", f"g{at // 2}", "*"] for at in range(6)]
KEYS = ("a", "n", "c")
KINDS = {"a": pa.string(), "n": pa.int64(), "c": pa.string()}
Person = tuple[Any, ...]


def table_of(persons: list[Person], *, sample: bool = False) -> pa.Table:
    found = {name: pa.array([person[at] for person in persons], KINDS[name]) for at, name in enumerate(KEYS)}
    if sample:
        found["ill"] = pa.array([("flu", "gout")[at % 2] for at in range(len(persons))])
    found["row"] = pa.array([f"r{at:03d}" for at in range(len(persons))], pa.string())
    return pa.table(found)


def context_of(engine: Engine, population: pa.Table, guarantees: Any, *, max_level: int = 2) -> StageContext:
    tree = Hierarchy.from_rows(TREE, column="a", max_level=max_level)
    return StageContext(
        roles=Roles(quasi_identifiers=KEYS, sensitive=["ill"]),
        schema=table_of([], sample=True).schema,
        hierarchies={"a": HierarchySpec.from_hierarchy(tree, column="a")},
        guarantees=tuple(guarantees),
        population=engine.scan(Source(data=population)),
        place="transform[0].mondrian",
    )


def made(
    engine: Engine, stage: Any, rows: pa.Table, context: StageContext, plan: StagePlan | None = None
) -> tuple[StagePlan, list[Person], list[Person]]:
    """The plan, what is released of each record, and what becomes of each person of the population."""
    table = engine.with_record_ids(engine.scan(Source(data=rows)), "row", SEED)
    found = stage.learn(engine, table, context) if plan is None else plan
    after = engine.collect(stage.population_after(engine, table, context.population, found, context)).sort_by("row")
    released = engine.collect(stage.run(engine, table, found, Draws(SEED, 0, "cuts"), context)).sort_by("row")
    return found, persons_of(released), persons_of(after)


def persons_of(table: pa.Table) -> list[Person]:
    return list(zip(*(table[name].to_pylist() for name in KEYS), strict=True))


def covers(name: str, label: Any, value: Any) -> bool:
    """Whether a label may represent a raw value, as a holder of the population reads it."""
    if label == "*" or label == value:
        return True
    if value is None or label is None:
        return name == "c" and str(label).startswith("{") and "null" in label[1:-1].split(", ")
    if name == "a":
        return any(label in row[1:] and row[0] == value for row in TREE)
    if name == "c":
        return bool(label.startswith("{") and value in label[1:-1].split(", "))
    label = str(label)
    if label[0] == "<":
        return value < int(label[1:])
    if label.startswith(">="):
        return value >= int(label[2:])
    if label[0] == "[":
        low, high = label[1:-1].split(", ")
        return int(low) <= value and (value < int(high) or (label[-1] == "]" and value == int(high)))
    return label == str(value)


def holds(guarantee: Any, released: list[Person], everybody: list[Person], ill: list[str]) -> bool:
    places = [KEYS.index(name) for name in guarantee.quasi_identifiers or KEYS]
    mine = [tuple(person[at] for at in places) for person in released]
    sizes = Counter(mine)
    theirs = Counter(tuple(person[at] for at in places) for person in everybody)
    match guarantee:
        case KMap():
            return all(theirs[key] >= guarantee.k for key in sizes)
        case DeltaPresence():
            shares = [Fraction(sizes[key], many) for key, many in theirs.items()]
            return all(guarantee.min - 1e-9 <= share <= guarantee.max + 1e-9 for share in shares)
        case JournalistProfitability():
            return all(theirs[key] * guarantee.adversary_cost > guarantee.adversary_gain for key in sizes)
        case KAnonymity():
            return min(sizes.values()) >= guarantee.k
        case DistinctLDiversity():
            return all(len({s for key, s in zip(mine, ill, strict=True) if key == own}) >= guarantee.l for own in sizes)
    raise LookupError(guarantee.name())


def drawn(draw: random.Random) -> tuple[list[Person], list[Person]]:
    """A population and a sample of it; some values, and some missing ones, are strangers' alone."""
    blank = draw.choice([0.0, 0.0, 0.15])

    def cell(value: Any) -> Any:
        return None if draw.random() < blank else value

    spread = draw.choice([6, 40])
    everybody = [
        (cell(f"v{draw.randrange(6)}"), cell(draw.randrange(spread)), cell(draw.choice("pqrs")))
        for _ in range(draw.choice([5, 30, 80]))
    ]
    return everybody, draw.sample(everybody, max(1, int(len(everybody) * draw.choice([0.1, 0.4, 1.0]))))


STAGES = [
    Mondrian(columns=["a", "n", "c"]),
    Mondrian(columns=["a", "n", "c"], score="loss"),
    Mondrian(columns=["a", "n", "c"], labels="values", lookahead=1),
    Mondrian(columns=["a", "n"], k=2),
    Mondrian(columns=["n"], labels="values"),
    Mondrian(),
]


def asked(draw: random.Random) -> list[Any]:
    some = {} if draw.random() < 0.7 else {"quasi_identifiers": tuple(draw.sample(KEYS, draw.randint(1, 2)))}
    least = draw.choice([0.0, 0.0, 0.1, 0.3])
    first = [
        KMap(k=draw.choice([2, 4, 8]), **some),
        DeltaPresence(min=least, max=draw.choice([0.5, 0.7, 1.0]), **some),
        JournalistProfitability(no_attack=True, adversary_gain=3.0, adversary_cost=1.0, **some),
    ]
    others = [KAnonymity(k=2), DistinctLDiversity(column="ill", l=2, **some)]
    return [*draw.sample(first, draw.randint(1, 2)), *draw.sample(others, draw.randint(0, 1))]


@pytest.mark.deep
@settings(max_examples=at_most(100), suppress_health_check=SLOW)
@given(seed=st.integers(0, 2**40), stage=st.sampled_from(STAGES))
def test_parts_meet_everything_and_count_no_one_they_do_not_cover(embedded: Engine, seed: int, stage: Any) -> None:
    draw = random.Random(seed)
    everybody, sample = drawn(draw)
    guarantees, max_level = asked(draw), draw.choice([1, 2])
    rows = table_of(sample, sample=True)
    context = context_of(embedded, table_of(everybody), guarantees, max_level=max_level)
    ill = rows["ill"].to_pylist()
    try:
        found, released, after = made(embedded, stage, rows, context)
    except NoSolutionError:
        if any(each.quasi_identifiers for each in guarantees):
            return  # parts that one column must distinguish have different labels in another
        cut = stage.columns or ("a",)

        def uncut(persons: list[Person]) -> list[Person]:
            group = {row[0]: row[max_level] for row in TREE} | {None: None if max_level < 2 else "*"}
            return [
                tuple(v if k not in cut else (group[v] if k == "a" else "*") for k, v in zip(KEYS, person, strict=True))
                for person in persons
            ]

        fits = (stage.k or 1) <= len(sample)
        assert not (fits and all(holds(each, uncut(sample), uncut(everybody), ill) for each in guarantees))
        return
    for guarantee in guarantees:
        assert holds(guarantee, released, after, ill), guarantee
    for raw, label in zip(sample + everybody, released + after, strict=True):
        assert all(covers(name, own, value) for name, own, value in zip(KEYS, label, raw, strict=True))
    # A function of the values: a person of the population has what the record of the same person has.
    shown = dict(zip(everybody, after, strict=True))
    assert released == [shown[person] for person in sample]
    counted = Counter(after)
    for label in set(released):
        by_reading = sum(
            all(covers(name, own, value) for name, own, value in zip(KEYS, label, person, strict=True))
            for person in everybody
        )
        assert released.count(label) <= counted[label] <= by_reading
    assert found.detail["records"] == len(sample)
    judged = [KEYS.index(name) for name in (*found.detail["columns"], *found.detail["fixed"])]
    assert found.detail["classes"] == len({tuple(label[at] for at in judged) for label in released})
    again, same, followed = made(embedded, stage, rows, context, found)
    assert (again, same, followed) == (found, released, after)


def test_labels_cover_strangers_and_bounds_are_those_of_the_table(embedded: Engine) -> None:
    """Two records of five persons; the cut is between 10 and 20, and 14 stays with the lower one."""
    everybody = [("v0", 10, "p"), ("v0", 14, "p"), ("v0", 20, "p"), ("v0", 31, "p"), ("v0", 3, "q")]
    rows = table_of([everybody[0], everybody[2]], sample=True)
    for labels, wanted in {"cells": ["<20", ">=20"], "values": ["[3, 14]", "[20, 31]"]}.items():
        stage = Mondrian(columns=["n", "c"], labels=labels)
        context = context_of(embedded, table_of(everybody), [KMap(k=2, quasi_identifiers=("n", "c"))])
        found, released, after = made(embedded, stage, rows, context)
        assert [person[1] for person in released] == wanted
        assert Counter(person[1] for person in after) == {wanted[0]: 3, wanted[1]: 2}
        # The lower part holds someone of "q", and says so.
        assert {person[1:] for person in after} == {(wanted[0], "*"), (wanted[1], "p")}
        assert found.detail["classes"] == 2
    strict = context_of(embedded, table_of(everybody), [KMap(k=3, quasi_identifiers=("n", "c"))])
    assert {person[1:] for person in made(embedded, stage, rows, strict)[1]} == {("[3, 31]", "*")}
    never = context_of(embedded, table_of(everybody), [KMap(k=6, quasi_identifiers=("n", "c"))])
    with pytest.raises(NoSolutionError, match="even where nothing is cut"):
        made(embedded, stage, rows, never)


def test_labels_of_the_records_alone_would_pass_wrongly(embedded: Engine) -> None:
    """Three of the register fall into the part of the one record at 20, and its label alone would say 20.

    Whoever reads `20` finds one person, so k-map of 3 does not hold; by parts alone 3 would be counted.
    """
    everybody = [("v0", 10, "p")] * 3 + [("v0", 20, "p"), ("v0", 25, "p"), ("v0", 29, "p")]
    sample = [everybody[0], everybody[3]]
    stage, rows = Mondrian(columns=["n"]), table_of(sample, sample=True)
    keys = {"quasi_identifiers": ("n",)}
    alone = replace(
        context_of(embedded, table_of(everybody), [KAnonymity(k=1, **keys)]), population=None
    )  # as if there were no population
    table = embedded.with_record_ids(embedded.scan(Source(data=rows)), "row", SEED)
    plan = stage.learn(embedded, table, alone)
    tight = persons_of(embedded.collect(stage.run(embedded, table, plan, Draws(SEED, 0, "cuts"), alone)))
    assert {person[1] for person in tight} == {"10", "20"} or {person[1] for person in tight} == {10, 20}
    part = [person for person in everybody if person[1] > 10]
    assert len(part) == 3
    assert sum(covers("n", "20", person[1]) for person in everybody) == 1
    context = context_of(embedded, table_of(everybody), [KMap(k=3, **keys)])
    _, released, after = made(embedded, stage, rows, context)
    assert [person[1] for person in released] == ["10", ">=20"]
    assert Counter(person[1] for person in after) == {"10": 3, ">=20": 3}
    # A plan that was made without the population is not applied to it.
    with pytest.raises(DataError, match="not those the plan was made with"):
        made(embedded, stage, rows, context, plan)


def test_a_plan_whose_labels_do_not_cover_the_population_is_refused(embedded: Engine) -> None:
    """With a hierarchy the codes stay the same; a newcomer of the other branch falls into a part called by its own."""
    everybody = [("v0", 1, "p"), ("v1", 1, "p"), ("v4", 1, "p"), ("v5", 1, "p")]
    rows, stage = table_of(everybody, sample=True), Mondrian()
    keys = {"quasi_identifiers": ("a",)}
    context = context_of(embedded, table_of(everybody), [KMap(k=2, **keys)])
    found, released, _ = made(embedded, stage, rows, context)
    assert {person[0] for person in released} == {"g0", "g2"}
    newcomer = context_of(embedded, table_of([*everybody, ("v2", 1, "p")]), [KMap(k=2, **keys)])
    with pytest.raises(DataError, match="1 records of the population have a value of 'a'"):
        made(embedded, stage, rows, newcomer, found)
    known = context_of(embedded, table_of([*everybody, ("v1", 1, "p")]), [KMap(k=2, **keys)])
    assert Counter(person[0] for person in made(embedded, stage, rows, known, found)[2]) == {"g0": 3, "g2": 2}


def test_presence_in_both_directions(embedded: Engine) -> None:
    """4 of 8 above, 1 of 8 below: a share of .5 and more may not be cut off, one below .2 neither."""
    everybody = [("v0", 1, "p")] * 8 + [("v5", 1, "p")] * 8
    rows, stage = table_of(everybody[:4] + everybody[8:9], sample=True), Mondrian()
    for bounds, wanted in {(0.0, 0.5): 2, (0.0, 0.45): 1, (0.125, 1.0): 2, (0.2, 1.0): 1}.items():
        guarantee = DeltaPresence(min=bounds[0], max=bounds[1], quasi_identifiers=("a",))
        _, released, after = made(embedded, stage, rows, context_of(embedded, table_of(everybody), [guarantee]))
        assert len(set(released)) == len(set(after)) == wanted
    strangers = [*everybody, ("v0", 1, "z")]
    guarantee = DeltaPresence(min=0.01, max=1.0, quasi_identifiers=("a", "c"))
    with pytest.raises(NoSolutionError, match="classes of the population that no record can be in fail"):
        made(embedded, stage, rows, context_of(embedded, table_of(strangers), [guarantee]))
    # Cut too, the column says that someone of "z" may be meant.
    _, released, _ = made(
        embedded, Mondrian(columns=["a", "c"]), rows, context_of(embedded, table_of(strangers), [guarantee])
    )
    assert {person[2] for person in released} == {"*", "p"}


def test_anything_but_a_sample_of_the_population_is_refused(embedded: Engine) -> None:
    everybody = [("v0", 1, "p"), ("v1", 2, "p"), ("v2", 3, "q")]
    guarantees = [KMap(k=1)]
    for stranger in (("v0", 1, "p"), ("v5", 1, "p"), ("v0", 9, "p"), ("v0", 1, None)):
        rows = table_of([*everybody, stranger], sample=True)
        with pytest.raises(DataError, match="not a sample of this population"):
            made(embedded, STAGES[0], rows, context_of(embedded, table_of(everybody), guarantees))


def test_populations_that_do_not_fit(embedded: Engine) -> None:
    everybody = [("v0", 1, "p"), ("v1", 2, "p"), ("v2", 3, "q")]
    rows, whole = table_of(everybody, sample=True), table_of(everybody)
    with pytest.raises(DataError, match="column 'c' is not in the population"):
        made(embedded, STAGES[0], rows, context_of(embedded, whole.drop_columns(["c"]), [KMap(k=1)]))
    text = whole.set_column(1, "n", whole["n"].cast(pa.string()))
    with pytest.raises(DataError, match="'n' is int64 in the table and string in the population"):
        made(embedded, STAGES[0], rows, context_of(embedded, text, [KMap(k=1)]))
    foreign = table_of([*everybody, ("elsewhere", 1, "p")])
    with pytest.raises(DataError) as caught:
        made(embedded, STAGES[0], rows, context_of(embedded, foreign, [KMap(k=1)]))
    assert "elsewhere" not in str(caught.value)
    with pytest.raises(UnsupportedError, match="`mode: strict` gives everyone one"):
        made(embedded, Mondrian(mode="relaxed"), rows, context_of(embedded, whole, [KMap(k=1)]))
    with pytest.raises(UnsupportedError, match="counted in records, and the policy requires persons"):
        made(embedded, STAGES[0], rows, replace(context_of(embedded, whole, [KMap(k=1)]), person="row"))
    empty = context_of(embedded, whole.slice(0, 0), [KMap(k=1)])
    with pytest.raises(DataError, match="not a sample"):
        made(embedded, STAGES[0], rows, empty)


def test_hierarchies_that_the_population_would_change_are_refused(embedded: Engine) -> None:
    everybody = [(f"v{at % 3}", 1, "p") for at in range(9)]
    spec = HierarchySpec.from_mapping({"priority": {"levels": 2, "order": "frequency"}}, column="a")
    context = context_of(embedded, table_of([*everybody, *((f"w{at}", 1, "p") for at in range(9))]), [KMap(k=2)])
    context = replace(context, hierarchies={"a": spec})
    with pytest.raises(UnsupportedError, match="those of the population would change it"):
        made(embedded, Mondrian(), table_of(everybody, sample=True), context)


def test_crowds_beyond_32_bits_are_counted(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of codes stands for so many at most; here for three."""
    monkeypatch.setattr(cut_search, "MOST_OF_ONE", 3)
    draw = random.Random(3)
    everybody = [(f"v{draw.randrange(2)}", draw.randrange(3), "p") for _ in range(60)]
    rows = table_of(draw.sample(everybody, 12), sample=True)
    for k in (5, 9, 20):
        context = context_of(embedded, table_of(everybody), [KMap(k=k)])
        found, released, after = made(embedded, STAGES[0], rows, context)
        assert min(Counter(after)[label] for label in released) >= k
        monkeypatch.setattr(cut_search, "MOST_OF_ONE", 1 << 30)
        assert made(embedded, STAGES[0], rows, context)[0] == found
        monkeypatch.setattr(cut_search, "MOST_OF_ONE", 3)


def test_local_recoding_next_to_a_population_would_pass_wrongly(embedded: Engine) -> None:
    """Why it stays refused: a label says whom it covers, and not whom an earlier vector has taken.

    At the raw level the two records of v0 have 9 namesakes and stay; that of v1 has 1 and becomes `g0`. Ten persons
    of the register are covered by `g0`, yet all who are v0 and in the table are shown as v0: the record of `g0` is
    the one person who is v1.
    """
    register = Counter({"v0": 9, "v1": 1})
    sample = ["v0", "v0", "v1"]
    kept = {value for value in sample if register[value] >= 5}
    shown = [value if value in kept else "g0" for value in sample]
    covered = {label: sum(many for v, many in register.items() if covers("a", label, v)) for label in set(shown)}
    assert covered == {"v0": 9, "g0": 10}  # k-map of 5 by reading labels
    candidates = {value for value in register if value not in kept}
    assert sum(register[value] for value in candidates) == 1  # by whoever reads the whole release
    everybody = [(value, 1, "p") for value, many in register.items() for _ in range(many)]
    rows = table_of([(value, 1, "p") for value in sample], sample=True)
    context = context_of(embedded, table_of(everybody), [KMap(k=5, quasi_identifiers=("a",))])
    with pytest.raises(UnsupportedError, match="compares with a population, which this stage does not count"):
        made(embedded, LocalRecoding(), rows, context)
    _, released, after = made(embedded, Mondrian(), rows, context)
    assert {person[0] for person in released} == {"g0"}
    assert Counter(person[0] for person in after) == {"g0": 10}


def test_rules_of_records_are_met_next_to_a_population_too(embedded: Engine) -> None:
    """Persons without records have no illness: two values in each part are two values of records."""
    draw = random.Random(11)
    everybody = [(f"v{draw.randrange(6)}", draw.randrange(20), draw.choice("pq")) for _ in range(200)]
    sample = draw.sample(everybody, 40)
    rows = table_of(sample, sample=True)
    guarantees = [KMap(k=4), DistinctLDiversity(column="ill", l=2), KAnonymity(k=3)]
    for stage in STAGES[:3]:
        context = replace(context_of(embedded, table_of(everybody), guarantees), base=Facts(records=40))
        _, released, after = made(embedded, stage, rows, context)
        assert len(set(released)) > 2
        assert all(holds(each, released, after, rows["ill"].to_pylist()) for each in guarantees)
        assert np.all([Counter(after)[label] >= Counter(released)[label] for label in released])


HOSTILE: dict[str, pa.Array] = {
    'a "b': pa.array(["", "x", None, "null", "{x, y}", "*", "é", "x"]),
    "day": pa.array([date(1970, 1, 1), date(1969, 12, 31), None, date(2030, 5, 5)] * 2),
    "flag": pa.array([True, None, False, True, None, True, False, True]),
    "sum": pa.array([-0.0, 0.0, float("nan"), 1e300, -1e-300, None, 2.5, 2.5]),
    "wide": pa.array([2**53, 2**53 + 1, -(2**62), None, 0, 1, 2**53 + 1, 7]),
}
"""Values that engines tell apart in ways of their own: five rows of the table, all of the population, twice."""


@pytest.mark.parametrize("labels", ["cells", "values"])
def test_every_engine_places_everybody_alike(engine: Engine, embedded: Engine, labels: Any) -> None:
    names = tuple(HOSTILE)
    whole = pa.table(HOSTILE)
    whole = pa.concat_tables([whole, whole]).append_column("row", pa.array([f"r{at:02d}" for at in range(16)]))
    rows = whole.slice(0, 5)
    guarantees = (KMap(k=3, quasi_identifiers=names), KMap(k=5, quasi_identifiers=names[:1]))
    stage = Mondrian(columns=names, labels=labels)
    found = []
    for each in (engine, embedded):
        context = StageContext(
            roles=Roles(quasi_identifiers=names),
            schema=rows.schema,
            guarantees=guarantees,
            population=each.scan(Source(data=whole)),
            place="transform[0].mondrian",
        )
        table = each.with_record_ids(each.scan(Source(data=rows)), "row", SEED)
        plan = stage.learn(each, table, context)
        after = each.collect(stage.population_after(each, table, context.population, plan, context)).sort_by("row")
        released = each.collect(stage.run(each, table, plan, Draws(SEED, 0, "cuts"), context)).sort_by("row")
        found.append((plan.detail, released.to_pylist(), after.to_pylist()))
    assert found[0] == found[1]
    detail, released, after = found[0]
    assert detail["classes"] > 1
    for keys, k in ((names, 3), (names[:1], 5)):
        counted = Counter(tuple(person[name] for name in keys) for person in after)
        assert min(counted[tuple(record[name] for name in keys)] for record in released) >= k
    assert released == after[:5]

"""Local recoding: rounds against plain Python, the union judged, what is suppressed and refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, HierarchyError, NoSolutionError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import AverageRisk, DeltaDisclosure, DistinctLDiversity, KAnonymity, KMap
from privpipe.roles import Roles
from privpipe.testing import GAPS
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize, LocalRecoding
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_recoding.local_recoding import plan
from privpipe.transforms.recoding.generalize import plan as plan_one_vector
from privpipe.transforms.recoding.labelling import LossSpec
from tests.tiers import at_most, deep_among

SEED = Seed.insecure(1)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
TREE = [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]]


def scanned(engine: Engine, rows: pa.Table) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, SEED)


def made(engine: Engine, stage: LocalRecoding, table: Any, context: StageContext) -> tuple[StagePlan, pa.Table]:
    found = plan(engine, table, stage, context)
    text = StagePlan(name=found.name, parameters={}, detail=json.loads(json.dumps(found.detail)))
    released = stage.run(engine, table, text, Draws(SEED, 0, "local_recoding"), context)
    rows = engine.collect(released)
    assert rows.schema.equals(released.schema)
    return found, rows


def by_rounds(problem: Any, rounds: list[dict[str, Any]]) -> list[int | None]:
    """The round that keeps each row: classes that pass among what the rounds before left."""
    kept: list[int | None] = [None] * len(problem)
    for number, done in enumerate(rounds):
        rest = [row for row in range(len(problem)) if kept[row] is None]
        part = replace(problem, rows={name: [cells[row] for row in rest] for name, cells in problem.rows.items()})
        node = [done["levels"][name] for name in problem.columns]
        gone = suppressed_of(part, node, problem)
        for place, row in enumerate(rest):
            if place not in gone:
                kept[row] = number
    return kept


def suppressed_of(part: Any, node: list[int], whole: Any) -> set[int]:
    """As `Problem.suppressed`, the base being that of the whole table."""
    from privpipe.blocks import ClassModel
    from privpipe.testing import Classes, oracle_of

    labels, gone = part.labels(node), set()
    base = {"ill": Counter(whole.rows["ill"])}
    while True:
        more = set()
        for guarantee in part.guarantees:
            assert isinstance(guarantee, ClassModel)
            keys = part.keys if guarantee.quasi_identifiers is None else guarantee.quasi_identifiers
            groups: dict[Any, list[int]] = {}
            for row in set(range(len(part))) - gone:
                groups.setdefault(tuple(labels[key][row] for key in keys), []).append(row)
            for members in groups.values():
                seen = Classes([members], 0, {"ill": part.rows["ill"]}, base)
                if oracle_of(type(guarantee))(guarantee, seen).outcome != "pass":
                    more |= set(members)
        if not more:
            return gone
        gone |= more


@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data())
def test_a_release_is_what_its_rounds_say_and_meets_everything(
    embedded: Engine, random_problems: Any, suppressed_rows: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    stage = LocalRecoding(suppress_at_most=problem.limit)
    table = scanned(embedded, problem.table)
    one = Generalize(suppress_at_most=problem.limit)
    try:
        found, rows = made(embedded, stage, table, problem.context)
    except NoSolutionError:
        with pytest.raises(NoSolutionError):  # whatever one vector can do, several can
            plan_one_vector(embedded, table, one, problem.context)
        return
    released = {name: rows.column(name).to_pylist() for name in rows.column_names}
    gone = len(problem) - len(rows)
    assert gone == found.detail["left"] <= floor_share(problem.limit, len(problem))
    if all(guarantee.way.classes_alone and hasattr(guarantee, "scores") for guarantee in problem.guarantees):
        wanted = by_rounds(problem, found.detail["rounds"])
        labels = [problem.labels([done["levels"][name] for name in problem.columns]) for done in found.detail["rounds"]]
        expected = Counter(
            tuple(labels[number][name][row] for name in problem.rows)
            for row, number in enumerate(wanted)
            if number is not None
        )
        assert Counter(zip(*released.values(), strict=True)) == expected
    assert 0.0 <= found.detail["cell_loss"] <= 1.0 + 1e-9
    if not any("closeness" in guarantee.name() for guarantee in problem.guarantees):
        values = {"ill": released["ill"]}
        assert not suppressed_rows(released, problem.guarantees, problem.keys, values, lambda *_: [])


def plain_sweep(problem: Any) -> float:
    """Loss of one walk over all vectors, in the order of the sum of their columns' losses, from the definition."""
    alone = {
        (name, level): sum(problem.unit(name, problem.share(name, value, level)) for value in problem.rows[name])
        for name, rows in problem.hierarchies.items()
        for level in range(len(rows[0]))
    }
    order = sorted(problem.nodes(), key=lambda node: sum(alone[at] for at in zip(problem.columns, node, strict=True)))
    rounds = [{"levels": dict(zip(problem.columns, node, strict=True))} for node in order]
    kept = by_rounds(problem, rounds)
    each = []
    for at, name in enumerate(problem.columns):
        lost = [
            Fraction(1)
            if number is None
            else problem.unit(name, problem.share(name, problem.rows[name][row], order[number][at]))
            for row, number in enumerate(kept)
        ]
        each.append(sum(lost, Fraction(0)) / len(problem))
    return float(math.prod(1 + u for u in each)) ** (1 / len(each)) - 1


@settings(max_examples=at_most(25), suppress_health_check=SLOW)
@given(st.data())
def test_it_loses_no_more_than_one_plain_walk(embedded: Engine, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    problem = replace(problem, guarantees=(KAnonymity(k=3), DistinctLDiversity(column="ill", l=2)), loss=LossSpec())
    table = scanned(embedded, problem.table)
    try:
        found, _ = made(embedded, LocalRecoding(suppress_at_most=1.0), table, problem.context)
    except NoSolutionError:
        return
    if found.detail["method"] == "sweep":
        assert found.detail["cell_loss"] <= plain_sweep(problem) + 1e-9


@settings(max_examples=at_most(20), suppress_health_check=SLOW)
@given(st.data(), st.randoms(use_true_random=False))
def test_row_order_and_copies_change_nothing(
    embedded: Engine, random_problems: Any, data: st.DataObject, random: Any
) -> None:
    """Each record twice, and a k twice as large, is the same problem in another order."""
    problem = data.draw(random_problems)
    stage = LocalRecoding(suppress_at_most=0.25)
    plans = []
    for copies in (1, 2):
        rows = [row for row in range(len(problem)) for _ in range(copies)]
        random.shuffle(rows)
        part = {name: [cells[row] for row in rows] for name, cells in problem.rows.items()}
        own = replace(problem, rows=part, guarantees=(KAnonymity(k=3 * copies),))
        try:
            detail = plan(embedded, scanned(embedded, own.table), stage, own.context).detail
        except NoSolutionError:
            plans.append(None)
            continue
        assert detail["left"] <= floor_share(0.25, len(rows))
        plans.append([(done["levels"], done["records"] / copies) for done in detail["rounds"]])
    if floor_share(0.25, 2 * len(problem)) == 2 * floor_share(0.25, len(problem)):
        assert plans[0] == plans[1]


def of_file(engine: Engine, folder: Any, name: str, spec: str, given: Any, sensitive: tuple[str, ...] = ()) -> Any:
    rows = pc.read_csv(folder / name, parse_options=pc.ParseOptions(delimiter=";"))
    names = [column for column in rows.column_names if (folder / spec.format(column)).is_file()]
    specs = {
        column: HierarchySpec.from_mapping({"file": spec.format(column), "delimiter": ";"}, folder, column=column)
        for column in names
        if column not in sensitive
    }
    rows = rows.select(names)
    context = StageContext(
        roles=Roles(quasi_identifiers=list(specs), sensitive=list(sensitive)),
        schema=rows.schema,
        hierarchies=specs,
        guarantees=given,
        place="transform[0]",
    )
    return scanned(engine, rows), context


ADULT = ("adult", "adult.csv", "adult_hierarchy_{}.csv")
FIGURES = {
    "adult k=5": (*ADULT, (KAnonymity(k=5),), (), 0.0510),
    "adult k=10": (*ADULT, (KAnonymity(k=10),), (), 0.0742),
    "adult distinct 3": (
        *ADULT,
        (KAnonymity(k=5), DistinctLDiversity(column="occupation", l=3)),
        ("occupation",),
        0.0314,
    ),
    "cmc k=5": ("cmc", "cmc.csv", "hierarchies/cmc_hierarchy_{}.csv", (KAnonymity(k=5),), (), 0.0513),
    "cmc k=10": ("cmc", "cmc.csv", "hierarchies/cmc_hierarchy_{}.csv", (KAnonymity(k=10),), (), 0.0925),
    "mgm k=5": ("mgm", "mgm.csv", "hierarchies/mgm_hierarchy_{}.csv", (KAnonymity(k=5),), (), 0.0849),
}


@pytest.mark.parametrize("case", FIGURES.values(), ids=FIGURES)
def test_figures_of_a_prototype_are_reached(embedded: Engine, shared: Any, case: Any) -> None:
    """Ours; an independent prototype of one walk has .0517, .0750, .0314, .0500, .0927, .0852; all are released."""
    folder, name, spec, guarantees, sensitive, figure = case
    table, context = of_file(embedded, shared / "data" / folder, name, spec, guarantees, sensitive)
    found, released = made(embedded, LocalRecoding(), table, context)
    assert found.detail["method"] == "sweep"
    assert found.detail["cell_loss"] <= figure + 0.00005
    assert sum(done["records"] for done in found.detail["rounds"]) == len(released) == found.detail["records"]
    sizes = Counter(zip(*released.select(list(context.hierarchies)).to_pydict().values(), strict=True))
    assert min(sizes.values()) >= guarantees[0].k
    assert len(sizes) == found.detail["classes"]


CLUSTERED = {
    "adult k=5": 0.0493,
    "adult distinct 3": 0.0290,
    "cmc k=5": 0.0465,
    "cmc k=10": 0.0834,
    "mgm k=5": 0.0825,
}


@pytest.mark.deep
@pytest.mark.parametrize("name", deep_among(["adult k=5", "adult distinct 3"], CLUSTERED))
def test_figures_of_clusters_are_reached(embedded: Engine, shared: Any, name: str) -> None:
    """Ours; an independent prototype has .0504, .0293, .0471, .0882, .0824 with as many steps; all are released."""
    folder, file, spec, guarantees, sensitive, _ = FIGURES[name]
    table, context = of_file(embedded, shared / "data" / folder, file, spec, guarantees, sensitive)
    found, released = made(embedded, LocalRecoding(method="search"), table, context)
    assert found.detail["method"] == "search"
    assert found.detail["cell_loss"] <= CLUSTERED[name] + 0.00005
    assert len(released) == found.detail["records"]
    sizes = Counter(zip(*released.select(list(context.hierarchies)).to_pydict().values(), strict=True))
    assert min(sizes.values()) >= guarantees[0].k
    assert len(sizes) == found.detail["classes"]


def test_figures_of_rounds(embedded: Engine, shared: Any) -> None:
    """An independent prototype has cell_loss .170 by rounds, .220 by the best single vector; all are released here."""
    table, context = of_file(embedded, shared / "data" / "adult", *ADULT[1:], (KAnonymity(k=5),))
    found, released = made(embedded, LocalRecoding(method="rounds"), table, context)
    single = plan_one_vector(embedded, table, Generalize(suppress_at_most=1.0), context).detail["loss"]
    assert (round(found.detail["cell_loss"], 4), round(single, 4)) == (0.1678, 0.2204)
    assert 1 < len(found.detail["rounds"]) < 10
    assert len(released) == 30162


def test_the_common_judge_decides_like_compiled_code(embedded: Engine, shared: Any) -> None:
    """Where a rule is more than records and values of a class, the sweep asks the judge, class by class."""
    data = shared / "data" / "cmc"
    given = (KAnonymity(k=5),)
    table, context = of_file(embedded, data, "cmc.csv", "hierarchies/cmc_hierarchy_{}.csv", given)
    compiled, _ = made(embedded, LocalRecoding(), table, context)
    looked_up = type("Slow", (KAnonymity,), {"decided_by_minima": False})
    judged, _ = made(embedded, LocalRecoding(), table, replace(context, guarantees=(looked_up(k=5),)))
    assert judged.detail["rounds"] == compiled.detail["rounds"]


def test_a_vector_must_keep_its_share_of_all_records(embedded: Engine, make_problem: Any) -> None:
    rows = {"a": ["v0"] * 3 + ["v1"] * 5 + ["v2"] * 40, "ill": ["u"] * 48}
    problem = make_problem(rows, {"a": TREE}, (KAnonymity(k=4),), limit=1.0)
    table = scanned(embedded, problem.table)

    def records(share: float, limit: float) -> list[int]:
        stage = LocalRecoding(share=share, suppress_at_most=limit)
        return [done["records"] for done in plan(embedded, table, stage, problem.context).detail["rounds"]]

    assert records(0.0, 1.0) == [45]
    assert records(0.0, 0.0) == [48]
    assert records(1.0, 1.0) == [48]


def test_suppression_becomes_dearer_where_a_round_keeps_too_little(embedded: Engine, make_problem: Any) -> None:
    """At gs_factor 0 the best first round keeps one class alone."""
    rows = {"a": ["v0"] * 2 + ["v1"] * 6 + ["v2"] * 6 + ["v3"] * 2, "ill": ["u"] * 16}
    problem = make_problem(rows, {"a": TREE}, (KAnonymity(k=4),), limit=0.5)
    table = scanned(embedded, problem.table)
    for share, last in ((0.05, 0.0), (0.9, 0.5)):
        stage = LocalRecoding(method="rounds", share=share, gs_factor=0.0, suppress_at_most=0.5)
        detail = plan(embedded, table, stage, problem.context).detail
        assert detail["rounds"][0]["gs_factor"] >= last
        if share == 0.9:
            assert detail["rounds"][0]["records"] >= 0.9 * 16


def test_a_round_that_breaks_the_union_is_taken_back(embedded: Engine, make_problem: Any) -> None:
    rows = {"a": ["v0", "v1", "v2", "v3"] * 5, "ill": (["flu", "gout"] * 10)}
    problem = make_problem(rows, {"a": TREE}, (DeltaDisclosure(column="ill", delta=0.5), KAnonymity(k=3)), limit=1.0)
    found, released = made(
        embedded, LocalRecoding(suppress_at_most=0.5), scanned(embedded, problem.table), problem.context
    )
    cells = Counter(zip(released.column("a").to_pylist(), released.column("ill").to_pylist(), strict=True))
    sizes = Counter(released.column("a").to_pylist())
    assert all(abs(count / sizes[label] - 0.5) < 0.21 for (label, _), count in cells.items())
    assert found.detail["left"] <= 10


def test_what_is_refused(embedded: Engine, make_problem: Any) -> None:
    rows = {"a": ["v0"] * 6 + ["v2"] * 2, "ill": ["u"] * 8}
    problem = make_problem(rows, {"a": TREE}, (KAnonymity(k=3),))
    table = scanned(embedded, problem.table)
    rootless = {
        "a": HierarchySpec.from_hierarchy(Hierarchy.from_rows([row[:2] for row in TREE], root="optional"), column="a")
    }
    context = replace(problem.context, hierarchies=rootless)
    with pytest.raises(NoSolutionError, match=r"need 2 of 8 records suppressed, the limit allows 0"):
        plan(embedded, table, LocalRecoding(), context)
    found, released = made(embedded, LocalRecoding(suppress_at_most=0.25), table, context)
    assert (found.detail["left"], len(released)) == (2, 6)
    with pytest.raises(NoSolutionError, match="it has 8 records"):
        plan(embedded, table, LocalRecoding(), replace(context, guarantees=(KAnonymity(k=9),)))
    with pytest.raises(UsageError, match="needs a guarantee over classes"):
        plan(embedded, table, LocalRecoding(), replace(context, guarantees=()))
    with pytest.raises(GAPS["*", "cells counted otherwise"].raises):
        plan(embedded, table, LocalRecoding(), replace(context, guarantees=(KMap(k=2),)))
    clash = [["v0", "v2", "*"], ["v1", "v2", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]]
    spec = HierarchySpec.from_hierarchy(Hierarchy.from_rows(clash), column="a")
    with pytest.raises(HierarchyError, match="label_collision"):
        plan(embedded, table, LocalRecoding(), replace(context, hierarchies={"a": spec}))
    other = HierarchySpec.from_hierarchy(Hierarchy.from_rows(TREE), column="a")
    with pytest.raises(DataError, match="not the one the plan was made with"):
        LocalRecoding().run(embedded, table, found, Draws(SEED, 0, "x"), replace(context, hierarchies={"a": other}))
    for wrong in (
        {"share": 0.0, "method": "rounds"},
        {"share": 1.5},
        {"method": "x"},
        {"gs_factor": -0.1},
        {"suppress_at_most": 2.0},
    ):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            LocalRecoding(**wrong)  # type: ignore[arg-type]


def test_unknown_values_count_as_suppressed(embedded: Engine, make_problem: Any) -> None:
    rows = {"a": ["v0"] * 4 + ["v2"] * 3 + ["v3"] + ["zz"] * 2, "ill": ["u"] * 10}
    problem = make_problem(rows, {"a": TREE}, (KAnonymity(k=3),))
    spec = HierarchySpec.from_hierarchy(Hierarchy.from_rows(TREE, unknown="suppress"), column="a")
    context = replace(problem.context, hierarchies={"a": spec})
    table = scanned(embedded, problem.table)
    found, released = made(embedded, LocalRecoding(suppress_at_most=0.2), table, context)
    assert found.detail["left"] == 2
    assert len(released) == 8
    with pytest.raises(NoSolutionError, match="need 2 of 10"):
        plan(embedded, table, LocalRecoding(suppress_at_most=0.1), context)


def test_rules_over_all_classes(embedded: Engine, make_problem: Any) -> None:
    rows = {"a": ["v0"] * 9 + ["v1"] * 5 + ["v2"] * 4 + ["v3"] * 2, "ill": ["u"] * 20}
    problem = make_problem(rows, {"a": TREE}, (KAnonymity(k=2), AverageRisk(at_most=0.15)), limit=0.0)
    _, released = made(embedded, LocalRecoding(), scanned(embedded, problem.table), problem.context)
    assert len(set(released.column("a").to_pylist())) / 20 <= 0.15

"""Minimal vectors, heuristics, boxes, limits, approaches and marks, against brute force on small tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.engines import Engine, Source
from privpipe.errors import NoSolutionError, UnsupportedError, UsageError
from privpipe.hierarchies import Hierarchy
from privpipe.models import EntropyLDiversity, KAnonymity
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.recoding import optimal_search, strategies
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.explorer import Explorer, Lattice, Limits
from privpipe.transforms.recoding.generalize import APPROACHES, approach_of, plan
from privpipe.transforms.recoding.heuristics import STRATEGIES
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.optimal_search import LatticeSearch
from privpipe.transforms.recoding.strategies import BoxSearch
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def valid(problem: Any) -> dict[tuple[int, ...], set[int]]:
    """Every valid vector of levels with the rows that go there."""
    found = {}
    for node in problem.nodes():
        gone = problem.suppressed(node)
        if gone is not None and len(gone) <= floor_share(problem.limit, len(problem)) and len(gone) < len(problem):
            found[node] = gone
    return found


def minimal(nodes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [
        node
        for node in nodes
        if not any(other != node and all(a <= b for a, b in zip(other, node, strict=True)) for other in nodes)
    ]


def explorer_of(plain: Any, problem: Any, limits: Limits) -> Explorer:
    encoded = encode(plain, problem.table, problem.stage, problem.context)
    check = NodeCheck(encoded, problem.context, searched_quality(encoded, problem.stage, problem.context))
    return Explorer(check, Lattice.of(encoded), floor_share(problem.limit, len(problem)), limits)


@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data())
def test_minimal_vectors_are_those_of_brute_force(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    criteria = data.draw(
        st.lists(
            st.sampled_from(
                [
                    "minimum_suppression",
                    "minimum_absolute_distance",
                    "minimum_relative_distance",
                    "maximum_distribution",
                ]
            ),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    stage = Generalize(search="minimal", minimal="all", criteria=criteria, suppress_at_most=problem.limit)
    feasible = valid(problem)
    if not feasible:
        with pytest.raises(NoSolutionError):
            plan(plain, problem.table, stage, problem.context)
        return
    heights = [len(rows[0]) - 1 for rows in problem.hierarchies.values()]

    judged = {key for each in problem.guarantees for key in each.quasi_identifiers or problem.keys}
    told = [*problem.columns, *(key for key in problem.keys if key in judged and key not in problem.columns)]

    def preference(node: tuple[int, ...]) -> tuple[Any, ...]:
        kept = [row for row in range(len(problem)) if row not in feasible[node]]
        labels = problem.labels(node)
        figures = {
            "minimum_suppression": len(feasible[node]),
            "minimum_absolute_distance": sum(node),
            "minimum_relative_distance": round(sum(v / h for v, h in zip(node, heights, strict=True) if h), 9),
            "maximum_distribution": -len({tuple(labels[key][row] for key in told) for row in kept}),
        }
        return (*(figures[name] for name in criteria), node)

    wanted = sorted(minimal(list(feasible)), key=preference)
    detail = plan(plain, problem.table, stage, problem.context).detail
    assert [tuple(each["levels"].values()) for each in detail["minimal"]] == wanted
    assert tuple(detail["levels"].values()) == wanted[0]
    assert detail["optimal"]


@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data())
def test_heuristics_and_boxes_give_valid_vectors_and_sound_gaps(
    plain: Any, random_problems: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    best = problem.optimum()
    for name in STRATEGIES:
        stage = Generalize(search=name, loss=problem.loss, suppress_at_most=problem.limit)
        try:
            detail = plan(plain, problem.table, stage, problem.context).detail
        except NoSolutionError:
            continue
        node = tuple(detail["levels"].values())
        assert node in valid(problem)
        assert best is not None
        loss = detail["loss"] if isinstance(detail["loss"], list) else [detail["loss"]]
        assert loss[0] - detail["gap"] <= best[1][0] + 1e-9
        assert not detail["optimal"]
    explorer = explorer_of(plain, problem, Limits(10_000))
    found = BoxSearch(explorer, "transform[0]").run()
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert found.optimal
        assert found.gap == 0
        assert found.node.levels == best[0]
        assert list(found.loss) == pytest.approx(best[1], abs=1e-9)
    few = BoxSearch(explorer_of(plain, problem, Limits(data.draw(st.integers(1, 5)))), "transform[0]").run()
    if few is not None and best is not None:
        assert few.loss[0] - few.gap <= best[1][0] + 1e-9
        assert not few.optimal or few.node.levels == best[0]


@pytest.fixture
def problem(make_problem: Any) -> Any:
    rows = {
        "a": ["v0"] * 4 + ["v1"] * 4 + ["v2"] * 3 + ["v3"],
        "b": ["w0", "w0", "w1", "w1"] * 3,
        "ill": ["flu", "gout", "flu"] * 4,
    }
    tree = [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]]
    return make_problem(rows, {"a": tree, "b": [["w0", "*"], ["w1", "*"]]}, (KAnonymity(k=2),), limit=0.1)


def test_a_large_lattice_is_searched_in_boxes(plain: Any, problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = plan(plain, problem.table, problem.stage, problem.context).detail
    monkeypatch.setattr(strategies, "LARGEST_HELD", 2)
    monkeypatch.setattr(strategies, "LARGEST_SIFTED", 2)
    boxed = plan(plain, problem.table, problem.stage, problem.context).detail
    assert (boxed["levels"], boxed["loss"], boxed["optimal"], boxed["gap"]) == (held["levels"], held["loss"], True, 0)
    assert boxed["boxes_pruned_by_mandatory"] + boxed["boxes_pruned_by_bound"] > 0
    with pytest.raises(UnsupportedError, match="narrow it with min_level"):
        plan(plain, problem.table, Generalize(search="minimal"), problem.context)
    hopeless = replace(problem, guarantees=(KAnonymity(k=12), EntropyLDiversity(column="ill", l=2)))
    with pytest.raises(NoSolutionError, match="cannot be met by this table"):
        plan(plain, hopeless.table, hopeless.stage, hopeless.context)


def test_a_lattice_of_more_than_a_billion_ends_with_its_budget(plain: Any, make_problem: Any) -> None:
    """16 columns of 4 levels: 4^16 vectors, one valid plan, a sound gap, the same at every run."""
    tree = [[f"v{i}", f"p{i // 2}", f"q{i // 4}", "*"] for i in range(8)]
    names = [f"c{j}" for j in range(16)]
    rows = {name: [f"v{(i * (j + 1) + i // 3) % 8}" for i in range(60)] for j, name in enumerate(names)}
    rows["ill"] = ["flu", "gout"] * 30
    problem = make_problem(rows, dict.fromkeys(names, tree), (KAnonymity(k=3),), limit=0.2)
    stage = Generalize.build({"suppress_at_most": 0.2, "budget": {"nodes": 400}})
    one, two = (plan(plain, problem.table, stage, problem.context).detail for _ in range(2))
    assert one == two
    assert one["nodes"] == 4**16
    assert one["nodes_checked"] <= 400
    assert not one["optimal"]
    assert 0 < one["gap"] <= one["loss"]
    assert one["lower_bound"] == pytest.approx(one["loss"] - one["gap"])
    with pytest.raises(NoSolutionError, match="not found within"):
        plan(plain, problem.table, Generalize.build({"search": "bottom_up", "budget": {"nodes": 3}}), problem.context)


def test_the_plan_shows_runners_up_and_a_front(plain: Any, problem: Any) -> None:
    detail = plan(plain, problem.table, problem.stage, problem.context).detail
    front = detail["front"]
    assert front[0]["levels"] == detail["levels"]
    losses, risks = [each["loss"] for each in front], [each["average_risk"] for each in front]
    assert losses == sorted(losses)
    assert risks == sorted(risks, reverse=True)
    for each in detail["runners_up"]:
        assert each["loss"] >= detail["loss"] - 1e-9
        assert each["levels"] != detail["levels"]
    assert detail["lower_bound"] == detail["loss"]
    timed = Generalize.build({"suppress_at_most": 0.1, "budget": {"seconds": 60}})
    assert plan(plain, problem.table, timed, problem.context).detail["reproducible"] is False


def test_an_interrupt_ends_with_the_best_so_far(plain: Any, problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"left": 3}
    judge = NodeCheck.__call__

    def interrupted(self: NodeCheck, levels: tuple[int, ...]) -> Any:
        calls["left"] -= 1
        if calls["left"] == 0:
            raise KeyboardInterrupt
        return judge(self, levels)

    monkeypatch.setattr(NodeCheck, "__call__", interrupted)
    loose = replace(problem, limit=1.0)
    detail = plan(plain, loose.table, loose.stage, loose.context).detail
    assert detail["interrupted"]
    assert not detail["optimal"]
    calls["left"] = 1
    with pytest.raises(KeyboardInterrupt):
        plan(plain, loose.table, loose.stage, loose.context)


def test_short_forms_of_the_matrix(plain: Any, embedded: Engine, problem: Any) -> None:
    none_gone = replace(problem, limit=0.0)
    for approach in ("AG_", "AG_AS"):
        detail = plan(plain, problem.table, Generalize(approach=approach), problem.context).detail
        assert tuple(detail["levels"].values()) == none_gone.optimum()[0]
        assert detail["approach"] == approach
    columns = plan(plain, problem.table, Generalize(approach="_AS"), problem.context).detail
    roots = {"a": (0, 2), "b": (0, 1)}
    dropped = [node for node in valid(none_gone) if all(v in roots[c] for v, c in zip(node, "ab", strict=True))]
    assert sum(map(bool, columns["levels"].values())) == min(sum(map(bool, node)) for node in dropped)
    weighted = Generalize(approach="_AS", loss=LossSpec(weights={"a": 1.0, "b": 5.0}))
    assert plan(plain, problem.table, weighted, problem.context).detail["levels"]["b"] == 0
    table = embedded.scan(Source(data=problem.table))
    raw = plan(embedded, table, Generalize(approach="_TS", suppress_at_most=0.5), problem.context).detail
    assert set(raw["levels"].values()) == {0}
    with pytest.raises(NoSolutionError, match="the limit allows 0"):
        plan(embedded, table, Generalize(approach="_TS"), problem.context)
    with pytest.raises(UnsupportedError, match="served by the stage `mondrian`"):
        plan(plain, problem.table, Generalize(approach="CG_"), problem.context)
    for name in APPROACHES:
        if name == "_":
            with pytest.raises(UnsupportedError, match="no stage"):
                approach_of(name, "generalize", "here")
        else:
            assert APPROACHES[name].stage  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"criteria": ["minimum_suppression"]}, "are of search: minimal"),
        ({"search": "minimal", "criteria": []}, "at least one criterion"),
        ({"search": "minimal", "criteria": ["least"]}, "criteria"),
        ({"levels": {"a": 1}, "roots_only": True}, "levels are given"),
        ({"levels": {"a": 1}, "mark": True}, "without suppress_at_most"),
        ({"approach": "AG_", "suppress_at_most": 0.1}, "suppresses no records"),
        ({"search": "best"}, "search"),
        ({"budget": {"seconds": 0}}, "budget.seconds"),
    ],
)
def test_options_that_do_not_fit_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Generalize.build(parameters)


def test_suppressed_records_stay_as_marks(engine: Any) -> None:
    from privpipe import Policy, transform
    from privpipe import plan as decide

    table = pa.table(
        {
            "a": ["x", "x", "y", "x"],
            "n": [1, 1, 2, 1],
            "ill": ["flu", "gout", "flu", "flu"],
            "pay": [1.0, 2.0, 3.0, 4.0],
        }
    )
    groups = {"tree": {"*": ["1", "2"]}}
    policy = Policy.from_dict(
        {
            "version": 1,
            "name": "marks",
            "columns": {
                "a": {"role": "quasi_identifier", "type": "text", "hierarchy": {"tree": {"*": ["x", "y"]}}},
                "n": {"role": "quasi_identifier", "type": "integer", "hierarchy": groups},
                "ill": {"role": "insensitive", "type": "text"},
                "pay": {"role": "insensitive", "type": "number"},
            },
            "transform": [{"generalize": {"suppress_at_most": 0.25, "mark": True}}],
            "guarantees": [{"k_anonymity": {"k": 2}}],
        }
    )
    released = transform(table, decide(table, policy, engine=engine.name), engine=engine.name).to_pylist()
    rows = sorted(tuple(str(row[name]) for name in ("a", "n", "ill", "pay")) for row in released)
    assert rows == [
        ("*", "*", "*", "None"),
        ("x", "1", "flu", "1.0"),
        ("x", "1", "flu", "4.0"),
        ("x", "1", "gout", "2.0"),
    ]


def test_a_hierarchy_of_height_zero_and_fixed_levels(plain: Any, make_problem: Any) -> None:
    rows = {"a": ["x", "x", "x"], "b": ["p", "p", "q"], "ill": ["flu", "gout", "flu"]}
    trees = {"a": [["x"]], "b": [["p", "*"], ["q", "*"]]}
    fixed = make_problem(rows, trees, (KAnonymity(k=2),), limit=0.4, limits={"b": (0, 0)})
    detail = plan(plain, fixed.table, fixed.stage, fixed.context).detail
    assert (detail["levels"], detail["nodes"], detail["optimal"]) == ({"a": 0, "b": 0}, 1, True)
    strict = replace(fixed, limit=0.0)
    with pytest.raises(NoSolutionError, match="no levels meet"):
        plan(plain, strict.table, strict.stage, strict.context)
    assert Hierarchy.from_rows([["x"]]).height == 0


@pytest.mark.parametrize("budget", [None, {"seconds": 30}])
def test_bottom_up_goes_on_beyond_the_first_valid_vector(plain: Any, make_problem: Any, budget: Any) -> None:
    """Where all may be suppressed, the finest levels are valid, and almost no one is left."""
    tree = [[f"v{i}", f"g{i // 2}", "*"] for i in range(8)]
    rows = {name: [f"v{(i * step) % 8}" for i in range(64)] for name, step in (("a", 1), ("b", 3), ("c", 5))}
    rows["b"] = [f"v{i // 8}" for i in range(64)]
    rows["ill"] = ["flu"] * 64
    problem = make_problem(rows, dict.fromkeys("abc", tree), (KAnonymity(k=4),), limit=1.0)
    given = {"search": "bottom_up", "suppress_at_most": 1.0, **({"budget": budget} if budget else {})}
    detail = plan(plain, problem.table, Generalize.build(given), problem.context).detail
    best = problem.optimum()
    assert len(valid(problem)[tuple(detail["levels"].values())]) < 0.5 * 64
    if budget:
        assert detail["loss"] == pytest.approx(best[1][0])


@pytest.mark.deep
def test_optimal_in_little_time_is_no_worse_than_genetic(
    plain: Any, make_problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time at all is left for a proof, but the genetic search has had its turn."""
    tree = [[f"v{i}", f"p{i // 2}", f"q{i // 4}", "*"] for i in range(8)]
    names = [f"c{j}" for j in range(6)]
    rows = {name: [f"v{(i * (j + 1) + i // 3) % 8}" for i in range(60)] for j, name in enumerate(names)}
    rows["ill"] = ["flu", "gout"] * 30
    problem = make_problem(rows, dict.fromkeys(names, tree), (KAnonymity(k=3),), limit=0.3)
    genes = Generalize.build({"search": "genetic", "suppress_at_most": 0.3})
    wanted = plan(plain, problem.table, genes, problem.context).detail["loss"]
    monkeypatch.setattr(LatticeSearch, "_late", lambda self: True)
    timed = Generalize.build({"suppress_at_most": 0.3, "budget": {"seconds": 60}})
    detail = plan(plain, problem.table, timed, problem.context).detail
    assert detail["loss"] <= wanted + 1e-12
    assert detail["nodes_checked"] > 100
    monkeypatch.setattr(strategies, "LARGEST_HELD", 2)
    boxed = plan(plain, problem.table, timed, problem.context).detail
    assert boxed["loss"] <= wanted + 1e-12
    monkeypatch.undo()
    monkeypatch.setattr(LatticeSearch, "_late", lambda self: True)
    monkeypatch.setattr(optimal_search, "genetic", cut_short)
    shortened = plan(plain, problem.table, timed, problem.context).detail
    assert shortened["interrupted"]
    assert shortened["loss"] == 1


def cut_short(explorer: Explorer) -> None:
    explorer.visit(explorer.lattice.top)
    raise KeyboardInterrupt

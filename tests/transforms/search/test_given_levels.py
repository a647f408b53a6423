"""Given levels, counted column by column, cost what the combinations say they cost; and nothing is collected."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks.quality_spec import DEFAULT_AGGREGATES
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import HierarchyError, NoSolutionError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.transforms import Generalize
from privpipe.transforms.recoding import generalize
from privpipe.transforms.recoding.generalize import needs_combinations, plan
from privpipe.transforms.recoding.labelling import LossSpec
from tests.tiers import at_most

SEED = Seed.insecure(1)
SHARED = ("levels", "recoded", "level_names", "hierarchies", "builders", "data_dependent", "records")


def with_gaps(problem: Any, draw: random.Random) -> tuple[Any, Any]:
    """The problem with nulls, and a value that a hierarchy lacks; its table and context."""
    rows = {name: list(cells) for name, cells in problem.rows.items()}
    name = problem.columns[0]
    for at in range(len(problem)):
        if draw.random() < 0.1:
            rows[name][at] = draw.choice([None, "elsewhere"])
    gapped = replace(problem, rows=rows)
    specs = {}
    for column, tree in problem.hierarchies.items():
        built = Hierarchy.from_rows(tree, column=column, unknown=draw.choice(["suppress", "root"]))
        specs[column] = HierarchySpec.from_hierarchy(built, column=column)
    return gapped.table, replace(gapped.context, hierarchies=specs)


@given(data=st.data())
@settings(max_examples=at_most(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_by_themselves_cost_what_combinations_cost(
    embedded: Engine, random_problems: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    draw = random.Random(len(problem) + 100 * len(problem.nodes()))
    frame, context = with_gaps(problem, draw)
    table = embedded.with_record_ids(embedded.scan(Source(data=frame)), None, SEED)
    name = draw.choice([name for name in DEFAULT_AGGREGATES if name != "static"])
    stage = Generalize(
        levels={column: draw.randrange(len(tree[0])) for column, tree in problem.hierarchies.items()},
        loss=LossSpec(name=name),
        suppress_at_most=draw.choice([None, 0.3, 1.0]),
    )
    found = _outcome(embedded, table, stage, context)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(generalize, "needs_combinations", lambda *_: True)
        expected = _outcome(embedded, table, stage, context)
    if isinstance(expected, str):
        assert isinstance(found, str)
        return
    (detail, rows), (known, same) = found, expected
    assert rows == same
    assert {key: detail[key] for key in SHARED} == {key: known[key] for key in SHARED}
    assert detail["records_without_information"] == known["records_without_information"]
    assert detail["loss"] == pytest.approx(known["loss"], rel=1e-12, abs=1e-12)
    assert detail["column_losses"] == pytest.approx(known["column_losses"], rel=1e-12, abs=1e-12)


def _outcome(engine: Any, table: Any, stage: Generalize, context: Any) -> Any:
    """Detail of the plan and rows released, or what is refused."""
    context = replace(context, made=[])
    try:
        made = plan(engine, table, stage, context)
        kept = stage.run(engine, table, made, Draws(SEED, 0, "generalize"), context)
    except (HierarchyError, NoSolutionError) as error:
        return type(error).__name__
    again = stage.run(engine, table, made, Draws(SEED, 0, "generalize"), context)  # from the plan alone
    assert engine.collect(again).equals(engine.collect(kept))
    return made.detail, engine.collect(kept).to_pylist()


class Watched:
    """An engine that records which combinations were requested."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.asked = engine, list[tuple[str, ...]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def distinct(self, table: Any, columns: Any) -> Any:
        self.asked.append(tuple(columns))
        return self.engine.distinct(table, columns)


def test_no_combination_is_collected(engine: Engine, make_problem: Any) -> None:
    from privpipe.models import KAnonymity, TCloseness

    tree = [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"]]
    rows = {"a": ["v0", "v1", "v2", "v0"] * 5 + ["v2"], "b": ["v0", "v1"] * 10 + ["v2"], "ill": ["u", "w", "u"] * 7}
    problem = make_problem(rows, {"a": tree, "b": tree}, (KAnonymity(k=3), TCloseness(column="ill", t=0.5)), limit=0.5)
    watched: Any = Watched(engine)
    table = engine.scan(Source(data=problem.table))
    context = replace(problem.context, made=[])
    stage = Generalize(levels={"a": 1, "b": 1}, suppress_at_most=0.5)
    assert not needs_combinations(stage, context)
    made = plan(watched, table, stage, context)
    kept = stage.run(watched, table, made, Draws(SEED, 0, "generalize"), context)
    assert watched.asked == []
    assert engine.count(kept) == 20
    assert needs_combinations(replace(stage, loss=LossSpec(name="discernibility")), context)

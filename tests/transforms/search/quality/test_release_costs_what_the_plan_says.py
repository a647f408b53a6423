"""What a stage released costs, measured on the release next to its original, what the plan of the search said."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks.quality_spec import DEFAULT_AGGREGATES, QualityName
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import HierarchyError, NoSolutionError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.judging import JudgingRules, assess
from privpipe.measures import Quality
from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.transforms import Generalize
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.labelling import LossSpec
from tests.tiers import at_most

SEED = Seed.insecure(1)


def with_gaps(problem: Any, draw: random.Random) -> tuple[Any, Any]:
    """The problem with nulls, and a value that a hierarchy lacks; its table and context."""
    rows = {name: list(cells) for name, cells in problem.rows.items()}
    name = problem.columns[0]
    for at in range(len(problem)):
        if draw.random() < 0.1:
            rows[name][at] = draw.choice([None, "elsewhere"])
    gapped = replace(problem, rows=rows, guarantees=(KAnonymity(k=2), DistinctLDiversity(column="ill", l=1)))
    specs = {}
    for column, tree in problem.hierarchies.items():
        built = Hierarchy.from_rows(tree, column=column, unknown="suppress" if draw.random() < 0.5 else "root")
        specs[column] = HierarchySpec.from_hierarchy(built, column=column)
    return gapped.table, replace(gapped.context, hierarchies=specs)


@given(data=st.data())
@settings(max_examples=at_most(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_model_finds_the_plans_loss_on_the_release(
    embedded: Engine, random_problems: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    draw = random.Random(len(problem) + 100 * len(problem.nodes()))
    frame, context = with_gaps(problem, draw)
    table = embedded.with_record_ids(embedded.scan(Source(data=frame)), None, SEED)
    name = draw.choice([name for name in get_args(QualityName) if name != "static"])
    given: dict[str, Any] = {"response": "ill"} if name == "classification" else {}
    if name in ("loss", "precision", "entropy", "aecs", "entropy_based"):
        given["gs_factor"] = draw.choice([0.3, 0.5, 0.7])
    stage = Generalize(loss=LossSpec(name=name, **given), suppress_at_most=draw.choice([0.3, 1.0]))
    try:
        made = plan(embedded, table, stage, context)
    except (NoSolutionError, HierarchyError):
        return
    kept = stage.run(embedded, table, made, Draws(SEED, 0, "generalize"), context)
    rows = embedded.distinct(kept, context.roles.quasi_identifiers).drop(["__count"]).to_pylist()
    if any(set(row.values()) == {"*"} for row in rows):
        return  # rows of nothing but the mark count as suppressed
    found = assess(
        embedded,
        kept,
        guarantees=(),
        measures=[Quality(name=name, **given)],
        roles=context.roles,
        rules=JudgingRules(hierarchies=context.hierarchies, stages=({"name": "generalize", "detail": made.detail},)),
        original=table,
    ).measures[0]
    if np.isfinite(made.detail["loss"]):
        assert found.observed == pytest.approx(made.detail["loss"], rel=1e-9, abs=1e-9), (name, found.reason)
    assert "labels of the release alone" not in found.reason
    assert (name in DEFAULT_AGGREGATES) == bool(made.detail["column_losses"])

"""Mondrian and local recoding under wildcards: what they release is judged from the definition, row by row."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import NoSolutionError, UnsupportedError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import AverageRisk, DistinctLDiversity, KAnonymity, SampleUniqueness, TCloseness
from privpipe.models.identity.strict_average_risk import StrictAverageRisk
from privpipe.roles import Roles
from privpipe.tolerance import floor_share
from privpipe.transforms import LocalRecoding, Mondrian
from privpipe.transforms.base import StageContext, StagePlan

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


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
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
        with pytest.raises(NoSolutionError):
            made(embedded, stage, rows, plain)
        return
    sizes = matching(released, wildcard)
    assert all(meets(guarantee, sizes) for guarantee in guarantees)
    assert len(rows) - len(released["row"]) <= floor_share(getattr(stage, "suppress_at_most", 0.0), len(rows))
    other, same = made(embedded, stage, rows, plain)
    assert (found.detail, released) == (other.detail, same)  # a null is a value of its own


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_models_without_a_meaning_under_wildcards_stay_refused(embedded: Engine, stage: Any) -> None:
    rows = blanked_rows(random.Random(1), 20)
    for guarantee in (DistinctLDiversity(column="ill", l=1), TCloseness(column="ill", t=0.5)):
        context = context_of(rows, (KAnonymity(k=2), guarantee), nulls="wildcard")
        with pytest.raises(UnsupportedError, match="there are no classes to judge it by"):
            made(embedded, stage, rows, context)

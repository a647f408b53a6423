"""Planted faults in stages: each mutant of a noise or a rounding is seen by the kit, and what it mutates is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, RowBlock
from privpipe.blocks.marks import Columns
from privpipe.draws import Draws
from privpipe.engines import Engine
from privpipe.testing import stage_problems
from privpipe.transforms.base import RowTransformer, StageContext, StagePlan, Transformer


@dataclass(frozen=True, kw_only=True, repr=False)
class Noisy(RowTransformer):
    """Uniform noise on income: what the mutants are mutants of."""

    needs_draws: ClassVar[bool] = True
    columns: Annotated[tuple[str, ...], Columns()] = ("income",)

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        return rows.replace("income", rows["income"] + self.noise(rows, draws))

    def noise(self, rows: RowBlock, draws: Draws) -> Any:
        return draws.of("income").uniform(rows.record_ids)


class IgnoresTheSeed(Noisy):
    """Noise that anyone can work out."""

    def noise(self, rows: RowBlock, draws: Draws) -> Any:
        return np.sin(rows["income"])


class DependsOnPartitions(Noisy):
    """Adds what it sees of the block."""

    def noise(self, rows: RowBlock, draws: Draws) -> Any:
        return super().noise(rows, draws) + len(rows)


class DependsOnRowOrder(Noisy):
    """Draws by position."""

    def noise(self, rows: RowBlock, draws: Draws) -> Any:
        return super().noise(rows, draws) + np.arange(len(rows))


class DrawsFromTheClock(Noisy):
    """Draws afresh at each run."""

    def noise(self, rows: RowBlock, draws: Draws) -> Any:
        return np.random.default_rng().random(len(rows))


class DrawsInSecret(Noisy):
    """Declares that it draws nothing."""

    needs_draws: ClassVar[bool] = False


class LiesAboutNames(Noisy):
    """Promises a column that does not come."""

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return schema.append(pa.field("more", pa.int64())) if plan.detail else schema

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        return replace(super().plan(facts, context), detail={"learnt": 1})

    def run(self, engine: Any, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        return super().run(engine, table, replace(plan, detail={}), draws, context)


class LiesAboutTypes(LiesAboutNames):
    """Promises text where numbers come."""

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        at = schema.get_field_index("income")
        return schema.set(at, pa.field("income", pa.string())) if plan.detail else schema


@dataclass(frozen=True)
class Blocks:
    """A reduction that counts blocks."""

    def measure(self, block: RowBlock, facts: Facts) -> int:
        return 1

    def merge(self, left: int, right: int) -> int:
        return left + right


class PlansByPartitions(Noisy):
    """Learns the number of parts of the table."""

    def learn(self, engine: Any, table: Any, context: StageContext) -> StagePlan:
        return StagePlan(name=self.name(), detail={"pieces": engine.reduce_rows(table, ["income"], Blocks(), Facts())})


class PlansByOrder(Noisy):
    """Learns the first value that it sees."""

    def learn(self, engine: Any, table: Any, context: StageContext) -> StagePlan:
        return StagePlan(name=self.name(), detail={"first": engine.reduce_rows(table, ["income"], First(), Facts())})


@dataclass(frozen=True)
class First:
    """A reduction that is not commutative."""

    def measure(self, block: RowBlock, facts: Facts) -> float:
        return float(block["income"][0]) if len(block) else 0.0

    def merge(self, left: float, right: float) -> float:
        return left or right


class BreaksOnNothing(Noisy):
    """NoiseObservations at the first record of each block."""

    def noise(self, rows: RowBlock, draws: Draws) -> Any:
        return super().noise(rows, draws) + 0 * rows["income"][0]


class ForgetsItsPlan(Noisy):
    """Works by what it remembers instead of what the plan says."""

    def learn(self, engine: Any, table: Any, context: StageContext) -> StagePlan:
        return StagePlan(name=self.name(), detail={"scale": (1.0, 2.0)})

    def noise_scale(self, plan: StagePlan) -> float:
        return 1.0 if isinstance(plan.detail["scale"], tuple) else 2.0

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        return rows.replace("income", rows["income"] + self.noise_scale(plan) * self.noise(rows, draws))


MUTANTS = {
    IgnoresTheSeed: "same under another seed",
    DependsOnPartitions: "the rows differ in 3 partitions",
    DependsOnRowOrder: "the rows differ in 1 partitions",
    DrawsFromTheClock: "the rows differ",
    DrawsInSecret: "although the stage draws nothing",
    LiesAboutNames: "released_schema promises",
    LiesAboutTypes: "released_schema promises",
    PlansByPartitions: "the plan differs in 3 partitions",
    PlansByOrder: "the plan differs",
    BreaksOnNothing: "a block without rows breaks it",
    ForgetsItsPlan: "by its own plan, read back",
}


PARTED = (DependsOnPartitions, PlansByOrder, PlansByPartitions)
"""Seen where blocks are partitions: the embedded engine hands a small table over in one block."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_the_kit_sees_each_fault(
    mutant: type[Transformer], embedded: Engine, dask_engine: Engine, tmp_path: Path
) -> None:
    problems = stage_problems(mutant(), dask_engine if mutant in PARTED else embedded, folder=tmp_path)
    assert any(MUTANTS[mutant] in problem for problem in problems), problems


def test_what_they_mutate_conforms(engine: Engine, tmp_path: Path) -> None:
    assert stage_problems(Noisy(), engine, partitions=(3,), folder=tmp_path) == []

"""A table about invented people, and one call that plans and runs a stage on an engine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import Facts, FactsRequest, Guarantee
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.hierarchies import HierarchySpec
from privpipe.roles import Roles
from privpipe.transforms.base import StageContext, StagePlan, Transformer


@dataclass(frozen=True)
class Outcome:
    """What a stage made of a table: its plan, and the rows in keyed order."""

    plan: StagePlan
    rows: pa.Table

    def __getitem__(self, column: str) -> list[Any]:
        return self.rows.column(column).to_pylist()  # type: ignore[no-any-return]


Run = Callable[..., Outcome]


def written_in_parts(frame: pa.Table, parts: int, shuffled: bool, tmp_path: Path) -> Source:
    folder = tmp_path / f"source-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    order = np.random.default_rng(parts).permutation(len(frame)) if shuffled else np.arange(len(frame))
    for part in range(parts):
        pq.write_table(frame.take(order[part::parts]), folder / f"{part}.parquet")
    return Source(data=str(folder), format="parquet")


@pytest.fixture
def run_on(tmp_path: Path) -> Run:
    """Plans and runs a stage on an engine, the rows dealt out to several files in any order."""

    def run(
        engine: Engine,
        stage: Transformer,
        rows: pa.Table | Mapping[str, Sequence[Any]],
        *,
        parts: int = 1,
        shuffled: bool = False,
        seed: int = 7,
        record_id: str | None = None,
        roles: Roles | None = None,
        guarantees: Sequence[Guarantee] = (),
        hierarchies: Mapping[str, Any] | None = None,
        base: Sequence[str] = (),
        identifiers_released: Sequence[str] = (),
    ) -> Outcome:
        frame = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
        source = Source(data=frame) if parts == 1 else written_in_parts(frame, parts, shuffled, tmp_path)
        table = engine.with_record_ids(engine.scan(source), record_id, Seed.insecure(seed))
        context = StageContext(
            roles=roles or Roles(insensitive=frame.column_names),
            schema=table.schema,
            hierarchies={
                name: HierarchySpec.from_mapping(spec, tmp_path, column=name)
                for name, spec in (hierarchies or {}).items()
            },
            guarantees=tuple(guarantees),
            base=engine.facts(table, FactsRequest(histograms=tuple(base))) if base else Facts(),
            place="transform[0]",
            released_identifiers=tuple(identifiers_released),
        )
        plan = stage.learn(engine, table, context)
        made = stage.run(engine, table, plan, Draws(Seed.insecure(seed), 0, stage.name()), context)
        found = engine.collect(made)
        assert found.schema.equals(made.schema)
        return Outcome(plan, found)

    return run


@pytest.fixture
def run(embedded: Engine, run_on: Run) -> Run:
    """`run_on` the embedded engine."""

    def on_embedded(stage: Transformer, rows: Any, **options: Any) -> Outcome:
        return run_on(embedded, stage, rows, **options)

    return on_embedded


@pytest.fixture(scope="session")
def people() -> pa.Table:
    """240 records of every type, with nulls, ties, NaN and -0.0."""
    rng = np.random.default_rng(3)
    n = 240
    days = [datetime.date(1990, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, n)]
    seen = [
        datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=int(second)) for second in rng.integers(0, 9e6, n)
    ]
    income = [float(value) for value in np.round(rng.lognormal(7, 1, n), 2)]
    for at in range(0, n, 17):
        income[at] = [0.0, -0.0, float("nan"), 500.0][at // 17 % 4]
    return pa.table(
        {
            "name": pa.array([f"person {at % 200}" for at in range(n)]),
            "age": pa.array(rng.integers(18, 60, n)),
            "town": pa.array(rng.choice(["Ashford", "Barrow", "Crewe"], n), mask=rng.random(n) < 0.05),
            "income": pa.array(income, pa.float64(), mask=rng.random(n) < 0.1),
            "rent": pa.array([Decimal(int(cents)) / 100 for cents in rng.integers(0, 99999, n)], pa.decimal128(10, 2)),
            "admitted": pa.array(days, mask=rng.random(n) < 0.1),
            "seen": pa.array(seen, pa.timestamp("us")),
            "illness": pa.array(rng.choice(["flu", "cold", "asthma", "gout"], n)),
        }
    )

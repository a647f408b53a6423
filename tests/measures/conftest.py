"""Files to compare: a pair of tables judged on an engine, and the masked census of the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from privpipe.blocks import FilePairMeasure, Verdict
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules, assess
from privpipe.roles import Roles

SEED = Seed.insecure("measures of pairs")
ROW = "row of the record"


@pytest.fixture(scope="session")
def judged_pair() -> Callable[..., Verdict]:
    """The verdict of an entry over two tables whose rows belong together, optionally handed over in another order."""

    def judge(
        engine: Engine,
        entry: FilePairMeasure,
        original: pa.Table,
        released: pa.Table,
        *,
        order: Any = None,
        left_out: int = 0,
        stages: Any = (),
        hierarchies: Any = None,
    ) -> Verdict:
        sides = []
        for table, gone in ((released, left_out), (original, 0)):
            numbered = table.append_column(ROW, pa.array(range(table.num_rows), pa.int64())).slice(gone)
            if order is not None:
                numbered = numbered.take([at for at in order if at < numbered.num_rows])
            scanned = engine.with_record_ids(engine.scan(Source(data=numbered)), ROW, SEED)
            sides.append(engine.select(scanned, table.schema.names))
        rules = JudgingRules(
            order=RunKey.of(SEED, "", "").attacks(), stages=tuple(stages), hierarchies=hierarchies or {}
        )
        roles = Roles(quasi_identifiers=tuple(original.schema.names))
        gates, measures = ([entry], []) if entry.is_gate() else ([], [entry])
        found = assess(
            engine, sides[0], guarantees=gates, measures=measures, roles=roles, rules=rules, original=sides[1]
        )
        return (*found.verdicts, *found.measures)[0]

    return judge


@pytest.fixture(scope="session")
def sdcmicro(shared: Path) -> list[dict[str, Any]]:
    """Cases of reference/sdcmicro.json (sdcMicro 5.8.1)."""
    cases: list[dict[str, Any]] = json.loads((shared / "reference" / "sdcmicro.json").read_text())["cases"]
    return cases


@pytest.fixture(scope="session")
def torra(shared: Path) -> dict[str, Any]:
    """Worked examples and tables of the slides, reference/torra.json."""
    found: dict[str, Any] = json.loads((shared / "reference" / "torra.json").read_text())
    return found


@pytest.fixture(scope="session")
def casc(shared: Path) -> Callable[[str], pa.Table]:
    """A table of data/casc, or a masked one of the reference, as numbers (blank cells missing)."""

    def read(name: str) -> pa.Table:
        path = shared / name if "/" in name else shared / "data" / "casc" / name
        return pyarrow.csv.read_csv(path)

    return read

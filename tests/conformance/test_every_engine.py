"""Every model, every engine, every hostile table: the oracle's verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.models import CATALOGUE
from privpipe.testing import HOSTILE_TABLES, Case, Conformance, HostileTable, PlainEngine, cases, examples_of
from privpipe.testing.oracle import expected_error


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_every_engine_gives_the_oracle_verdict(checks: Conformance, case: Case, request: pytest.FixtureRequest) -> None:
    gap = case.gap(checks.engine.name)
    if gap is not None:
        request.applymarker(pytest.mark.xfail(raises=gap.raises, reason=gap.why, strict=True))
    checks.check(case)


@pytest.mark.parametrize("table", [table for table in HOSTILE_TABLES.values() if table.make is None], ids=str)
def test_files_in_parts_are_one_table(engine: Engine, table: HostileTable, tmp_path: Path) -> None:
    """Each row lies in another file than the one before: classes must be put together again."""
    checks = Conformance(engine, folder=tmp_path)
    for model in checks.models:
        case = Case(model, table)
        if case.gap(engine.name) is None:
            checks.check(case)


SERVED = [model for model in examples_of(CATALOGUE) if expected_error(model, HOSTILE_TABLES["one_huge_class"]) is None]


def verdicts(engine: Engine, frame: Any) -> list[dict[str, Any]]:
    roles = HOSTILE_TABLES["one_huge_class"].roles
    handle = engine.scan(Source(data=frame))
    return [row.to_dict() for row in assess(engine, handle, guarantees=SERVED, roles=roles).verdicts]


def test_engines_agree_to_the_last_bit_in_any_row_order(engine: Engine) -> None:
    """Sums run over values in sorted order; where a record lies is nobody's business."""
    frame = HOSTILE_TABLES["one_huge_class"].frame()
    plain = verdicts(PlainEngine(), frame)  # type: ignore[arg-type]
    shuffled = frame.take(np.random.default_rng(7).permutation(len(frame)))
    assert verdicts(engine, frame) == plain
    assert verdicts(engine, shuffled) == plain

"""Every model, every engine, every hostile table: the oracle's verdict."""

from __future__ import annotations

import pytest

from privpipe.testing import Case, Conformance, cases


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_every_engine_gives_the_oracle_verdict(checks: Conformance, case: Case, request: pytest.FixtureRequest) -> None:
    gap = case.gap(checks.engine.name)
    if gap is not None:
        request.applymarker(pytest.mark.xfail(raises=gap.raises, reason=gap.why, strict=True))
    checks.check(case)

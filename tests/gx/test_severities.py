"""A guarantee that warns is an expectation of severity `warning`, which fails and stops nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.models import KAnonymity

pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # after the check that great_expectations is there
from tests.validated_frames import gate, passing

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]
FRAME = pd.DataFrame({"age": ["30-40"] * 4 + ["50-60"] * 4})
ROLES = pp.Roles(quasi_identifiers=["age"])


def run(suite: Any) -> Any:
    return passing(gate(suite), FRAME)


def test_a_warning_fails_and_does_not_raise(tmp_path: Path) -> None:
    suite = ppgx.suite_of([KAnonymity(k=4), KAnonymity(k=5, severity="warn")], ROLES, name="visits")
    ppgx.save_suite(suite, tmp_path / "suite.json")
    for each in (suite, ppgx.load_suite(tmp_path / "suite.json")):
        found = run(each)
        assert not found.success
        [results] = (run.results for run in found.run_results.values())
        assert sorted((row.success, str(row.expectation_config.severity.value)) for row in results) == [
            (False, "warning"),
            (True, "critical"),
        ]


def test_what_must_hold_still_raises() -> None:
    suite = ppgx.suite_of([KAnonymity(k=5), KAnonymity(k=6, severity="warn")], ROLES, name="visits")
    with pytest.raises(pp.errors.Refused, match="1 of 2 expectation"):
        run(suite)


def test_a_suite_of_warnings_vouches_for_nothing() -> None:
    suite = ppgx.suite_of([KAnonymity(k=2, severity="warn")], ROLES, name="visits")
    with pytest.raises(pp.errors.Refused, match="only warns"):
        run(suite)

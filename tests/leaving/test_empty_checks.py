"""A gate that evaluated nothing, or less than its suite says, refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privpipe.errors import Refused, UsageError
from tests.validated_frames import gate, passing

gx = pytest.importorskip("great_expectations")
ppgx = pytest.importorskip("privpipe.gx")
pytestmark = pytest.mark.gx
ROWS = pd.DataFrame({"zip": ["a", "a", "b", "b"], "illness": ["flu", "cold", "flu", "cold"]})
COLUMN_EXISTS = {"type": "expect_column_to_exist", "kwargs": {"column": "zip"}}
ANONYMITY = {"type": "expect_k_anonymity", "kwargs": {"k": 2, "quasi_identifiers": ["zip"]}}


def suite(*expectations: dict[str, Any], declared: int | None = None) -> Any:
    meta = {} if declared is None else {"privpipe": {"privacy_expectations": declared}}
    return gx.ExpectationSuite(name="suite", expectations=list(expectations), meta=meta)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: suite(), "no privacy expectation"),
        (lambda: suite(COLUMN_EXISTS), "no privacy expectation"),
        (lambda: suite(COLUMN_EXISTS, declared=2), "0 of the 2"),
        (lambda: suite(ANONYMITY, declared=2), "1 of the 2"),
        (lambda: suite({**ANONYMITY, "type": "expect_something_nobody_knows"}, declared=1), "0 of the 1"),
        (lambda: suite({**ANONYMITY, "type": "expect_something_nobody_knows"}), "no privacy expectation"),
    ],
    ids=["empty", "other checks", "lost all", "lost one", "unknown", "unknown and undeclared"],
)
def test_a_gate_that_judged_too_little_refuses(given: Any, said: str) -> None:
    with pytest.raises(Refused, match=f"evaluated {said}.*import privpipe.gx"):
        passing(gate(given()), ROWS)


@pytest.mark.parametrize("declared", [None, 1])
def test_a_gate_that_judged_all_passes(declared: int | None) -> None:
    assert passing(gate(suite(ANONYMITY, COLUMN_EXISTS, declared=declared)), ROWS).success


def test_a_saved_suite_shows_how_many_it_holds(tmp_path: Path) -> None:
    ppgx.save_suite(suite(ANONYMITY, COLUMN_EXISTS), tmp_path / "suite.json")
    document = json.loads((tmp_path / "suite.json").read_text())
    assert document["meta"]["privpipe"] == {"privacy_expectations": 1}
    assert passing(gate(ppgx.load_suite(tmp_path / "suite.json")), ROWS).success
    document["expectations"][0]["type"] = "expect_something_nobody_knows"
    (tmp_path / "suite.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="1 of its expectations cannot be made"):
        ppgx.load_suite(tmp_path / "suite.json")


@pytest.mark.deep
def test_a_process_that_reads_the_suite_before_it_knows_it_is_refused(tmp_path: Path) -> None:
    """Great Expectations drops what it does not know with a line in a log, and calls an empty suite a success."""
    ppgx.save_suite(suite(ANONYMITY), tmp_path / "suite.json")
    code = (
        "import json, sys, pandas as pd, great_expectations as gx\n"
        "document = json.load(open(sys.argv[1]))\n"
        "suite = gx.ExpectationSuite(name='s', expectations=document['expectations'], meta=document['meta'])\n"
        "assert not suite.expectations\n"
        "import privpipe.gx as ppgx\n"
        "context = gx.get_context(mode='ephemeral')\n"
        "asset = context.data_sources.add_pandas('p').add_dataframe_asset('a')\n"
        "data = asset.add_batch_definition_whole_dataframe('b')\n"
        "check = gx.ValidationDefinition(name='g', data=data, suite=context.suites.add(suite))\n"
        "check = context.validation_definitions.add(check)\n"
        "gate = gx.Checkpoint(name='g', validation_definitions=[check], actions=[ppgx.RaiseOnFailure(name='g')])\n"
        "try:\n"
        "    context.checkpoints.add(gate).run(batch_parameters={'dataframe': pd.DataFrame({'zip': ['a', 'b']})})\n"
        "except ppgx.action.Refused as error:\n"
        "    print('REFUSED', error)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "suite.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert "REFUSED" in done.stdout, done.stderr[-2000:]
    assert "0 of the 1 privacy expectations" in done.stdout

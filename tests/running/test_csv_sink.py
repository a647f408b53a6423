"""A release as CSV files holds the records that were staged, empty and missing texts among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine


@pytest.fixture
def written(tmp_path: Path) -> dict[str, Any]:
    """Persons with an empty town, a missing one and a named one; judged by person."""
    rows = [f"{person},{town},flu" for person, town in enumerate(["", "NA", "x"] * 4)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["who,town,illness", *rows]) + "\n", encoding="utf-8")
    return {
        "version": 1,
        "name": "visits",
        "source": {"path": str(path), "format": "csv", "null_values": ["NA"]},
        "columns": {
            "who": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
        },
        "person_id": "who",
        "guarantees": [{"k_anonymity": {"k": 4}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}],
        "sink": {"path": str(tmp_path / "published" / "visits"), "format": "csv"},
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
    }


def test_an_empty_text_is_not_a_missing_one(written: dict[str, Any], engine: Engine) -> None:
    result = pp.release(written, engine=engine)
    assert result.assessment.verdicts[0].observed == 4
    lines = sorted(Path(result.path, "part-00000.csv").read_text(encoding="utf-8").splitlines())
    assert lines == sorted(["town,illness", *['"",flu'] * 4, *[",flu"] * 4, *["x,flu"] * 4])


def test_validate_reads_the_sink_as_it_was_written(written: dict[str, Any], tmp_path: Path) -> None:
    pp.release(written)
    del written["person_id"]
    policy = tmp_path / "release.json"
    policy.write_text(json.dumps(written), encoding="utf-8")
    found = CliRunner().invoke(app, ["validate", written["sink"]["path"], str(policy), "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["classes"] == 3


def test_assess_reads_the_sink_as_it_was_written(written: dict[str, Any], tmp_path: Path) -> None:
    """Also where the source has another delimiter than the sink."""
    source = Path(written["source"]["path"])
    source.write_text(source.read_text(encoding="utf-8").replace(",", ";"), encoding="utf-8")
    written["source"]["delimiter"] = ";"
    pp.release(written)
    del written["person_id"]
    for path in (written["sink"]["path"], Path(written["sink"]["path"])):
        assert pp.assess(path, written).classes == 3

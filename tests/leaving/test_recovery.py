"""Row of the table: weight released as insensitive, of which each value names one region."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine

REGIONS = [f"r{number:02d}" for number in range(40)]
SENTENCE = "`weight` tells `region` for 100 % of the records although it was generalized; drop `weight`"


def people(rows: int = 2000) -> pd.DataFrame:
    places = [row * 7919 % 40 for row in range(rows)]
    return pd.DataFrame(
        {
            "who": [f"p{row}" for row in range(rows)],
            "region": [REGIONS[place] for place in places],
            "sex": ["f" if row % 3 else "m" for row in range(rows)],
            "weight": [1.25 + place * 3.5 for place in places],
            "illness": [["flu", "cold", "gout"][row * 31 % 7 % 3] for row in range(rows)],
        }
    )


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    people().to_parquet(tmp_path / "people.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "people.parquet")},
        "columns": {
            "who": {"role": "identifier"},
            "region": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left", "length": 3}}},
            "sex": {"role": "quasi_identifier"},
            "weight": {"role": "insensitive", "type": "number"},
            "illness": {"role": "sensitive"},
        },
        "record_id": "who",
        "transform": [{"generalize": {"levels": {"region": 2}}}],
        "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "sink": {"path": str(tmp_path / "published")},
    }


def test_the_release_says_so(engine: Engine, document: dict[str, Any]) -> None:
    result = pp.release(document, engine=engine)
    assert [note for note in result.assessment.source_notes if note.startswith(SENTENCE)]
    assert not [note for note in result.assessment.source_notes if "`sex`" in note]


def test_what_was_dropped_or_generalized_tells_nothing(engine: Engine, document: dict[str, Any]) -> None:
    document["columns"]["weight"] = {"role": "identifier", "type": "number"}
    assert pp.release(document, engine=engine).assessment.source_notes == ()


def test_as_a_guarantee_it_refuses_the_release(engine: Engine, document: dict[str, Any], tmp_path: Path) -> None:
    document["guarantees"].append({"recovery": {"at_most": 0.05}})
    with pytest.raises(pp.errors.Refused) as refusal:
        pp.release(document, engine=engine)
    verdict = refusal.value.assessment.failed[0]  # type: ignore[union-attr]
    assert verdict.name == "recovery"
    assert verdict.observed["recovered"] == verdict.observed["determined"] == 1.0
    assert verdict.observed["gain"] > 0.8
    assert not (tmp_path / "published").exists()


def test_beside_its_original_anybody_may_see_it(engine: Engine, document: dict[str, Any]) -> None:
    """Also for a table of others, where no guarantee asked for pairs."""
    original = people()
    released = original.assign(region="r**").drop(columns="who")
    del document["record_id"]
    del document["transform"]
    found = pp.assess(released, document, original=original, align="position", engine=engine)
    assert found.passed
    assert any(note.startswith("`weight` tells `region` for 100 %") for note in found.source_notes)
    assert pp.assess(released, document, engine=engine).source_notes == ()


def test_tables_that_do_not_fit_are_no_error_where_nothing_asked_for_pairs(document: dict[str, Any]) -> None:
    released = people().assign(region="r**").drop(columns="who").head(1000)
    found = pp.assess(released, document, original=people(), align="position")
    assert found.passed
    assert found.source_notes == ()


def test_the_command_shows_it(document: dict[str, Any], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from privpipe.cli.app import app

    (tmp_path / "policy.yaml").write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["release", str(tmp_path / "policy.yaml")])
    assert done.exit_code == 0, done.stderr
    assert f"note: {SENTENCE}" in done.stdout

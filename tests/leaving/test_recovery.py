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


ALLOWED = {"recovery": {"at_most": 1.0}}


def test_the_release_is_refused_though_no_guarantee_of_the_policy_asks(
    engine: Engine, document: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(pp.errors.Refused, match="`weight` tells `region` for 100 %") as refusal:
        pp.release(document, engine=engine)
    assert [verdict.name for verdict in refusal.value.assessment.failed] == ["recovery"]  # type: ignore[union-attr]
    assert not (tmp_path / "published").exists()
    with pytest.raises(pp.errors.Refused, match="`weight` tells `region` for 100 %"):
        pp.Policy.from_dict(document).apply(people(), engine=engine)


def test_a_policy_may_allow_it_and_the_release_says_so(engine: Engine, document: dict[str, Any]) -> None:
    document["guarantees"].append(ALLOWED)
    result = pp.release(document, engine=engine)
    assert [note for note in result.assessment.source_notes if note.startswith(SENTENCE)]
    assert not [note for note in result.assessment.source_notes if "`sex`" in note]


def test_what_was_dropped_or_generalized_shows_nothing(engine: Engine, document: dict[str, Any]) -> None:
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
    assert [verdict.name for verdict in found.failed] == ["recovery"]
    assert any(note.startswith("`weight` tells `region` for 100 %") for note in found.source_notes)
    document["guarantees"].append(ALLOWED)
    assert not pp.assess(released, document, engine=engine).passed  # an entry over pairs, and no original
    del document["guarantees"][-1]
    assert pp.assess(released, document, engine=engine).source_notes == ()


def test_chance_refuses_nothing(engine: Engine, document: dict[str, Any], tmp_path: Path) -> None:
    """With 190 weights that say nothing of the region each group has some ten records, of which luck guesses many."""
    frame = people().assign(weight=[float(row * 4001 % 190) for row in range(2000)])
    frame["region"] = [f"r{row * row * 13 % 41 % 12:02d}" for row in range(2000)]
    frame.to_parquet(tmp_path / "people.parquet")
    found = pp.release(document, engine=engine).assessment
    assert found.passed
    assert any(note.startswith("`weight` tells `region`") for note in found.source_notes)


def test_tables_that_do_not_fit_are_not_an_error_where_nothing_asked_for_pairs(document: dict[str, Any]) -> None:
    released = people().assign(region="r**").drop(columns="who").head(1000)
    found = pp.assess(released, document, original=people(), align="position")
    assert found.passed
    assert found.source_notes == ()


@pytest.mark.parametrize("align", ["record_id", "position"])
def test_where_records_cannot_be_paired_it_is_noted(engine: Engine, document: dict[str, Any], align: Any) -> None:
    """The released table has no record id, and another number of records than the original."""
    released = people(1500).drop(columns="who").assign(region="*")
    found = pp.assess(released, document, original=people(), align=align, engine=engine)
    assert found.passed
    assert [note for note in found.notes if "could not be paired" in note]
    document["guarantees"].append(ALLOWED)
    assert not pp.assess(released, document, original=people(), engine=engine).passed


def test_the_command_shows_it(document: dict[str, Any], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from privpipe.cli.app import app

    (tmp_path / "policy.yaml").write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["release", str(tmp_path / "policy.yaml")])
    assert done.exit_code == 5
    assert "built in: Recovery(at_most=0.5" in done.stderr
    document["guarantees"].append(ALLOWED)
    (tmp_path / "policy.yaml").write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["release", str(tmp_path / "policy.yaml")])
    assert done.exit_code == 0, done.stderr
    assert f"note: {SENTENCE}" in done.stdout

"""Seeds: strong, or declared insecure and said so; what links releases is said, and known only with the seed."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, Refused, UsageError

STRONG = {"from_env": "PRIVPIPE_TEST_SEED"}
INDEPENDENT = "times with independent noise"


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    rows = pd.DataFrame({"name": [f"n{at}" for at in range(60)], "age": [20 + at % 3 for at in range(60)]})
    rows.assign(income=rows.index * 10.0).to_parquet(tmp_path / "people.parquet", index=False)
    roles = {"name": "identifier", "age": "quasi_identifier", "income": "insensitive"}
    return {
        "columns": {name: {"role": role} for name, role in roles.items()},
        "source": {"path": str(tmp_path / "people.parquet")},
        "record_id": "name",
        "transform": [{"add_noise": {"columns": ["income"], "variance_ratio": 0.5}}],
        "guarantees": [{"k_anonymity": {"k": 5}}],
        "sink": {"path": str(tmp_path / "out")},
        "seed": STRONG,
    }


def test_an_insecure_seed_publishes_only_where_the_policy_allows_it(
    document: dict[str, Any], embedded: Engine, tmp_path: Path
) -> None:
    insecure = {**document, "seed": {"insecure": 7}, "source": {"path": str(tmp_path / "absent.parquet")}}
    with pytest.raises(UsageError, match="declared insecure.*privpipe seed"):  # before the source is looked for
        pp.release(insecure, engine=embedded)
    assert not (tmp_path / "out").exists()
    allowed = {**insecure, "source": document["source"], "allow_insecure_seed": True}
    result = pp.release(allowed, engine=embedded)
    assert result.verdict_document["notes"][0].startswith("the seed is insecure: ")
    strict = {**allowed, "guarantees": [{"k_anonymity": {"k": 50}}]}
    with pytest.raises(Refused) as caught:
        pp.release(strict, engine=embedded)
    assert caught.value.assessment.notes[0].startswith("the seed is insecure: ")
    assert not any("insecure" in note for note in pp.release(document, engine=embedded).assessment.notes)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ("hunter2", "needs 128"),
        (20261122, "needs 128"),
        ({"insecure": []}, "insecure must be a text or an integer"),
        ({"insecure": 7, "from_env": "A"}, "insecure must be a text or an integer, without other keys"),
        ({"unsafe": 7}, "unknown key"),
    ],
)
def test_other_seeds_are_not_a_policy(document: dict[str, Any], tmp_path: Path, seed: Any, message: str) -> None:
    lines = json.dumps({**document, "seed": "HERE"}, indent=0).replace('"HERE"', json.dumps(seed))
    (tmp_path / "release.yaml").write_text(lines)
    line = next(at for at, text in enumerate(lines.splitlines(), 1) if text.startswith('"seed"'))
    with pytest.raises(UsageError, match=rf"release.yaml:{line}.*{message}"):
        pp.Policy.load(tmp_path / "release.yaml")


def test_another_key_for_a_column_is_noted_from_private_figures(
    document: dict[str, Any], embedded: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noted(ratio: float) -> tuple[str, ...]:
        stage = {"add_noise": {"columns": ["income"], "variance_ratio": ratio}}
        judged = pp.release({**document, "transform": [stage]}, engine=embedded).assessment
        assert not any(INDEPENDENT in note for note in judged.notes)
        return tuple(note for note in judged.source_notes if INDEPENDENT in note)

    history = tmp_path / ".out.privpipe" / "keys.json"
    assert noted(0.5) == noted(0.5) == ()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    kept = history.read_text()
    assert "income" not in kept
    with pytest.raises(Refused):
        pp.release({**document, "transform": [], "guarantees": [{"k_anonymity": {"k": 50}}]}, engine=embedded)
    assert history.read_text() == kept  # what was refused was never released
    (note,) = noted(0.7)
    assert note.startswith("'income' was released 2 times with independent noise")
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", "c1" + "0123456789abcdef" * 4)
    assert noted(0.5) == ()  # another seed knows nothing of it
    history.write_text("[]")
    with pytest.raises(DataError, match="keys.json' is damaged"):
        pp.release(document, engine=embedded)


def test_stages_that_link_releases_say_so(
    document: dict[str, Any], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKING_KEY", "0f1e2d3c" * 8)
    stage = {"pseudonymise": {"columns": ["name"], "key": {"from_env": "LINKING_KEY"}, "domain": "people"}}
    notes = pp.release({**document, "transform": [stage]}, engine=engine).assessment.notes
    assert any(note.startswith("transform[0].pseudonymise gives an unchanged record the same") for note in notes)
    assert not any("pseudonymise" in note for note in pp.release(document, engine=engine).assessment.notes)

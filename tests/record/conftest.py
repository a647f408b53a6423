"""A small table, and policies that release it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SEED = "8c1f0b7e52d94a6633e0a1c4f7b92d580e6c3f1a97b45d20c8e1f6a3b5d7094e"
CANARY = "Quokkaville"
Written = Callable[..., Path]


def base_document(place: Path) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "people",
        "source": {"path": str(place / "people.csv")},
        "columns": {
            "name": {"role": "identifier"},
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"start": 20, "widths": [5, 10, 20]}},
            },
            "town": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
        },
        "record_id": "name",
        "transform": [{"generalize": {"search": "optimal", "suppress_at_most": 0.05}}],
        "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "sink": {"path": str(place / "published" / "people")},
        "seed": SEED,
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lines = ["name,age,town,illness"]
    lines += [
        f"p{at},{20 + at % 40},{('Ashford', 'Barrow')[at % 2]},{('flu', 'gout', 'cold')[at % 3]}" for at in range(240)
    ]
    lines.append(f"{CANARY} Smith,33,{CANARY},flu")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def document(place: Path) -> dict[str, Any]:
    return base_document(place)


@pytest.fixture
def written(place: Path) -> Written:
    """Writes a policy file, of JSON, which is YAML."""

    def write(document: dict[str, Any], name: str = "release.yaml") -> Path:
        path = place / name
        path.write_text(json.dumps(document, indent=1))
        return path

    return write

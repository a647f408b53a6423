"""A small table about invented people and policies over it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

CANARIES = ("Zanzibarella", "Quokkaville", "xylophobia")
"""Values that occur in the data and nowhere else; no output may hold one."""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """400 records; three carry values found nowhere else."""
    draw = random.Random(7)
    lines = ["name;age;town;illness;income"]
    for at in range(400):
        town = draw.choice(["Ashford", "Barrow", "Crewe"])
        illness = draw.choice(["flu", "cold", "asthma", "gout"])
        lines.append(f"person {at};{draw.randint(20, 59)};{town};{illness};{draw.randint(100, 999) / 10}")
    lines[5] = f"{CANARIES[0]};44;Barrow;flu;77.7"
    lines[6] = f"person x;31;{CANARIES[1]};flu;12.5"
    lines[7] = f"person y;33;Crewe;{CANARIES[2]};13.5"
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def document(people: Path, tmp_path: Path) -> dict[str, Any]:
    """A policy that can be met: generalize by search, mask the income, publish."""
    return {
        "version": 1,
        "name": "people",
        "source": {"path": str(people), "format": "csv", "delimiter": ";"},
        "columns": {
            "name": {"role": "identifier"},
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"start": 20, "widths": [5, 10, 20]}},
            },
            "town": {"role": "quasi_identifier", "hierarchy": {"priority": {"levels": 2, "order": "frequency"}}},
            "illness": {"role": "sensitive"},
            "income": {"role": "insensitive", "type": "number"},
        },
        "record_id": "name",
        "transform": [
            {"add_noise": {"columns": ["income"], "variance_ratio": 0.1}},
            {"generalize": {"search": "optimal", "suppress_at_most": 0.05}},
        ],
        "guarantees": [
            {"k_anonymity": {"k": 5}},
            {"distinct_l_diversity": {"column": "illness", "l": 3}},
            {"t_closeness": {"column": "illness", "t": 0.5, "distance": "equal"}},
        ],
        "measures": [{"average_risk": {}}],
        "sink": {"path": str(tmp_path / "published" / "people"), "format": "parquet"},
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
    }


@pytest.fixture
def raw_document(document: dict[str, Any]) -> dict[str, Any]:
    """The same release without the stages that make it safe."""
    refused = copy.deepcopy(document)
    refused["transform"] = []
    return refused


@pytest.fixture
def policy_file(tmp_path: Path) -> Callable[[Mapping[str, Any]], Path]:
    """Writes a policy document (JSON is YAML) and gives its path."""

    def write(document: Mapping[str, Any]) -> Path:
        path = tmp_path / "release.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return write


@pytest.fixture
def assert_silent() -> Callable[[str], None]:
    """Fails when a text holds one of the values found nowhere but in the data."""

    def check(text: str) -> None:
        said = sum(canary.casefold() in text.casefold() for canary in CANARIES)
        assert not said, f"{said} values of the data were said"

    return check

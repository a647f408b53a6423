"""Policies to be damaged, over a tiny table: one for every example of every catalogue, and the shipped ones."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from trials import CANARIES

from privpipe.blocks.verdict import plain
from privpipe.errors import PrivpipeError
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.policy import Policy
from privpipe.transforms import CATALOGUE as TRANSFORMS

__all__ = ["STRONG", "base", "documents", "write_people"]

STRONG = hashlib.sha256(b"soak").hexdigest()
SEED = {"from_env": "SOAK_SEED_OF_POLICIES"}


def write_people(place: Path) -> None:
    """120 records, three of which carry values found nowhere else."""
    draw = random.Random(7)
    lines = ["name;age;town;illness;income;weight;day"]
    for at in range(120):
        town, illness = draw.choice(["Ashford", "Barrow", "Crewe"]), draw.choice(["flu", "cold", "asthma", "gout"])
        day = f"2024-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}"
        lines.append(f"p{at};{draw.randint(20, 59)};{town};{illness};{draw.randint(100, 999) / 10};{at % 3 + 1};{day}")
    lines[5] = f"{CANARIES[0]};44;Barrow;flu;77.7;1;2024-01-11"
    lines[6] = f"p5;31;{CANARIES[1]};flu;12.5;2;2024-02-12"
    lines[7] = f"p6;33;Crewe;{CANARIES[2]};13.5;3;2024-03-13"
    (place / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def base() -> dict[str, Any]:
    return {
        "version": 1,
        "name": "people",
        "source": {"path": "people.csv", "format": "csv", "delimiter": ";"},
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
            "weight": {"role": "insensitive", "type": "integer"},
            "day": {"role": "insensitive", "type": "date"},
        },
        "record_id": "name",
        "transform": [{"generalize": {"search": "optimal", "suppress_at_most": 0.2}}],
        "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "measures": [{"average_risk": {}}],
        "sink": {"path": "published/people", "format": "csv"},
        "seed": SEED,
        "engines": {"embedded": {"threads": 1, "memory_limit": "1GB"}},
    }


COLUMNS = {"number": "income", "integer": "age", "text": "illness"}


def renamed(value: Any, draw: random.Random) -> Any:
    """Parameters of an example with columns of our table instead of those it names."""
    if isinstance(value, dict):
        return {key: _column(key, item, draw) for key, item in value.items()}
    return value


def _column(key: str, item: Any, draw: random.Random) -> Any:
    if key == "column":
        return draw.choice(("illness", "town", "age"))
    if key in ("columns", "quasi_identifiers", "by") and item:
        return draw.choice((["age"], ["income"], ["age", "town"], ["town"], ["age", "income"]))
    if key == "weight":
        return "weight"
    return item


def documents(project: Path, draw: random.Random) -> list[dict[str, Any]]:
    """Those that the reader takes as they are, ten times each, and the others."""
    found = [base()]
    for catalogue, section in ((TRANSFORMS, "transform"), (MODELS, "guarantees"), (MEASURES, "measures")):
        for name in catalogue:
            for example in catalogue[name].examples():
                document = base()
                entry = {name: renamed(plain(example.parameters()), draw)}
                gate = section == "measures" and getattr(example, "is_gate", bool)()
                document["guarantees" if gate else section].insert(0, entry)
                found.append(document)
    yaml = YAML(typ="safe", pure=True)
    found += [yaml.load(path.read_text()) for path in sorted(project.glob("pipelines/*/release.yaml"))]
    return [document for document in found for _ in range(1 if _fails(document) else 10)]


def _fails(document: dict[str, Any]) -> bool:
    try:
        Policy.from_dict(document)
    except PrivpipeError:
        return True
    return False

"""Releases of a small table that an engine splits over its workers, and what became of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import PrivpipeError
from privpipe.running.run import release_with

__all__ = ["COLUMNS", "policy_of", "release_on", "rows_of", "write_people"]

COLUMNS: Mapping[str, Any] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 17, "widths": [5, 20]}}},
    "sex": {"role": "quasi_identifier"},
    "race": {"role": "quasi_identifier", "hierarchy": {"redact": {}}},
    "occupation": {"role": "sensitive"},
    "weight": {"role": "identifier"},
}


def write_people(place: Path, records: int, files: int) -> None:
    """So many records in so many files."""
    rng = np.random.default_rng(3)
    rows = pa.table(
        {
            "name": pa.array([f"p{at}" for at in range(records)]),
            "age": pa.array(rng.integers(17, 91, records)),
            "sex": pa.array(rng.choice(["f", "m"], records)),
            "race": pa.array(rng.choice(list("abcde"), records, p=[0.85, 0.1, 0.03, 0.01, 0.01])),
            "occupation": pa.array(rng.choice([f"o{at}" for at in range(14)], records)),
            "weight": pa.array(rng.integers(0, 10**6, records)),
        }
    )
    place.mkdir()
    for at in range(files):
        pq.write_table(rows.take(np.arange(at, records, files)), place / f"part-{at}.parquet")


def policy_of(people: Path, **more: Any) -> pp.Policy:
    """The release of these records with two guarantees, at levels that are given."""
    document = {
        "version": 1,
        "name": "people",
        "source": {"path": str(people), "format": "parquet"},
        "columns": COLUMNS,
        "transform": [{"generalize": {"levels": {"age": 1, "race": 1}, "suppress_at_most": 0.05}}],
        "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "occupation", "l": 3}}],
        "measures": [{"average_risk": {}}],
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
        **more,
    }
    return pp.Policy.from_dict(document, base_dir=people.parent)


def release_on(engine: Engine, policy: pp.Policy, target: Path) -> dict[str, Any]:
    """How a release ended: its exit code, its error, what it published."""
    said, code = "", 0
    judged: dict[str, Any] = {}
    try:
        found = release_with(engine, policy, target=str(target)).assessment.to_dict()
        judged = {name: found[name] for name in ("records", "classes", "guarantees", "measures")}
    except PrivpipeError as error:
        said, code = f"{type(error).__name__}: {error}", error.exit_code
    published = target.exists()
    return {
        "code": code,
        "said": said,
        "published": published,
        "judged": json.loads(json.dumps(judged, default=str)),
        "rows": rows_of(target) if published else None,
        "documents": sorted(path.name for path in target.glob("_privpipe/*.json")),
    }


def rows_of(target: Path) -> list[list[Any]]:
    """Each distinct row that readers see, and how often."""
    counted = Counter(tuple(row.values()) for row in pq.read_table(target).to_pylist())
    return sorted([*map(str, row), count] for row, count in counted.items())

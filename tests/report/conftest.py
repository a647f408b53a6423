"""Runs whose reports are looked at: a released, a refused, a waiting and a masked one over marked values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import Refused, SignOffMissing
from privpipe.reporting.run_documents import RunDocuments

CANARY = "CANARY"
"""Part of every value that few records have."""
RARE_INCOME = 987_654
COMMON = ("flu", "cold", "gout")


def people(records: int = 600) -> pd.DataFrame:
    """A table with marked values: names of one record each, rare towns and illnesses, one income of its own."""
    rng = np.random.default_rng(7)
    town = np.array(["Ulm", "Bonn", "Kiel", "Jena"])[rng.integers(0, 4, records)].astype(object)
    illness = np.array(COMMON)[rng.integers(0, 3, records)].astype(object)
    town[:3], illness[3:6] = f"{CANARY}ville", f"{CANARY}itis"
    income = rng.integers(20, 60, records) * 1000
    income[6] = RARE_INCOME
    return pd.DataFrame(
        {
            "name": [f"{CANARY} {at}" for at in range(records)],
            "age": rng.integers(18, 90, records),
            "town": town,
            "illness": illness,
            "income": income,
        }
    )


def document(home: Path, **changes: Any) -> dict[str, Any]:
    """A policy over them; it generalizes ages and towns."""
    data = home / "people.csv"
    if not data.exists():
        people().to_csv(data, index=False)
    intervals = {"intervals": {"start": 0, "widths": [20, 40]}}
    return {
        "version": 1,
        "name": "people",
        "source": {"path": str(data), "format": "csv"},
        "columns": {
            "name": {"role": "identifier"},
            "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": intervals},
            "town": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "illness": {"role": "sensitive"},
            "income": {"role": "insensitive", "type": "integer"},
        },
        "transform": [{"generalize": {"search": "optimal", "suppress_at_most": 0.05}}],
        "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "measures": [{"sample_uniqueness": {}}, {"information_loss": {"measure": "ncp"}}],
        "sink": {"path": str(home / "out" / "people")},
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
        **changes,
    }


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="session")
def released(home: Path) -> Any:
    """A release, with one before it."""
    pp.release(document(home))
    return pp.release(document(home, guarantees=[*document(home)["guarantees"], {"average_risk": {"at_most": 0.2}}]))


@pytest.fixture(scope="session")
def refused(home: Path) -> Path:
    """The private record of a run that was refused."""
    asked = document(home, transform=[], sink={"path": str(home / "refused" / "people")})
    with pytest.raises(Refused) as caught:
        pp.release(asked)
    return Path(caught.value.record)


@pytest.fixture(scope="session")
def waiting(home: Path) -> Path:
    """The folder of a run that waits for the signature of an officer."""
    pytest.importorskip("cryptography")
    from privpipe.signing import new_key, read_private

    new_key(home / "ada")
    officer = home / "officer.yaml"
    signer = {"name": "Ada", "key": read_private(home / "ada").public.line}
    rules = {"guarantees": [{"k_anonymity": {"k": 5}}], "allow_insecure_seed": True, "sign_off": {"by": [signer]}}
    officer.write_text(json.dumps(rules))
    with pytest.raises(SignOffMissing) as missing:
        pp.release(document(home, policy=str(officer), sink={"path": str(home / "waiting" / "people")}))
    return Path(missing.value.waiting)


@pytest.fixture(scope="session")
def masked(home: Path) -> Any:
    """A release of masked numbers, judged by attacks."""
    columns: Mapping[str, Any] = {
        **document(home)["columns"],
        "income": {"role": "quasi_identifier", "type": "integer"},
        "town": {"role": "drop"},
        "illness": {"role": "drop"},
    }
    return pp.release(
        document(
            home,
            columns=columns,
            transform=[{"rank_swap": {"columns": ["income", "age"], "p": 0.2}}],
            guarantees=[{"record_linkage": {"columns": ["income", "age"], "at_most": 0.9}}],
            measures=[{"rank_interval_disclosure": {"columns": ["income"]}}],
            sink={"path": str(home / "masked" / "people")},
        )
    )


@pytest.fixture(scope="session")
def adult(home: Path) -> Any:
    """The release of UCI Adult that the demo makes."""
    policy = Path(__file__).parents[2] / "pipelines" / "adult" / "release.yaml"
    return pp.release(policy, target=str(home / "adult" / "adult"))


@pytest.fixture(scope="session")
def documents(adult: Any, released: Any, refused: Path, waiting: Path, masked: Any) -> dict[str, RunDocuments]:
    """The documents of each run, by what became of it."""
    return {
        "adult": RunDocuments.read(adult.record),
        "released": RunDocuments.read(released.record),
        "public": RunDocuments.read(os.fspath(released.path)),
        "refused": RunDocuments.read(str(refused)),
        "waiting": RunDocuments.read(str(waiting)),
        "masked": RunDocuments.read(masked.record),
    }

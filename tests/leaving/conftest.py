"""What a reader of a release holds: the published files and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

STRONG = {"from_env": "PRIVPIPE_TEST_SEED"}
"""A seed of 256 bits that the tests of this folder share; policies name it, no file holds it."""


@pytest.fixture(autouse=True)
def strong_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed that `STRONG` names."""
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", "7d1c9a3e5b8f2046d1e7c3a95f80b2640f9e4b7a6c2d8153e9b04d7c1fa36285")


def rows(folder: Path) -> pd.DataFrame:
    """The released rows, file by file in order of name, as a reader of Parquet sees them."""
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)


def public(folder: Path) -> dict[str, Any]:
    """The public documents next to the data, by name."""
    home = folder / "_privpipe"
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(home.glob("*.json"))}

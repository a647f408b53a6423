"""A small table and its policies, for jobs in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

CANARY = "Zanzibarheartworm"
"""A value of the data that nothing may repeat."""
ROWS = "zip,age,illness\n" + "".join(
    f"{zone},{age},{ill}\n" for zone in ("081", "170") for age in (31, 52) for ill in ("flu", "cold", CANARY)
)

Written = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A policy file of a table of twelve people, three in each class."""

    def write(k: int = 3, sink: str = "published/visits", more: str = "", folder: str = "policies") -> str:
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        (home / "visits.csv").write_text(ROWS, encoding="utf-8")
        text = (
            "version: 1\nname: visits\nsource: {path: visits.csv, format: csv}\n"
            "columns:\n  zip: {role: quasi_identifier, type: text}\n  age: {role: quasi_identifier, type: integer}\n"
            f"  illness: {{role: sensitive}}\nguarantees:\n  - k_anonymity: {{k: {k}}}\n"
            "  - distinct_l_diversity: {column: illness, l: 3}\n"
            f"sink: {{path: {sink}, format: csv}}\n{more}"
        )
        file = home / f"visits-{k}.yaml"
        file.write_text(text, encoding="utf-8")
        return str(file)

    return write

"""Hostile tables of different kinds: what Spark is shown in each run; `make test-deep` shows it all of them."""

from __future__ import annotations

import pytest

from privpipe.testing import HOSTILE_TABLES, HostileTable
from tests.tiers import deep

__all__ = ["KINDS", "each_table", "is_usual", "on_every_engine"]

KINDS: tuple[HostileTable, ...] = tuple(
    HOSTILE_TABLES[name]
    for name in (
        "none_and_nan",
        "nulls_in_keys",
        "exact_numbers",
        "unicode",
        "interleaved_classes",
        "sensitive_nulls",
        "partly_suppressed",
        "base_of_the_original",
    )
)
"""Objects of pandas, missing keys, decimals and truth values, texts, classes in all partitions, missing sensitive
values, suppressed records, and a distribution of the original."""


def is_usual(table: HostileTable) -> bool:
    """Whether it is one of these."""
    return any(table is kind for kind in KINDS)


each_table = pytest.mark.parametrize(
    "table", [table if is_usual(table) else deep(table) for table in HOSTILE_TABLES.values()], ids=str
)
"""A test of one hostile table: these in `make test`, and the others in `make test-deep`."""

JUDGED = [table for table in HOSTILE_TABLES.values() if table.refused is None]
on_every_engine = pytest.mark.parametrize(
    ("engine", "tables"),
    [
        pytest.param("embedded", JUDGED, id="embedded"),
        pytest.param("dask", JUDGED, id="dask"),
        pytest.param("spark", KINDS, id="spark"),
    ],
    indirect=["engine"],
)
"""A test of one engine and the hostile tables that may be judged."""

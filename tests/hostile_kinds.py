"""Hostile tables of different kinds: what Spark is shown in each run; `make test-deep` shows it all of them."""

from __future__ import annotations

import pytest

from privpipe.testing import HOSTILE_TABLES, HostileTable

__all__ = ["KINDS", "on_every_engine"]

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

JUDGED = [table for table in HOSTILE_TABLES.values() if table.refused is None]
on_every_engine = pytest.mark.parametrize(
    ("engine", "tables"),
    [
        pytest.param("embedded", JUDGED, id="embedded"),
        pytest.param("dask", JUDGED, id="dask"),
        pytest.param("spark", KINDS, id="spark"),
        pytest.param("spark", JUDGED, id="spark, every table", marks=pytest.mark.deep),
    ],
    indirect=["engine"],
)
"""A test of one engine and the hostile tables that may be judged."""

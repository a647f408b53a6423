"""What may be given as the base of a distribution, and what is none."""

from __future__ import annotations

import pytest

from privpipe.errors import UsageError
from privpipe.models.attribute.base_distribution import BaseTable, as_base


@pytest.mark.parametrize(
    "base",
    [
        {"file": "census.db", "table": 3},
        {"file": 3, "table": "people"},
        {"flu": True},
        {"flu": "3"},
        {"flu": 3, "cold": "1"},
        {},
        "census",
        7,
    ],
)
def test_what_names_no_base_is_refused(base: object) -> None:
    with pytest.raises(UsageError, match="TCloseness: base must be original, released"):
        as_base("TCloseness", base)


@pytest.mark.parametrize(("weights", "column"), [([3, 1], "count"), ([3, 0.5], "share"), ([0.5, 0.5], "share")])
def test_whole_numbers_are_counts_and_others_shares(weights: list[float], column: str) -> None:
    base = as_base("TCloseness", dict(zip(["flu", "cold"], weights, strict=True)))
    assert isinstance(base, BaseTable)
    assert base.frame().to_pydict() == {"value": ["flu", "cold"], column: weights}

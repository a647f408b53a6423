"""Shares of the domain behind labels, from the definition."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, Histogram
from privpipe.hierarchies import HierarchySpec
from privpipe.models.economic.profitability import LabelShares

ROWS = [["a", "x", "x", "*"], ["b", "y", "x", "*"], ["c", "z", "z", "*"], ["d", "z", "z", "*"]]
SPEC = HierarchySpec.from_mapping({"rows": ROWS}, column="it")


def shares(labels: list[str]) -> dict[str, float]:
    histogram = Histogram(pa.array(labels), np.ones(len(labels), dtype=np.int64))
    found = LabelShares.of(["it"], Facts(histograms={"it": histogram}, hierarchies={"it": SPEC})).logs["it"]
    return {label: math.exp(found[label]) for label in labels}


@pytest.mark.parametrize(
    "labels", [["a"], ["x", "y"], ["x", "z"], ["a", "x"], ["*", "x", "y"], ["a", "x", "z"], ["*", "a"], ["*", "y", "z"]]
)
def test_one_level_serves_the_column_or_a_label_is_its_coarsest_node(labels: list[str]) -> None:
    """x is the name of one value and of two: where levels are mixed no one can tell which."""
    columns = [[row[level] for row in ROWS] for level in range(4)]
    fitting = [column for column in columns if set(labels) <= set(column)]
    expected = {
        label: (fitting[0].count(label) if fitting else max(column.count(label) for column in columns)) / 4
        for label in labels
    }
    assert shares(labels) == pytest.approx(expected)

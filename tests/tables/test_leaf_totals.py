"""Totals from leaves: the code of a contributor who is alone is the same in a leaf and in its totals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks.aggregate_query import AggregateQuery
from privpipe.tables.leaf_totals import Grid
from tests.tables.random_tables import flat


@pytest.mark.parametrize("code", [-(2**63), -5, 7, 2**63 - 1])
def test_who_is_alone_in_a_leaf_and_its_total_has_one_code(code: int) -> None:
    """Keys of records are any integers of 64 bits."""
    columns: dict[str, Any] = {"contributors": [1, 2, 1], "records": [1, 2, 1], "single": [code, 0, 9]}
    leaves = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    codes = np.array([[1, 1], [2, 2], [2, 3]], dtype=np.int64)
    query = AggregateQuery(keys=("a", "b"))
    grid = Grid.of_leaves(leaves, [flat("a", 2), flat("b", 3)], codes, query).with_totals()
    found = {grid.cells.name(at): int(each) for at, each in enumerate(grid.figures["single"])}
    assert {name: each for name, each in found.items() if each} == {
        "a=a1": code,
        "a=a1, b=b1": code,
        "b=b1": code,
        "a=a2, b=b3": 9,
        "b=b3": 9,
    }

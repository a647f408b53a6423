"""Counts and codes that no longer fit into one word together: exact all the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassQuery, FactsRequest, Histogram
from privpipe.engines import Engine, Source

MANY = (1 << 23) + 5
"""Records of one value in one class; with a code of forty bits their product passes 63 bits."""
VALUES = 70_000
"""Distinct values, so that the last code takes more than 16 bits."""


@pytest.mark.parametrize("coded", [True, False])
def test_a_huge_count_of_the_last_code(embedded: Engine, coded: bool) -> None:
    values = np.concatenate([np.arange(VALUES), np.full(MANY - 1, VALUES - 1)]).astype(np.int32)
    keys = np.zeros(len(values), dtype=np.int8)
    keys[0] = 1
    table = embedded.scan(Source(data=pa.table({"key": keys, "value": values})))
    seen: dict[str, Histogram] = {}
    if coded:
        seen = dict(embedded.facts(table, FactsRequest(histograms=("value",))).histograms)
    blocks = list(embedded.classes(table, ClassQuery(keys=("key",), columns=("value",), dictionaries=seen)))
    assert sorted(size for block in blocks for size in block.sizes.tolist()) == [1, len(values) - 1]
    counts = sorted(count for block in blocks for count in block.cells["value"].counts.tolist())
    assert counts == [1] * (VALUES - 1) + [MANY]
    if coded:
        codes = {
            count: code
            for block in blocks
            for code, count in zip(
                block.cells["value"].codes.tolist(), block.cells["value"].counts.tolist(), strict=True
            )
        }
        assert codes[MANY] == VALUES - 1

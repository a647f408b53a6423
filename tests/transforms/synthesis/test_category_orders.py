"""Categories in the order of their optimal scores, next to the records themselves."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm, rankdata

from privpipe.blocks import Facts, RowBlock
from privpipe.kernels.synthesis.copula import ValueRanks
from privpipe.transforms.strata import Strata
from privpipe.transforms.synthesis.copula_model import Scoring, put_in_order

N = 240
LABELS = ["Ayr", "Bath", "Crewe", "Derby", "Ely"]


class InBlocks:
    """Reduces rows block by block, as an engine does whose tables are in parts."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def reduce_rows(self, table: pa.Table, columns: tuple[str, ...], reduction: Any, facts: Facts) -> Any:
        batches = table.select(columns).combine_chunks().to_batches(max_chunksize=self.rows)
        return functools.reduce(reduction.merge, [reduction.measure(RowBlock(batch), facts) for batch in batches])


@pytest.mark.parametrize("rows", [N, 17])
@pytest.mark.parametrize("seed", range(3))
def test_a_category_stands_by_the_mean_score_of_the_number_next_to_it(seed: int, rows: int) -> None:
    """With one other column that has an order, and a third that explains nothing and that few records have."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, N)
    x = np.array([2.0, -1.0, 0.5, -2.0, 1.0])[codes] + rng.normal(size=N)
    no_town, no_x = rng.random(N) < 0.1, rng.random(N) < 0.1
    towns = np.array(LABELS)[codes]
    flags = np.where((np.arange(N) < 9) & (codes < 2), "yes", None)
    frame = pa.table({"town": pa.array(towns, mask=no_town), "x": pa.array(x, mask=no_x), "flag": flags.tolist()})
    ranks = {"x": [ValueRanks.of(x[~no_x], np.ones((~no_x).sum(), np.int64))]}
    shares: Any = {
        "town": [{"labels": [*LABELS], "shares": [0.5, 0.2, 0.15, 0.1, 0.05]}],
        "flag": [{"labels": ["yes"], "shares": [1.0]}],
    }
    beside = dict(zip(LABELS, shares["town"][0]["shares"], strict=True))
    engine: Any = InBlocks(rows)
    put_in_order(engine, frame, ["town", "x", "flag"], Strata(records=(N,)), shares, ranks, Scoring(), "transform[0]")

    groups = np.floor((rankdata(x[~no_x]) - 0.5) / (~no_x).sum() * 20)  # twenty of equal counts
    scores = np.zeros(N)
    scores[~no_x] = norm.ppf((groups + 0.5) / 20)
    means = {town: scores[(towns == town) & ~no_town & ~no_x].mean() for town in LABELS}
    wanted = sorted(LABELS, key=means.__getitem__)
    found = shares["town"][0]
    assert found["labels"] in (wanted, wanted[::-1])
    assert found["shares"] == [beside[label] for label in found["labels"]]
    assert shares["flag"] == [{"labels": ["yes"], "shares": [1.0]}]

"""Codes of columns, and how ordered ones are distinguished."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from privpipe.kernels.synthesis.copula import ValueRanks
from privpipe.kernels.synthesis.value_cells import ValueCells
from privpipe.transforms.synthesis.codebooks import FOLDED_AWAY, Codebook

CELLS = ValueCells.of(ValueRanks.of(np.array([1.0, 2.0, 9.0]), np.array([5, 6, 7])), 10, 5)


def test_a_rare_category_is_among_the_others_or_in_none() -> None:
    column = pa.array(["b", "rare", None, "other", "a"])
    assert Codebook(labels=("a", "other", "b")).codes(column, "x").tolist() == [3, 2, 0, 2, 1]
    assert Codebook(labels=("a", "b")).codes(column, "x").tolist() == [2, FOLDED_AWAY, 0, FOLDED_AWAY, 1]
    assert Codebook(labels=("a", "b")).codes(pa.nulls(2, pa.string()), "x").tolist() == [0, 0]


def test_a_number_has_the_code_of_its_cell() -> None:
    column = pa.array([9.0, None, 1.0, math.nan, 2.0], from_pandas=False)
    assert Codebook(cells=CELLS).codes(column, "x").tolist() == [3, 0, 1, 0, 2]
    assert [Codebook(cells=CELLS).code(text) for text in (None, "9", "2.0", "3", "town")] == [0, 3, 2, None, None]


def test_numbers_are_distinguished_by_rank_value_and_gaps_in_deviations() -> None:
    codes = np.array([3, 0, 1, 2, 2, 0, 3])
    found = Codebook(cells=CELLS).outputs(codes)
    known = codes > 0
    ranks = np.array([0.0, 2.5, 4.0, 6.0])[codes]  # middles among all seven, two of which are missing
    values = np.array([0.0, 1.0, 2.0, 9.0])[codes]
    for column, raw in ((found[:, 0], ranks), (found[:, 1], values)):
        assert column[known] == pytest.approx((raw[known] - raw[known].mean()) / raw[known].std())
        assert not column[~known].any()
    assert found[:, 2] == pytest.approx(2 * (known - known.mean()) / known.std())


def test_what_does_not_vary_is_distinguished_by_nothing() -> None:
    assert not Codebook(cells=CELLS).outputs(np.array([2, 2, 2])).any()
    assert not Codebook(cells=CELLS).outputs(np.array([0, 0])).any()

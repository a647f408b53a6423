"""Risky cells are counted per set of columns, records once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.blocks import DistinctBlock, Facts, Verdict
from privpipe.errors import UsageError
from privpipe.measures import RiskyCells

BLOCK = DistinctBlock(("a", "b"), np.array([[0, 0], [0, 1], [1, 1], [2, 1]]), np.array([4, 1, 3, 2]))


def verdict_of(measure: RiskyCells, block: DistinctBlock = BLOCK) -> Verdict:
    return measure.judge(measure.measure(block, Facts()), Facts())


def test_cells_and_records_of_a_small_table() -> None:
    one = verdict_of(RiskyCells())
    assert one.observed == {"share": 0.1, "cells": {"a": 0, "b": 0, "a+b": 1}}
    two = verdict_of(RiskyCells(threshold=2, at_most=0.2))
    assert two.observed == {"share": pytest.approx(0.3), "cells": {"a": 1, "b": 0, "a+b": 2}}
    assert (two.outcome, two.failing_records) == ("fail", 3)
    assert verdict_of(RiskyCells(threshold=2, max_dim=1, at_most=0.2)).passed


def test_more_columns_never_lower_it() -> None:
    shares = [verdict_of(RiskyCells(max_dim=size, threshold=2)).observed["share"] for size in (1, 2)]
    assert shares == sorted(shares)


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"max_dim": 0}, {"at_most": 3}, {"columns": []}])
def test_ill_formed_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RiskyCells(**wrong)


def test_too_many_sets_are_refused_with_a_remedy() -> None:
    wide = DistinctBlock(tuple(f"c{at}" for at in range(60)), np.zeros((1, 60), dtype=np.int64), np.array([1]))
    with pytest.raises(UsageError, match="60 columns make 36,050 sets of up to 3; .* lower max_dim"):
        verdict_of(RiskyCells(), wide)

"""Figures of scores by the definition, threshold by threshold and pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.linkage.attack_figures import advantage_limit, member_figures

SCORES = st.lists(st.sampled_from([-2.0, -1e-14, 0.0, 0.5, 1.0, 1.0 + 1e-15, 3.0, 1e6]), min_size=1, max_size=12)


def equal(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-12 * (1 + max(abs(one), abs(other)))


@given(SCORES, SCORES, st.sampled_from([0.0, 0.01, 0.25, 0.5, 1.0]))
def test_figures_are_those_of_the_definition(members: list[float], others: list[float], rate: float) -> None:
    def share(scores: list[float], limit: float) -> float:
        return sum(score <= limit or equal(score, limit) for score in scores) / len(scores)

    limits = [(share(members, limit), share(others, limit)) for limit in (*members, *others)]
    won = sum(0.5 if equal(one, other) else float(one < other) for one in members for other in others)
    found = member_figures(np.array(members), np.array(others), rate)
    assert found == pytest.approx(
        {
            "advantage": max(0.0, *(tpr - fpr for tpr, fpr in limits)),
            "auc": won / (len(members) * len(others)),
            "tpr": max([0.0, *(tpr for tpr, fpr in limits if fpr <= rate + 1e-12)]),
        }
    )


def test_the_limit_is_that_of_both_samples() -> None:
    expected = 0.1 + math.sqrt(math.log(20) / 200) + math.sqrt(math.log(20) / 800)
    assert advantage_limit(0.1, 100, 400) == pytest.approx(expected)
    assert advantage_limit(0.1, 100, 400, 0.5) == pytest.approx(
        0.1 + math.sqrt(math.log(2) / 200) + math.sqrt(math.log(2) / 800)
    )
    assert advantage_limit(0.9, 10, 10) == 1.0

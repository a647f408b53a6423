"""How many classes a sample-based model has suppressed, by ascending size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.blocks import Facts
from privpipe.models import AverageRisk, PopulationUniqueness, SampleUniqueness
from privpipe.transforms.suppression.class_failures import shortest_prefix


@pytest.mark.parametrize("model", [AverageRisk(at_most=0.3), SampleUniqueness(at_most=0.1)], ids=repr)
def test_no_prefix_is_shorter_where_the_share_only_falls(model: Any) -> None:
    draw = np.random.default_rng(5)
    for _ in range(40):
        sizes = np.sort(draw.integers(1, 9, draw.integers(1, 30)))
        wanted = [at for at in range(len(sizes)) if model.met_by(*np.unique(sizes[at:], return_counts=True), Facts())]
        assert shortest_prefix(sizes, model, Facts()) == (wanted[0] if wanted else None)


@pytest.mark.parametrize("estimator", ["dankar", "pitman", "zayatz", "snb"])
def test_what_is_suppressed_is_proved_and_no_class_more(estimator: Any) -> None:
    """Estimates need not fall with every class removed: a prefix is found by bisection, and then it holds."""
    draw = np.random.default_rng(8)
    longest = 0
    for _ in range(25):
        sizes = np.sort(draw.geometric(draw.choice([0.2, 0.5]), 40))
        sizes[-1] += 1  # without a unique record the share is 0, so some prefix holds
        share = float(draw.choice([0.001, 0.01, 0.05]))
        model = PopulationUniqueness(at_most=share, population_size=4000, estimator=estimator)
        prefix = shortest_prefix(sizes, model, Facts())
        assert prefix is not None
        met = [model.met_by(*np.unique(sizes[at:], return_counts=True), Facts()) for at in (max(prefix - 1, 0), prefix)]
        assert met == [prefix == 0, True]
        longest = max(longest, prefix)
    assert longest > 0

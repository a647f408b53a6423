"""V-MDAV against its definition, and the losses measured for it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.mdav import v_mdav_groups
from privpipe.kernels.microaggregation.refine import group_sse

Points = NDArray[np.float64]


def oracle(points: Points, k: int, gamma: float) -> list[int]:
    """Straight from the specification, 4.2; ties to the earlier row."""

    def squared(a: Points, b: Points) -> float:
        return float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))

    n = len(points)
    middle = np.array([sum(column) / n for column in points.T])
    left, labels, label = list(range(n)), [0] * n, 0
    while len(left) >= k:
        first = min(left, key=lambda i: (-squared(points[i], middle), i))
        group = [first, *sorted((i for i in left if i != first), key=lambda i: (squared(points[i], points[first]), i))]
        group = group[:k]
        left = [i for i in left if i not in group]
        while gamma > 0 and len(group) < 2 * k - 1 and left:
            inside = {i: min(squared(points[i], points[member]) for member in group) for i in left}
            u = min(left, key=lambda i: (inside[i], i))
            outside = min((squared(points[i], points[u]) for i in left if i != u), default=math.inf)
            if not math.sqrt(inside[u]) < gamma * math.sqrt(outside):
                break
            group.append(u)
            left.remove(u)
        for i in group:
            labels[i] = label
        label += 1
    centres = [points[[i for i in range(n) if labels[i] == g and i not in left]].mean(axis=0) for g in range(label)]
    for i in left:
        labels[i] = min(range(label), key=lambda g: (squared(points[i], centres[g]), g))
    return labels


@given(
    st.lists(st.tuples(st.integers(-16, 16), st.integers(-16, 16)), min_size=2, max_size=24),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.2, 1.0, 1.5]),
)
def test_groups_are_those_of_the_definition(rows: list[tuple[int, int]], k: int, gamma: float) -> None:
    points = np.array(rows, dtype=np.float64) / 4.0
    if len(points) < k:
        with pytest.raises(UsageError):
            v_mdav_groups(points, k, gamma)
        return
    assert v_mdav_groups(points, k, gamma).tolist() == oracle(points, k, gamma)


# Source: the masking specification 4.2, best of gamma 0, 0.2, 0.5 and 1.1.
MEASURED = {"tarragona.csv": (16.951, 22.872, 33.253), "census.csv": (5.662, 9.007, 14.043)}


@pytest.mark.parametrize("file", MEASURED)
def test_losses_are_those_measured(shared: Path, file: str) -> None:
    values = pd.read_csv(shared / "data/casc" / file).to_numpy(dtype=np.float64)
    points = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    for k, measured in zip((3, 5, 10), MEASURED[file], strict=True):
        losses = [group_sse(points, v_mdav_groups(points, k, gamma)) for gamma in (0, 0.2, 0.5, 1.1)]
        assert 100 * min(losses) / ((len(points) - 1) * points.shape[1]) == pytest.approx(measured, abs=1e-3)

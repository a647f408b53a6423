"""The divergence of labels from the values that they stand for."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest

from privpipe.kernels.losses.column_losses import LabelledColumn, divergence

COVERS = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]], dtype=np.bool_)
"""Labels 0 to 2 are the three values, label 3 covers all."""
LEAVES = np.array([1.0, 1.0, 1.0, 3.0])


def columns(values: list[list[int]], labels: list[list[int]]) -> list[LabelledColumn]:
    return [LabelledColumn(np.array(v), np.array(s), COVERS, LEAVES) for v, s in zip(values, labels, strict=True)]


def test_a_label_is_spread_over_what_it_stands_for() -> None:
    values, labels = [[0, 1, 2, 0, 1], [0, 0, 1, 2, 2]], [[3, 1, 3, 0, 3], [3, 3, 1, 3, 2]]
    found, smoothed = divergence(columns(values, labels))
    shown: Counter[tuple[int, int]] = Counter()
    for first, second in zip(*labels, strict=True):
        under = [[at for at in range(3) if COVERS[at, label]] for label in (first, second)]
        for cell in product(*under):
            shown[cell] += 1 / (len(under[0]) * len(under[1]))  # type: ignore[assignment]
    counts = Counter(zip(*values, strict=True))
    wanted = sum(count / 5 * math.log(count / shown[cell]) for cell, count in counts.items())
    assert (found, smoothed) == (pytest.approx(wanted), False)


def test_values_under_no_label_are_counted_in_cells_of_their_own() -> None:
    """A label that is a value alone shares its cell; one that covers several, or a value and more, has its own."""
    found, smoothed = divergence(columns([[0, 0, 1, 2]], [[0, 1, 3, 3, 3]]))
    assert not smoothed
    found, smoothed = divergence(columns([[0, 0, 1, 2]], [[0, 1, 1, 1]]))
    p, q = Counter([0, 0, 1, 2]), Counter([0, 1, 1, 1])
    cells = {*p, *q}
    sides = [[(side[cell] + 0.5) / (4 + len(cells) / 2) for cell in cells] for side in (p, q)]
    assert (found, smoothed) == (pytest.approx(sum(a * math.log(a / b) for a, b in zip(*sides, strict=True))), True)
    half = LabelledColumn(np.array([0, 1]), np.array([0, 0]), np.array([[True], [False]]), np.array([2.0]))
    cells = {"0", "1", "label"}
    sides = [
        [(side[cell] + 0.5) / (2 + 1.5) for cell in cells] for side in (Counter(["0", "1"]), Counter({"label": 2}))
    ]
    wanted = sum(a * math.log(a / b) for a, b in zip(*sides, strict=True))
    assert divergence([half]) == (pytest.approx(wanted), True)

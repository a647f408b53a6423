"""Linkage of the rank-swapped census stays within the bands of the reference, with and without knowing of the swap.

Source: reference/torra.json, regression_bands: mean and deviation over eight keys of an independent prototype; swaps of
the reading `skip`, mean over the first 1 to 6 columns, `ties: any`. Bands of four deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.draws import Draws, Seed
from privpipe.kernels.linkage.distance import LinkedFile, linkage_scores
from privpipe.kernels.linkage.transparency import candidates_left, window_constraint
from privpipe.kernels.rank_swapping import swap_permutation

KEYS = 3
MOST = 6


def swapped(x: np.ndarray, w: int, key: int) -> np.ndarray:
    draws, y = Draws(Seed.insecure(key), 0, "rank_swap"), np.empty_like(x)
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        pi = swap_permutation(len(x), w, draws.of(str(j)), partner="skip", segment=len(x))
        y[order, j] = x[order[pi], j]
    return y


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)


def shares(x: np.ndarray, y: np.ndarray, w: int) -> tuple[float, float]:
    """Distance linkage and linkage by someone who knows of the swap, over the first columns, in percent."""
    n, every = len(x), np.arange(len(x))
    none = np.zeros((n, 0), dtype=np.int64)
    distance, aware = [], []
    for m in range(1, MOST + 1):
        a, b = standardised(x[:, :m]), standardised(y[:, :m])
        scores = linkage_scores(LinkedFile(a, none), LinkedFile(b, none), every, squared=True, ties="any")
        distance.append(scores.mean())
        windows = [window_constraint(x[:, j], y[:, j], w) for j in range(m)]
        left = candidates_left(windows, a, b, every)
        assert left.inside.all()
        aware.append((left.scores > 0).mean())
    return 100 * float(np.mean(distance)), 100 * float(np.mean(aware))


def test_the_census_stays_within_the_bands(torra: dict[str, Any], casc: Any) -> None:
    table = casc("census.csv")
    x = np.column_stack([table[name].to_numpy() for name in table.column_names[:MOST]]).astype(float)
    for percent, bands in torra["regression_bands"]["census"].items():
        w = int(percent) * len(x) // 100
        found = np.mean([shares(x, swapped(x, w, key), w) for key in range(KEYS)], axis=0)
        for figure, name in zip(found, ("DLD", "RSLD"), strict=True):
            mean, sd = bands[name]
            assert figure == pytest.approx(mean, abs=4 * sd), (percent, name)

"""A good parameter of a learned distance without a proof: a lower bound of what the best one links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.draws import Stream
from privpipe.kernels.linkage.learned_distances import EPSILON, Rivals

__all__ = ["heuristic_hits"]

RIVALS = 15
TEMPERATURES = (0.3, 0.1, 0.03, 0.01)
PATIENCE = 1500
MOST_ROWS = 40_000
MOST_TRIALS = 20 * PATIENCE
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def heuristic_hits(rivals: Rivals, stream: Stream, *, places: Sequence[Integers] | None = None) -> int:
    """Records whose partner is nearest under the best mixture of features that was found.

    Minimises sum_i sigmoid(-softmin_j(c_ij p) / T) over the 15 nearest rivals for T = 0.3, 0.1, 0.03, 0.01, with the
    rivals refreshed in between; then changes one weight at a time, by keyed draws, until 1500 trials bring no gain.
    What is returned was counted over all rivals.

    Parameters
    ----------
    places : sequence of ndarray of int64, optional
        Of each record, the rivals that matter; left out, or above 40,000 in all: those near under some of the
        weights met.

    Examples
    --------
    >>> from privpipe.kernels.linkage.learned_distances import LearnedDistance
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(30, 2))
    >>> y = x + rng.normal(size=(30, 2)) * [0.001, 2]
    >>> rivals = Rivals(y, x, np.arange(30), LearnedDistance("weighted_mean", 2))
    >>> heuristic_hits(rivals, Stream(bytes(16))) >= 29
    True
    """
    if places is not None and sum(map(len, places)) > MOST_ROWS:
        places = None
    own = [np.zeros(0, dtype=np.int64)] * len(rivals) if places is None else list(places)
    weights = np.zeros(0)
    best, best_weights = -1, weights
    for temperature in TEMPERATURES:
        table, starts = _table(rivals, own, weights)
        if not len(weights):
            weights = np.full(table.shape[1], 1.0 / table.shape[1])
            best, best_weights = rivals.hits(weights, features=True), weights
            if places is None:
                own = _refreshed(rivals, own, weights)
                table, starts = _table(rivals, own, weights)
        weights = _descend(table, starts, weights, temperature)
        found = rivals.hits(weights, features=True)
        if found > best:
            best, best_weights = found, weights
        if places is None:
            own = _refreshed(rivals, own, weights)
    table, starts = _table(rivals, own, best_weights)
    weights = _search(table, starts, best_weights, stream)
    return max(best, rivals.hits(weights, features=True))


def _table(rivals: Rivals, own: Sequence[Integers], weights: Floats) -> tuple[Floats, Integers]:
    """Leads of all records over their rivals, and where each record's begin; a record without rivals has a sure one."""
    parts = [rivals.feature_gaps(record, places) for record, places in enumerate(own)]
    sure = np.full((1, parts[0].shape[1]), 1e9)
    parts = [part if len(part) else sure for part in parts]
    return np.concatenate(parts), np.cumsum([0, *(len(part) for part in parts)])[:-1].astype(np.int64)


def _refreshed(rivals: Rivals, own: Sequence[Integers], weights: Floats) -> list[Integers]:
    """Rivals known so far and the nearest under these weights."""
    fresh = []
    for record, places in enumerate(own):
        far = rivals.distance.features(rivals.signed(record)) @ weights
        far[rivals.partner[record]] = np.inf
        count = min(RIVALS, len(far) - 1)
        fresh.append(np.union1d(places, np.argpartition(far, max(count - 1, 0))[:count]).astype(np.int64))
    return fresh


def _descend(table: Floats, starts: Integers, weights: Floats, temperature: float) -> Floats:
    from scipy.optimize import minimize
    from scipy.special import expit

    lengths = np.diff(np.append(starts, len(table)))

    def loss(p: Floats) -> tuple[float, Floats]:
        total = max(float(p.sum()), 1e-12)
        leads = table @ (p / total)
        least = np.minimum.reduceat(leads, starts)
        soft = np.exp(-(leads - np.repeat(least, lengths)) / temperature)
        sums = np.add.reduceat(soft, starts)
        lost = expit(-(least - temperature * np.log(sums)) / temperature)
        slope = np.repeat(-lost * (1 - lost) / temperature / sums, lengths) * soft
        gradient = slope @ table
        return float(lost.sum()), np.asarray((gradient - gradient @ (p / total)) / total)

    found = minimize(loss, weights, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(weights))
    p = np.maximum(found.x, 0.0)
    return np.asarray(p / p.sum()) if p.sum() > 0 else weights


def _search(table: Floats, starts: Integers, weights: Floats, stream: Stream) -> Floats:
    """Change one weight at a time, kept where the count over the table does not fall."""

    def count(p: Floats) -> int:
        return int((np.minimum.reduceat(table @ p, starts) >= EPSILON).sum())

    words = stream.counter(0, 3 * MOST_TRIALS).reshape(-1, 3)
    places = (words[:, 0] % np.uint64(len(weights))).tolist()
    draws = ((words[:, 1:] >> np.uint64(11)) * 2.0**-53).tolist()
    best, failed = count(weights), 0
    for k, (step, size) in zip(places, draws, strict=True):
        if failed >= PATIENCE:
            break
        changed = weights.copy()
        # Sizes over four decades, up or down; a weight of 0 must be able to rise.
        changed[k] = max(changed[k] + (2 * step - 1) * 10.0 ** (-4 * size), 0.0)
        if not changed.sum() > 0:
            continue
        changed /= changed.sum()
        found = count(changed)
        failed = 0 if found > best else failed + 1
        if found >= best:
            best, weights = found, changed
    return weights

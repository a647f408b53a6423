"""Distances with learned parameters, the rivals that a true pair must beat, and a heuristic for good parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Literal

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.draws import Stream

__all__ = ["EPSILON", "LearnedDistance", "Rivals", "heuristic_hits", "subset_sums"]


EPSILON = 1e-6
Integers = Ints
Name = Literal["weighted_mean", "owa", "bilinear", "choquet"]


@dataclass(frozen=True)
class LearnedDistance:
    """A distance that is linear in its parameters.

    Parameters
    ----------
    name : {"weighted_mean", "owa", "bilinear", "choquet"}
    columns : int
        s, at least 1.
    form : {"none", "nonnegative", "semidefinite"}
        For the bilinear distance: no condition (sum of absolute entries at most 1), d >= 0 on the data, or positive
        semi-definite (trace 1).
    submodular : bool
        Whether the Choquet integral's measure is submodular.
    """

    name: Name
    columns: int
    form: Literal["none", "nonnegative", "semidefinite"] = "none"
    submodular: bool = False

    @property
    def monotone(self) -> bool:
        """Whether a rival that is farther in every coordinate of the profile can be left out."""
        return self.name != "bilinear"

    def profile(self, signed: Floats) -> Floats:
        """The values in which the distance is monotone: squared differences, for OWA in descending order.

        Parameters
        ----------
        signed : ndarray of float64, shape (m, s)
            Differences of pairs, column by column.
        """
        squares = signed * signed
        return -np.sort(-squares, axis=1) if self.name == "owa" else squares

    def coefficients(self, signed: Floats) -> Floats:
        """The distance of each pair as coefficients of the parameters, shape (m, q).

        weighted_mean, owa: the profile. choquet: of mu(A), A = 1 .. 2^s - 1 as bits. bilinear: products of columns
        k <= l, row by row, of S_kk and 2 S_kl.
        """
        if self.name == "choquet":
            return _choquet(signed * signed)
        if self.name == "bilinear":
            first, second = np.triu_indices(self.columns)
            return signed[:, first] * signed[:, second]
        return self.profile(signed)

    def range_of(self, rows: Floats, profiles: Floats) -> tuple[Floats, Floats]:
        """Least and greatest value of each row over all parameters, or bounds of them.

        Parameters
        ----------
        rows, profiles : ndarray of float64, shape (R, q) and (R, s)
            Coefficients, and profiles, of a rival less those of the true pair.
        """
        if self.monotone:
            return profiles.min(axis=1), profiles.max(axis=1)
        if self.form == "semidefinite":
            values = np.linalg.eigvalsh(self.matrices(rows, halved=True))
            return values[:, 0].astype(np.float64), values[:, -1].astype(np.float64)
        largest = np.abs(rows).max(axis=1)
        return -largest, largest

    def matrices(self, parameters: Floats, *, halved: bool) -> Floats:
        """Symmetric matrices of rows of bilinear entries; `halved`: of coefficients, as <C, S> has them."""
        first, second = np.triu_indices(self.columns)
        found = np.zeros((len(parameters), self.columns, self.columns))
        values = np.where(first == second, 1.0, 0.5) * parameters if not halved else parameters
        found[:, first, second] = values
        found[:, second, first] = values
        return found

    def features(self, signed: Floats) -> Floats:
        """Distances whose weighted means are all of this kind: the heuristic mixes them."""
        if self.name == "choquet":
            sets = [[k for k in range(self.columns) if mask >> k & 1] for mask in range(1, 1 << self.columns)]
            squares = signed * signed
            highest = [squares[:, each].max(axis=1) for each in sets]
            # The least over a set is the integral of a measure that is not submodular.
            lowest = [] if self.submodular else [squares[:, each].min(axis=1) for each in sets if len(each) > 1]
            return np.column_stack(highest + lowest)
        if self.name == "bilinear":
            if self.form == "none":
                products = self.coefficients(signed)
                return np.hstack([products, -products])
            pairs = [(k, m) for k in range(self.columns) for m in range(k + 1, self.columns)]
            mixed = [(signed[:, k] + sign * signed[:, m]) / np.sqrt(2.0) for k, m in pairs for sign in (1, -1)]
            return np.column_stack([signed, *mixed]) ** 2
        return self.profile(signed)

    def constraints(self, records: int) -> int:
        """Linear constraints of the whole program over this number of records, as the literature counts them.

        Examples
        --------
        >>> LearnedDistance("weighted_mean", 4).constraints(400)
        160005
        >>> LearnedDistance("choquet", 4, submodular=True).constraints(400)
        160036
        """
        pairs, s = records * (records - 1) + records, self.columns
        if self.name == "choquet":
            return pairs + 2 + sum(comb(s, k) * k for k in range(2, s + 1)) + (comb(s, 2) if self.submodular else 0)
        return pairs + 1 + (s if self.monotone else 0)


@dataclass(frozen=True)
class Rivals:
    """Attacked records, their true partners, and all candidates.

    Parameters
    ----------
    attacked, candidates : ndarray of float64, shape (m, s) and (n, s)
        On the scale distances are measured on.
    partner : ndarray of int64, shape (m,)
        Place of each attacked record's true partner.
    distance : LearnedDistance
    """

    attacked: Floats = field(repr=False)
    candidates: Floats = field(repr=False)
    partner: Integers = field(repr=False)
    distance: LearnedDistance

    def __len__(self) -> int:
        return len(self.attacked)

    def signed(self, record: int) -> Floats:
        """Differences to all candidates."""
        return np.asarray(self.attacked[record] - self.candidates)

    def minimal(self) -> Iterator[Integers]:
        """For each record, the rivals that no other rival implies and that are not always farther than the partner."""
        for record in range(len(self)):
            profiles = self.distance.profile(self.signed(record))
            own = profiles[self.partner[record]]
            near = np.flatnonzero((profiles - own < EPSILON).any(axis=1))
            near = near[near != self.partner[record]]
            order = near[np.argsort(profiles[near].sum(axis=1), kind="stable")]
            yield order[_minimal(read_only(profiles[order], np.float64))]

    def nearest(self, record: int, weights: Floats, count: int) -> Integers:
        """The rivals at the least weighted squared distance."""
        far = (self.signed(record) ** 2) @ weights
        far[self.partner[record]] = np.inf
        count = min(count, len(far) - 1)
        return np.argpartition(far, count - 1)[:count].astype(np.int64) if count > 0 else np.zeros(0, dtype=np.int64)

    def gaps(self, record: int, places: Integers) -> tuple[Floats, Floats]:
        """Coefficients and profiles of some rivals, minus those of the partner."""
        signed = self.attacked[record] - self.candidates[np.append(places, self.partner[record])]
        rows, profiles = self.distance.coefficients(signed), self.distance.profile(signed)
        return rows[:-1] - rows[-1], profiles[:-1] - profiles[-1]

    def feature_gaps(self, record: int, places: Integers) -> Floats:
        """As `gaps`, of the features."""
        found = self.distance.features(self.attacked[record] - self.candidates[np.append(places, self.partner[record])])
        return np.asarray(found[:-1] - found[-1])

    def worst(self, record: int, parameters: Floats, *, features: bool = False) -> tuple[float, int]:
        """Least lead of the partner over a rival under these parameters, and that rival."""
        signed = self.signed(record)
        found = (self.distance.features(signed) if features else self.distance.coefficients(signed)) @ parameters
        lead = found - found[self.partner[record]]
        lead[self.partner[record]] = np.inf
        rival = int(np.argmin(lead))
        return float(lead[rival]), rival

    def hits(self, parameters: Floats, *, features: bool = False) -> int:
        """Records whose partner is nearest by at least half of EPSILON; the other half is the solver's tolerance."""
        worst = (self.worst(record, parameters, features=features)[0] for record in range(len(self)))
        return sum(lead >= EPSILON / 2 for lead in worst)


def subset_sums(columns: int) -> list[tuple[int, int]]:
    """Pairs (A, A + an attribute) of non-empty sets as bits: where a measure must not fall.

    Examples
    --------
    >>> subset_sums(2)
    [(1, 3), (2, 3)]
    """
    return [(mask, mask | 1 << k) for mask in range(1, 1 << columns) for k in range(columns) if not mask >> k & 1]


def _choquet(values: Floats) -> Floats:
    order = np.argsort(values, axis=1, kind="stable")
    rising = np.take_along_axis(values, order, axis=1)
    steps = np.diff(rising, axis=1, prepend=0.0)
    # The attributes from the k-th least on, as bits.
    masks = np.cumsum((1 << order)[:, ::-1], axis=1)[:, ::-1]
    found = np.zeros((len(values), (1 << values.shape[1]) - 1))
    np.put_along_axis(found, masks - 1, steps, axis=1)
    return found


@njit(nogil=True, cache=True)
def _minimal(points: Floats) -> Integers:
    """Places of the points without an earlier point below them in every coordinate; points ascend by their sum."""
    kept = np.empty(len(points), np.int64)
    count = 0
    for i in range(len(points)):
        implied = False
        for at in range(count):
            below = True
            for k in range(points.shape[1]):
                if points[kept[at], k] > points[i, k]:
                    below = False
                    break
            if below:
                implied = True
                break
        if not implied:
            kept[count] = i
            count += 1
    return kept[:count]


RIVALS = 15
TEMPERATURES = (0.3, 0.1, 0.03, 0.01)
PATIENCE = 1500
MOST_ROWS = 40_000
MOST_TRIALS = 20 * PATIENCE


def heuristic_hits(rivals: Rivals, stream: Stream, *, places: Sequence[Integers] | None = None) -> int:
    """Records whose partner is nearest under the best mixture of features that was found.

    Minimises sum_i sigmoid(-softmin_j(c_ij p) / T) over the 15 nearest rivals for T = 0.3, 0.1, 0.03, 0.01, with the
    rivals refreshed in between; then changes one weight at a time, by keyed draws, until 1500 trials bring no gain.
    The result is counted over all rivals.

    Parameters
    ----------
    places : sequence of ndarray of int64, optional
        For each record, the rivals that matter; omitted, or more than 40,000 in total: those near under some of the
        weights tried.

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
    """Leads of all records over their rivals, and where each record's leads begin; without rivals, one certain lead."""
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

"""Probabilistic record linkage: what agreement is worth, learned without knowing the pairs, and the three classes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mixture", "Ranking", "expectation_maximisation", "known_mixture", "ranking"]

SMALLEST = 1e-6
STEPS = 1000
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Mixture:
    """Pairs as a mixture of matched and unmatched ones, columns independent within each.

    Parameters
    ----------
    matched, unmatched : tuple of ndarray of float64, shape (levels + 1,) for each column
        m and u: probability of each level of agreement, that of disagreement first. Each in [1e-6, 1 - 1e-6].
    share : float
        pi: pairs that are matched, of all.
    steps : int
        Of expectation and maximisation; 0 where the true pairs were known.
    converged : bool
    """

    matched: tuple[Floats, ...] = field(repr=False)
    unmatched: tuple[Floats, ...] = field(repr=False)
    share: float
    steps: int = 0
    converged: bool = True

    def chances(self, levels: Integers) -> tuple[Floats, Floats]:
        """Logarithms of the probability of each pattern among matched and among unmatched pairs."""
        return _logs(self.matched, levels), _logs(self.unmatched, levels)


@dataclass(frozen=True)
class Ranking:
    """Patterns by weight, and where linked ones begin and non-linked ones end.

    Parameters
    ----------
    ranks : ndarray of int64, shape (patterns,)
        0 for the lightest; equal where weights are equal.
    linked_from : int
        Ranks from here on are linked.
    unlinked_below : int
        Ranks below are non-linked; those between are clerical.
    """

    ranks: Integers = field(repr=False)
    linked_from: int
    unlinked_below: int


def expectation_maximisation(counts: Integers, levels: Integers, share: float) -> Mixture:
    """Fit the mixture to the counts of the patterns, under independence of the columns within each part.

    Starts at pi = share, m = 0.9 for full agreement (the rest in equal parts) and u = the shares among all pairs; ends
    when the log-likelihood changes by less than 1e-9 of itself, or after 1000 steps. Where m of full agreement is
    below u for most columns, the parts change places.

    Source: Jaro, JASA 84, 1989; Winkler, 1988.

    Parameters
    ----------
    counts : ndarray of int64, shape (patterns,)
        Pairs of each pattern; at least one pair.
    levels : ndarray of int64, shape (patterns, columns)
        Level of each column in each pattern.
    share : float
        Start of pi, in (0, 1).

    Examples
    --------
    >>> levels = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    >>> found = expectation_maximisation(np.array([8800, 550, 550, 100]), levels, 0.01)
    >>> found.converged, bool(found.matched[0][1] > 0.7), bool(found.unmatched[0][1] < 0.1)
    (True, True, True)
    """
    seen = np.flatnonzero(counts)
    weights, digits = counts[seen].astype(np.float64), levels[seen]
    widths = levels.max(axis=0) + 1
    matched = tuple(np.append(np.full(width - 1, 0.1 / (width - 1)), 0.9) for width in widths)
    unmatched = _levels_of(weights, digits, widths)
    pi, before = min(max(share, 1e-12), 1 - 1e-12), -np.inf
    for step in range(1, STEPS + 1):
        one, other = np.log(pi) + _logs(matched, digits), np.log1p(-pi) + _logs(unmatched, digits)
        either = np.logaddexp(one, other)
        likelihood = float(weights @ either)
        if abs(likelihood - before) < 1e-9 * abs(likelihood):
            return _labelled(Mixture(matched, unmatched, pi, step - 1))
        before = likelihood
        belongs = np.exp(one - either)
        matched = _levels_of(weights * belongs, digits, widths)
        unmatched = _levels_of(weights * (1 - belongs), digits, widths)
        pi = min(max(float(weights @ belongs / weights.sum()), 1e-300), 1 - 1e-12)
    return _labelled(Mixture(matched, unmatched, pi, STEPS, converged=False))


def known_mixture(true: Integers, counts: Integers, levels: Integers) -> Mixture:
    """The mixture fitted from the true pairs: the worst case.

    Parameters
    ----------
    true : ndarray of int64, shape (pairs,)
        Patterns of the true pairs, at least one.
    counts : ndarray of int64, shape (patterns,)
        Of all pairs, true ones included.
    """
    matched = np.bincount(true, minlength=len(counts)).astype(np.float64)
    rest = counts - matched
    widths = levels.max(axis=0) + 1
    others = rest if rest.sum() > 0 else matched
    return Mixture(
        _levels_of(matched, levels, widths), _levels_of(others, levels, widths), float(matched.sum() / counts.sum())
    )


def ranking(mixture: Mixture, levels: Integers, false_match: float, false_non_match: float) -> Ranking:
    """Order patterns by weight sum log2(m / u), and cut the order by the tolerated error rates.

    Linked from the top while the probability among unmatched pairs adds up to at most `false_match`; non-linked from
    the bottom while that among matched ones adds up to at most `false_non_match`. Where the two would meet, one cut:
    where the two errors cross, within both rates. Patterns of equal weight stay together.

    Source: Fellegi, Sunter, JASA 64, 1969.

    Examples
    --------
    >>> half, sure, rare = np.array([0.5, 0.5]), np.array([0.05, 0.95]), np.array([0.995, 0.005])
    >>> levels = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    >>> found = ranking(Mixture((sure, half), (rare, half), 0.1), levels, 0.01, 0.01)
    >>> found.ranks.tolist(), found.linked_from, found.unlinked_below
    ([0, 1, 0, 1], 1, 0)
    """
    matched, unmatched = mixture.chances(levels)
    weights = (matched - unmatched) / np.log(2.0)
    order = np.argsort(weights, kind="stable")
    steps = np.diff(weights[order]) > 1e-9 * (1.0 + np.abs(weights[order][1:]))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(steps)])
    size = int(ranks.max()) + 1
    of_matched = np.bincount(ranks, weights=np.exp(matched), minlength=size)
    of_unmatched = np.bincount(ranks, weights=np.exp(unmatched), minlength=size)
    # Error of a cut at c: unmatched pairs from rank c on, matched ones below it.
    false_links = np.append(np.cumsum(of_unmatched[::-1])[::-1], 0.0)
    false_gaps = np.append(0.0, np.cumsum(of_matched))
    lowest = int(np.argmax(false_links <= false_match + 1e-12))
    highest = size - int(np.argmax((false_gaps <= false_non_match + 1e-12)[::-1]))
    if highest <= lowest:
        return Ranking(ranks, lowest, highest)
    crossing = int(np.flatnonzero(false_links >= false_gaps)[-1])
    cut = min(max(crossing, lowest), highest)
    return Ranking(ranks, cut, cut)


def _logs(chances: tuple[Floats, ...], levels: Integers) -> Floats:
    total = np.zeros(len(levels))
    for at, chance in enumerate(chances):
        total += np.log(chance)[levels[:, at]]
    return total


def _levels_of(weights: Floats, levels: Integers, widths: Integers) -> tuple[Floats, ...]:
    """Share of each level in each column, clipped so that no evidence is absolute."""
    total = max(float(weights.sum()), 1e-300)
    return tuple(
        np.clip(np.bincount(levels[:, at], weights=weights, minlength=int(width)) / total, SMALLEST, 1 - SMALLEST)
        for at, width in enumerate(widths)
    )


def _labelled(found: Mixture) -> Mixture:
    """With the part that agrees more often as the matched one."""
    fewer = sum(bool(m[-1] < u[-1]) for m, u in zip(found.matched, found.unmatched, strict=True))
    if 2 * fewer <= len(found.matched):
        return found
    return Mixture(found.unmatched, found.matched, 1 - found.share, found.steps, found.converged)

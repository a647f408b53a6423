"""Mixtures of matched and unmatched pairs, and the cuts of their order, in plain Python."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from privpipe.kernels.linkage.fellegi_sunter import Mixture, expectation_maximisation, known_mixture, ranking

WIDTHS = (2, 3, 2)
LEVELS = list(product(*map(range, WIDTHS)))
Chances = list[list[float]]


def clipped(chance: float) -> float:
    return min(max(chance, 1e-6), 1 - 1e-6)


def shares(weights: list[float]) -> Chances:
    return [
        [
            clipped(sum(w for w, levels in zip(weights, LEVELS, strict=True) if levels[at] == level) / sum(weights))
            for level in range(width)
        ]
        for at, width in enumerate(WIDTHS)
    ]


def chance(chances: Chances, levels: tuple[int, ...]) -> float:
    return math.prod(own[level] for own, level in zip(chances, levels, strict=True))


def fitted(counts: list[float], pi: float) -> tuple[Chances, Chances, float]:
    """The mixture by turns of expectation and maximisation."""
    matched, unmatched = [[0.1 / (width - 1)] * (width - 1) + [0.9] for width in WIDTHS], shares(counts)
    before = -math.inf
    for _ in range(1000):
        one = [pi * chance(matched, levels) for levels in LEVELS]
        other = [(1 - pi) * chance(unmatched, levels) for levels in LEVELS]
        now = sum(n * math.log(a + b) for n, a, b in zip(counts, one, other, strict=True) if n)
        if abs(now - before) < 1e-9 * abs(now):
            break
        before = now
        belongs = [a / (a + b) for a, b in zip(one, other, strict=True)]
        matched = shares([n * b for n, b in zip(counts, belongs, strict=True)])
        unmatched = shares([n * (1 - b) for n, b in zip(counts, belongs, strict=True)])
        pi = sum(n * b for n, b in zip(counts, belongs, strict=True)) / sum(counts)
    fewer = sum(m[-1] < u[-1] for m, u in zip(matched, unmatched, strict=True))
    return (unmatched, matched, 1 - pi) if 2 * fewer > len(WIDTHS) else (matched, unmatched, pi)


def same(found: tuple[np.ndarray, ...], expected: Chances) -> bool:
    return all(own.tolist() == pytest.approx(other, abs=1e-7) for own, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.95])
@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_that_of_the_turns(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    agreeing, apart = ([rng.dirichlet(np.ones(width) * 2) for width in WIDTHS] for _ in range(2))
    counts = [
        int(3000 * (0.2 * chance(agreeing, levels) + 0.8 * chance(apart, levels))) * int(rng.random() < 0.9)  # type: ignore[arg-type]
        for levels in LEVELS
    ]
    found = expectation_maximisation(np.array(counts), np.array(LEVELS), share)
    matched, unmatched, pi = fitted([float(count) for count in counts], share)
    assert same(found.matched, matched)
    assert same(found.unmatched, unmatched)
    assert found.share == pytest.approx(pi, abs=1e-7)


@pytest.mark.parametrize("others", [True, False])
def test_known_pairs_are_counted(others: bool) -> None:
    true = [len(LEVELS) - 1] * 5 + [3, 4]
    of_true = [float(true.count(at)) for at in range(len(LEVELS))]
    rest = [float(at % 4) if others else 0.0 for at in range(len(LEVELS))]
    counts = np.array(of_true, np.int64) + np.array(rest, np.int64)
    found = known_mixture(np.array(true), counts, np.array(LEVELS))
    assert same(found.matched, shares(of_true))
    assert same(found.unmatched, shares(rest if others else of_true))
    assert found.share == pytest.approx(7 / counts.sum())


@pytest.mark.parametrize(
    "rates", [(0.0, 0.0), (0.01, 0.01), (0.05, 0.2), (0.3, 0.02), (0.6, 0.6), (1.0, 0.1), (1.0, 1.0)]
)
@pytest.mark.parametrize("seed", range(6))
def test_cuts_keep_within_the_tolerated_errors(seed: int, rates: tuple[float, float]) -> None:
    rng = np.random.default_rng(seed)
    matched, unmatched = ([rng.dirichlet(np.ones(width)).tolist() for width in WIDTHS] for _ in range(2))
    if seed % 2:
        unmatched[2] = matched[2]  # agreement that is worth nothing: equal weights
    arrays = [tuple(np.array(own) for own in side) for side in (matched, unmatched)]
    found = ranking(Mixture(arrays[0], arrays[1], 0.1), np.array(LEVELS), *rates)
    weights = [math.log2(chance(matched, levels) / chance(unmatched, levels)) for levels in LEVELS]
    distinct: list[float] = []
    for weight in sorted(weights):
        if not distinct or weight - distinct[-1] > 1e-9:
            distinct.append(weight)
    ranks = [next(at for at, own in enumerate(distinct) if abs(own - weight) <= 1e-8) for weight in weights]
    assert found.ranks.tolist() == ranks

    def false_links(cut: int) -> float:
        return sum(chance(unmatched, levels) for levels, rank in zip(LEVELS, ranks, strict=True) if rank >= cut)

    def false_gaps(cut: int) -> float:
        return sum(chance(matched, levels) for levels, rank in zip(LEVELS, ranks, strict=True) if rank < cut)

    cuts = range(len(distinct) + 1)
    lowest = min(cut for cut in cuts if false_links(cut) <= rates[0] + 1e-12)
    highest = max(cut for cut in cuts if false_gaps(cut) <= rates[1] + 1e-12)
    if highest > lowest:
        crossing = max(cut for cut in cuts if false_links(cut) >= false_gaps(cut))
        lowest = highest = min(max(crossing, lowest), highest)
    assert (found.linked_from, found.unlinked_below) == (lowest, highest)

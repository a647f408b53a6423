"""Draws of differential privacy have the distributions that its theorems ask for, to the last atom.

Source: Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020, algorithms 1 to 3.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from privpipe.kernels.synthesis import noisy_marginals
from privpipe.kernels.synthesis.noisy_marginals import chosen, discrete_gaussian

DRAWS = 6000


def fits(draw: Callable[[], int], weights: dict[int, float]) -> float:
    """The chance of counts as far from the weights as those of many draws; rare values are taken together."""
    found, total = Counter(draw() for _ in range(DRAWS)), sum(weights.values())
    assert set(found) <= set(weights)
    common = [value for value, weight in weights.items() if weight / total * DRAWS >= 20]
    wanted = np.array([weights[value] / total for value in common])
    seen = np.array([found[value] for value in common], dtype=float)
    if 1 - wanted.sum() > 1e-3:
        wanted, seen = np.append(wanted, 1 - wanted.sum()), np.append(seen, DRAWS - seen.sum())
    return float(chisquare(seen, wanted / wanted.sum() * seen.sum()).pvalue)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(3, 2), Fraction(9, 4)])
def test_a_coin_of_an_exponential(x: Fraction) -> None:
    below = random.Random(1).randrange
    share = sum(noisy_marginals._bernoulli_exp(x, below) for _ in range(DRAWS)) / DRAWS
    p = math.exp(-x)
    assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / DRAWS)


@pytest.mark.parametrize("t", [1, 2, 5])
def test_a_geometric_number(t: int) -> None:
    below = random.Random(2).randrange
    weights = {k: math.exp(-k / t) for k in range(60 * t)}
    assert fits(lambda: noisy_marginals._geometric_exp(t, below), weights) > 1e-3


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(5, 2), Fraction(30)])
def test_the_discrete_gaussian(variance: Fraction) -> None:
    below = random.Random(3).randrange
    weights = {y: math.exp(-y * y / (2 * float(variance))) for y in range(-80, 81)}
    assert fits(lambda: discrete_gaussian(variance, below), weights) > 1e-3


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2)])
def test_a_position_by_its_score(rate: Fraction) -> None:
    below = random.Random(4).randrange
    scores = [3, 1, 4, 4, 0]
    weights = {at: math.exp(float(rate) * score) for at, score in enumerate(scores)}
    assert fits(lambda: chosen(scores, rate, below), weights) > 1e-3

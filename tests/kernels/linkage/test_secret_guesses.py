"""Guesses of secrets against the definition, pair by pair: numbers within a reach, and labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privpipe.kernels.linkage.criteria import Secrets, nearest_guesses, right_numbers
from privpipe.kernels.linkage.distance import LinkedFile
from privpipe.kernels.linkage.nearest_rows import SearchedRows

AMOUNTS = [-100.0, -96.0, 0.0, 94.0, 95.0, 100.0, 104.0, 105.0, 106.0, math.nan]


def is_right(secret: float, guess: float, relative: float | None, absolute: float | None) -> bool:
    if math.isnan(secret) or math.isnan(guess):
        return math.isnan(secret) and math.isnan(guess)
    reach = abs(secret) * relative if relative is not None else absolute or 0.0
    return abs(secret - guess) <= reach * (1 + 1e-9) + 1e-12


def known(rng: np.random.Generator, rows: int) -> LinkedFile:
    return LinkedFile(rng.integers(0, 4, (rows, 1)) / 4, rng.integers(0, 2, (rows, 1)), (None,))


def shares_by_pairs(asked: LinkedFile, rows: LinkedFile, right: list[list[bool]]) -> list[float]:
    apart = np.abs(asked.numbers - rows.numbers[:, 0]) + (asked.codes != rows.codes[:, 0])
    near = [np.flatnonzero(each == each.min()).tolist() for each in apart]
    return [sum(right[i][j] for j in some) / len(some) for i, some in enumerate(near)]


@pytest.mark.parametrize(
    ("relative", "absolute"), [(0.05, None), (0.0, None), (None, 5.0), (None, 0.0), (None, None), (2.0, None)]
)
@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_right_within_their_reach(seed: int, relative: float | None, absolute: float | None) -> None:
    rng = np.random.default_rng(seed)
    own, shown = rng.choice(AMOUNTS, 12), rng.choice(AMOUNTS, 30)
    secrets = right_numbers(own, shown, relative, absolute)
    right = [[is_right(one, other, relative, absolute) for other in shown] for one in own.tolist()]
    for i in range(12):
        assert secrets.right(np.full(30, secrets.own[i]), secrets.shown).tolist() == right[i]
    check(rng, secrets, right)


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_right_for_what_they_cover(seed: int) -> None:
    rng = np.random.default_rng(seed)
    covers, own, shown = rng.random((4, 3)) < 0.5, rng.integers(0, 4, 12), rng.integers(0, 3, 30)
    none = np.zeros(4, np.int64)
    check(rng, Secrets(own, shown, 3, none, none, covers), covers[own][:, shown].tolist())


def check(rng: np.random.Generator, secrets: Secrets, right: list[list[bool]]) -> None:
    """What is right decides the shares of each value, of a random row, and of the nearest rows."""
    by_row = np.mean(right, axis=0)
    assert secrets.shares(secrets.own)[secrets.shown] == pytest.approx(by_row)
    assert secrets.random_share(secrets.own) == pytest.approx(by_row.mean())
    assert secrets.shares(secrets.own[:0]).tolist() == [0.0] * secrets.values
    asked, rows = known(rng, 12), known(rng, 30)
    searched = SearchedRows(rows)
    found = nearest_guesses(searched, searched.nearest(asked), secrets, secrets.own)
    assert found == pytest.approx(shares_by_pairs(asked, rows, right))

"""Shares add up to what was split, and parts of noise to the noise of one mechanism."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import UsageError
from privpipe.sharing.additive_shares import joined, keystream, noise_part, remainder, require_drawable
from tests.tiers import deep

pytest.importorskip("cryptography")

INTEGERS = st.integers(-(2**62), 2**62 - 1)


@given(st.lists(INTEGERS, min_size=1, max_size=5), st.lists(st.binary(min_size=32, max_size=32), max_size=4))
def test_shares_add_up(values: list[int], keys: list[bytes]) -> None:
    parts = [remainder(np.array(values), keys), *(keystream(key, len(values)) for key in keys)]
    for order in (parts, parts[::-1]):
        assert joined(order).tolist() == values


@given(st.lists(st.lists(INTEGERS, min_size=2, max_size=2), min_size=2, max_size=4))
def test_sums_wrap_only_beyond_64_bits(tables: list[list[int]]) -> None:
    total = joined(np.array(each).view(np.uint64) for each in tables)
    exact = [sum(each) for each in zip(*tables, strict=True)]
    assert [(each + 2**63) % 2**64 - 2**63 for each in exact] == total.tolist()


def test_a_share_looks_random() -> None:
    words = keystream(bytes(31) + b"s", 20_000)
    own = remainder(np.zeros(20_000, dtype=np.int64), [bytes(31) + b"s"])
    for each in (words, own):
        counts = np.bincount((each >> np.uint64(56)).astype(np.int64), minlength=256)
        assert scipy.stats.chisquare(counts).pvalue > 1e-6
    assert len({keystream(bytes([at] * 32), 4).tobytes() for at in range(20)}) == 20


def laplace(scale: float, reach: int) -> np.ndarray:
    """Probabilities of -reach ... reach from the definition."""
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return np.asarray(weights * np.tanh(1 / (2 * scale)))


def differences(shape: float, scale: float, reach: int) -> np.ndarray:
    """Probabilities of the difference of two negative binomial numbers."""
    one = scipy.stats.nbinom.pmf(np.arange(4 * reach), shape, 1 - np.exp(-1 / scale))
    return np.asarray(np.convolve(one, one[::-1])[3 * reach - 1 : 5 * reach])


@pytest.mark.parametrize("shape", [1.0])
def test_the_oracles_agree(shape: float) -> None:
    np.testing.assert_allclose(differences(shape, 2.5, 40), laplace(2.5, 40), atol=1e-12)


@pytest.mark.parametrize(
    ("holders", "colluding", "scale"),
    [
        (2, 1, Fraction(1)),
        deep(3, 1, Fraction(2)),
        deep(3, 2, Fraction(2)),
        deep(5, 2, Fraction(7, 3)),
        deep(4, 3, Fraction(1, 2)),
    ],
)
def test_noise_of_all_holders_by_chi_square(holders: int, colluding: int, scale: Fraction) -> None:
    """10,000 draws; those of all but the colluding holders are discrete Laplace noise, those of all somewhat wider."""
    draw = random.Random(f"{holders} {colluding} {scale}")
    among, reach = holders - colluding, 12
    parts = np.array(
        [[noise_part(scale, among, draw.randrange) for _ in range(holders)] for _ in range(10_000)], dtype=np.int64
    )
    for seen, expected in (
        (parts[:, :among].sum(axis=1), laplace(float(scale), 200)),
        (parts.sum(axis=1), differences(holders / among, float(scale), 200)),
    ):
        clipped = np.bincount(np.clip(seen, -reach, reach) + reach, minlength=2 * reach + 1)
        shares = expected[200 - reach : 201 + reach].copy()
        shares[0], shares[-1] = expected[: 201 - reach].sum(), expected[200 + reach :].sum()
        kept = shares * 10_000 >= 5
        counts = np.append(clipped[kept], clipped[~kept].sum())
        wanted = np.append(shares[kept], shares[~kept].sum()) * 10_000
        if wanted[-1] < 5:
            counts, wanted = counts[:-1], wanted[:-1]
        assert scipy.stats.chisquare(counts, wanted * counts.sum() / wanted.sum()).pvalue > 1e-4


def test_a_part_alone_is_not_the_whole() -> None:
    """The check above has power: a part of one of three holders is not a discrete Laplace noise."""
    draw = random.Random(7)
    zeros = sum(noise_part(Fraction(2), 3, draw.randrange) == 0 for _ in range(2_000))
    assert zeros > 2_000 * laplace(2, 200)[200] * 1.5


def test_noise_that_takes_too_long_is_refused() -> None:
    require_drawable(Fraction(10**6), 1, 2_000_000)
    require_drawable(Fraction(10**6), 4, 1_000)
    with pytest.raises(UsageError, match="fewer decimals"):
        require_drawable(Fraction(10**6), 4, 10_000)

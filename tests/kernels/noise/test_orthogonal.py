"""Random orthogonal masking: T as the dense product of the definition, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.draws import Stream
from privpipe.draws.elementary import normal_quantile, unit_interval
from privpipe.draws.siphash import word_of_2
from privpipe.kernels.noise.orthogonal import block_borders, rotate_block, strength
from tests.tiers import at_most


def dense(b: int, k: float, stream: Stream) -> np.ndarray:
    """T = H diag(1, Q) H', by the library's factorisation."""
    m = b - 1
    words = [[word_of_2(*stream.key_words, np.uint64(i), np.uint64(j)) for j in range(m)] for i in range(m)]
    normals = np.array([[normal_quantile(unit_interval(np.uint64(word))) for word in row] for row in words])
    q, r = np.linalg.qr(np.eye(m) + k * normals)
    inner = np.eye(b)
    inner[1:, 1:] = q * np.sign(np.diag(r))
    v = np.full(b, -1 / np.sqrt(b))
    v[0] += 1
    h = np.eye(b) - 2 * np.outer(v, v) / (v @ v)
    return np.asarray(h @ inner @ h.T)


@settings(max_examples=at_most(25))
@given(b=st.integers(3, 40), s=st.integers(1, 4), k=st.floats(0, 3), key=st.binary(min_size=16, max_size=16))
def test_it_is_the_product_with_t(b: int, s: int, k: float, key: bytes) -> None:
    x = np.random.default_rng(b).normal(size=(b, s))
    t = dense(b, k, Stream(key))
    assert np.abs(t @ np.ones(b) - 1).max() < 1e-12
    assert np.abs(t @ t.T - np.eye(b)).max() < 1e-12
    assert np.abs(rotate_block(x, k, Stream(key)) - t @ x).max() < 1e-10


def test_sums_and_covariances_stay_for_large_values() -> None:
    """4e-15 in the masking specification, section 7; values of 10^12 lose nothing to their mean."""
    x = np.random.default_rng(2).normal(size=(64, 5)) * 1e3 + 1e12
    y = rotate_block(x, 0.3, Stream(bytes(16)))
    assert np.abs(y - x).mean() > 100
    assert np.abs(y.sum(axis=0) / x.sum(axis=0) - 1).max() < 1e-14
    z, w = x - 1e12, y - 1e12
    assert np.abs(np.cov(w.T) - np.cov(z.T)).max() / np.cov(z.T).max() < 1e-6  # digits of 10^12 itself
    assert np.abs(np.cov(rotate_block(z, 0.3, Stream(bytes(16))).T) - np.cov(z.T)).max() / np.cov(z.T).max() < 4e-15


def test_small_blocks_and_no_noise_stay() -> None:
    for b in (0, 1, 2):
        x = np.arange(2.0 * b).reshape(b, 2)
        assert rotate_block(x, 1.0, Stream(bytes(16))).tolist() == x.tolist()
    x = np.random.default_rng(1).normal(size=(8, 2))
    assert rotate_block(x, 0.0, Stream(bytes(16))) == pytest.approx(x)


@given(st.integers(0, 2000), st.integers(8, 512))
def test_blocks_have_b_to_twice_b_records(n: int, block: int) -> None:
    sizes = np.diff(block_borders(n, block))
    assert sizes.sum() == n
    assert (sizes[:-1] == block).all()
    assert n < 2 * block or block <= sizes[-1] < 2 * block


@pytest.mark.parametrize("size", [3, 8, 40])
@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.5])
def test_strength_is_that_of_the_dense_definition(size: int, ratio: float) -> None:
    """2 (1 - tr Q / m) over matrices of another key than the one it was found by."""
    c, m = strength(size, ratio), size - 1
    normals = np.random.default_rng(7).normal(size=(3000, m, m))
    q, r = np.linalg.qr(np.eye(m) + c * normals)
    moved = 2 * (1 - np.einsum("dii,dii->d", q, np.sign(r)) / m)
    assert moved.mean() == pytest.approx(ratio, rel=0.06)


@pytest.mark.deep
def test_strength_grows_with_the_ratio_and_falls_with_the_block() -> None:
    found = [[strength(size, ratio) for ratio in (0.001, 0.1, 0.5, 1.0, 1.9)] for size in (8, 64, 200)]
    assert all(np.all(np.diff(row) > 0) for row in found)
    assert np.all(np.diff(np.array(found), axis=0) < 0)
    assert [strength(size, 0.5) for size in (0, 1, 2)] == [0.0, 0.0, 0.0]

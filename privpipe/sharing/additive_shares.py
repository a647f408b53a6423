"""Additive shares modulo 2^64, and each holder's part of the noise of differential privacy.

Sources: Ben-Or, Goldwasser, Wigderson, STOC 1988, for sums of shares; Dwork et al., Our data, ourselves, EUROCRYPT
2006, and Goryczka, Xiong, A comprehensive comparison of multiparty secure additions with differential privacy, IEEE
TDSC 14(5), 2017, for noise that holders add in parts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from privpipe.blocks.arrays import Ints, Words
from privpipe.errors import UsageError
from privpipe.kernels.synthesis.noisy_marginals import Below, discrete_geometric, discrete_laplace

__all__ = ["joined", "keystream", "noise_part", "remainder", "require_drawable"]

MOST_DRAWS = 50_000_000
"""Of a holder in a run; half an hour."""


def keystream(key: bytes, words: int) -> Words:
    """Uniform words of ChaCha20 under a key of 32 bytes that serves once: a share, in 32 bytes.

    Examples
    --------
    >>> keystream(bytes(32), 1).tolist()
    [10393729187455219830]
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * words))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


def remainder(values: Ints, keys: Iterable[bytes]) -> Words:
    """The share that is left to the holder of some values when the others get the keystreams of these keys.

    Examples
    --------
    >>> keys = [bytes(32), bytes(31) + b"1"]
    >>> joined([remainder(np.array([7, -7]), keys), *(keystream(key, 2) for key in keys)]).tolist()
    [7, -7]
    """
    left = values.astype(np.int64).view(np.uint64).copy()
    for key in keys:
        left -= keystream(key, len(left))
    return left


def joined(parts: Iterable[Words]) -> Ints:
    """The integers that shares, or partial sums, add up to: modulo 2^64, from -2^63 on."""
    first, *others = parts
    total = first.copy()
    for each in others:
        total += each
    return total.view(np.int64)


def require_drawable(scale: Fraction, among: int, number: int) -> None:
    """Refuse so many parts of noise that would take too many draws: about scale^(1 - 1/among) for each.

    Raises
    ------
    UsageError
    """
    draws = number * max(float(scale), 1.0) ** (1 - 1 / among)
    if draws > MOST_DRAWS:
        raise UsageError(
            f"{number:,} cells with noise of scale {float(scale):,.0f} units in {among} parts need {draws:.0e} draws, "
            f"and {MOST_DRAWS:.0e} are served; declare fewer decimals, or leave `colluding` out"
        )


def noise_part(scale: Fraction, among: int, below: Below = secrets.randbelow) -> int:
    """A part of discrete Laplace noise: `among` independent ones add up to noise with probabilities exp(-|y|/scale).

    It is the difference of two Polya draws (negative binomial with shape 1/among), each exact: a geometric draw k is
    kept with the ratio of the two probabilities, the product of (1/among + i - 1)/i for i = 1 ... k, a fraction.

    Examples
    --------
    >>> draws = [sum(noise_part(Fraction(2), 3) for _ in range(3)) for _ in range(2000)]
    >>> abs(sum(draws) / 2000) < 0.5, 6 < sum(y * y for y in draws) / 2000 < 10
    (True, True)
    """
    if among == 1:
        return discrete_laplace(scale, below)
    return _polya(scale, among, below) - _polya(scale, among, below)


def _polya(scale: Fraction, among: int, below: Below) -> int:
    while True:
        k = discrete_geometric(scale, below)
        if all(below(among * i) < 1 + among * (i - 1) for i in range(1, k + 1)):
            return k

"""Uniform and normal numbers from words, and a logarithm, with the same bits on every machine.

The C library's logarithm differs between versions in the last bit, and a release would then differ between
workers; these functions use only operations that IEEE 754 rounds exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit
from privpipe.draws.siphash import record_words, word_of_3

__all__ = [
    "LARGEST_BELOW_ONE",
    "natural_log",
    "normal_quantile",
    "plain_normals",
    "plain_uniforms",
    "record_normals",
    "record_uniforms",
    "unit_interval",
]

U = np.uint64

LARGEST_BELOW_ONE = 1.0 - 2.0**-53


@njit(nogil=True, cache=True)
def natural_log(x: float) -> float:
    """ln x of a positive finite x that is not subnormal, within one unit in the last place.

    Source: the method of FreeBSD's e_log.c (Sun Microsystems, 1993): x = 2^k (1 + f), and ln(1 + f) by a
    polynomial in s = f/(2 + f).
    """
    bits = np.float64(x).view(np.int64)
    k = (bits >> 52) - 1023
    bits &= 0xFFFFFFFFFFFFF
    # Take the mantissa to [sqrt(1/2), sqrt(2)).
    carry = (bits + 0x95F6400000000) & 0x10000000000000
    bits |= carry ^ 0x3FF0000000000000
    k += carry >> 52
    f = np.int64(bits).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    return k * 6.93147180369123816490e-01 - ((half - (s * (half + (even + odd)) + k * 1.90821492927058770002e-10)) - f)


@njit(nogil=True, cache=True)
def unit_interval(word: U) -> float:
    """u = ((word >> 11) + 0.5) 2^-53, in (0, 1): the largest words would round to 1 and give 1 - 2^-53."""
    u = (np.float64(word >> U(11)) + 0.5) * 2.0**-53
    return min(u, LARGEST_BELOW_ONE)


@njit(nogil=True, cache=True)
def normal_quantile(u: float) -> float:
    """Inverse normal distribution function of u in (0, 1), relative error about 1e-16.

    Source: Wichura, algorithm AS 241 (PPND16), Applied Statistics 37(3), 1988.
    """
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return (
            q
            * (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
                + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r
                + 133.14166789178437745) * r + 3.387132872796366608)
            / (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
                + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r
                + 42.313330701600911252) * r + 1.0)
        )  # fmt: skip
    r = np.sqrt(-natural_log(u if q < 0.0 else 1.0 - u))
    if r <= 5.0:
        r -= 1.6
        x = (
            (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r
                + 0.24178072517745061177) * r + 1.27045825245236838258) * r
                + 3.64784832476320460504) * r + 5.7694972214606914055) * r
                + 4.6303378461565452959) * r + 1.42343711074968357734)
            / (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r
                + 0.0151986665636164571966) * r + 0.14810397642748007459) * r
                + 0.68976733498510000455) * r + 1.6763848301838038494) * r
                + 2.05319162663775882187) * r + 1.0)
        )  # fmt: skip
    else:
        r -= 5.0
        x = (
            (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r
                + 0.0012426609473880784386) * r + 0.026532189526576123093) * r
                + 0.29656057182850489123) * r + 1.7848265399172913358) * r
                + 5.4637849111641143699) * r + 6.6579046435011037772)
            / (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r
                + 1.8463183175100546818e-5) * r + 7.868691311456132591e-4) * r
                + 0.0148753612908506148525) * r + 0.13692988092273580531) * r
                + 0.59983220655588793769) * r + 1.0)
        )  # fmt: skip
    quantile: float = -x if q < 0.0 else x
    return quantile


def plain_uniforms(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """`unit_interval` of whole columns, without the compiler."""
    return np.minimum(((words >> U(11)).astype(np.float64) + 0.5) * 2.0**-53, LARGEST_BELOW_ONE)


def plain_normals(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """`normal_quantile` of `plain_uniforms`, without the compiler."""
    return np.array([normal_quantile(u) for u in plain_uniforms(words).tolist()], np.float64)


def _record_uniforms(k0: U, k1: U, ids: NDArray[np.int64], word: U) -> NDArray[np.float64]:
    return plain_uniforms(np.asarray(record_words(k0, k1, ids, word)))


@njit(small=SMALL, plain=_record_uniforms, nogil=True, cache=True)
def record_uniforms(k0: U, k1: U, ids: NDArray[np.int64], word: U) -> NDArray[np.float64]:
    out = np.empty(len(ids), np.float64)
    for i in range(len(ids)):
        out[i] = unit_interval(word_of_3(k0, k1, U(ids[i, 0]), U(ids[i, 1]), word))
    return out


def _record_normals(k0: U, k1: U, ids: NDArray[np.int64], word: U) -> NDArray[np.float64]:
    return plain_normals(np.asarray(record_words(k0, k1, ids, word)))


@njit(small=SMALL, plain=_record_normals, nogil=True, cache=True)
def record_normals(k0: U, k1: U, ids: NDArray[np.int64], word: U) -> NDArray[np.float64]:
    out = np.empty(len(ids), np.float64)
    words = np.empty(1024, np.uint64)
    for first in range(0, len(ids), 1024):  # hash and quantile separately: only the hash runs in vector registers
        count = min(1024, len(ids) - first)
        for i in range(count):
            words[i] = word_of_3(k0, k1, U(ids[first + i, 0]), U(ids[first + i, 1]), word)
        for i in range(count):
            out[first + i] = normal_quantile(unit_interval(words[i]))
    return out

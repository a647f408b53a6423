"""The permutation of rank swapping against its definition, its figures, and its independence of segments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.draws import Draws, Seed, Stream
from privpipe.errors import UsageError
from privpipe.kernels.rank_swapping import Partner, segment_length, swap_permutation, swap_segment

STREAM = Draws(Seed.insecure(42), stage=0, transformer="rank_swap").of("income")
PARTNERS: tuple[Partner, ...] = ("unswapped", "content", "skip")
FIXED = [3, 2, 1, 0, 8, 9, 10, 11, 4, 5, 6, 7, 15, 17, 18, 12, 19, 13, 14, 16]


def below(stream: Stream, rank: int, word: int, bound: int) -> int:
    return int(stream.counter(rank, 1, word)[0]) * bound >> 64


def oracle(n: int, w: int, stream: Stream, partner: Partner, segment: int) -> list[int]:
    """The scan as the specification words it, one rank at a time."""
    pi, swapped = list(range(n)), [False] * n
    for i in range(n):
        last = min(i + w, (i // segment + 1) * segment - 1, n - 1)
        if swapped[i] or last == i:
            continue
        window = range(i + 1, last + 1)
        chosen = i
        if partner == "unswapped":
            tries = [window[below(stream, i, t, len(window))] for t in range(8)]
            free = [l for l in window if not swapped[l]]
            hits = [l for l in tries if not swapped[l]]
            if free:
                chosen = hits[0] if hits else free[below(stream, i, 8, len(free))]
        else:
            l = window[below(stream, i, 0, len(window))]
            chosen = l if partner == "content" or not swapped[l] else i
        if chosen != i:
            pi[i], pi[chosen] = pi[chosen], pi[i]
            swapped[i] = swapped[chosen] = True
    return pi


@given(st.integers(0, 80), st.integers(1, 90), st.sampled_from(PARTNERS), st.integers(1, 90), st.integers(0, 99))
def test_the_scan_is_the_published_one(n: int, w: int, partner: Partner, segment: int, seed: int) -> None:
    stream = Draws(Seed.insecure(seed), stage=0, transformer="rank_swap").of("income")
    pi = swap_permutation(n, w, stream, partner=partner, segment=segment)
    assert pi.tolist() == oracle(n, w, stream, partner, segment)


def test_blocks_of_counts_give_the_same_partners_as_a_plain_scan() -> None:
    n = 9000
    assert swap_permutation(n, n, STREAM).tolist() == oracle(n, n, STREAM, "unswapped", n)


@given(st.integers(1, 3000), st.integers(1, 3000), st.sampled_from(PARTNERS), st.integers(1, 3000))
def test_a_permutation_within_the_window(n: int, w: int, partner: Partner, segment: int) -> None:
    pi = swap_permutation(n, w, STREAM, partner=partner, segment=segment)
    ranks = np.arange(n)
    assert (np.sort(pi) == ranks).all()
    assert (abs(pi - ranks) <= w).all()
    assert (pi // segment == ranks // segment).all()
    if partner != "content":
        assert (pi[pi] == ranks).all()


def test_any_worker_computes_any_segment() -> None:
    n, w = 200_000, 100
    whole = swap_permutation(n, w, STREAM)
    length = segment_length(n, w)
    assert length == 65536
    parts = [swap_segment(at, min(at + length, n), w, STREAM) for at in range(0, n, length)]
    assert (np.concatenate(parts) == whole).all()


def displacement(partner: Partner) -> NDArray[np.int64]:
    pi = swap_permutation(20_000, 200, STREAM, partner=partner)
    moved: NDArray[np.int64] = np.abs(np.asarray(pi, dtype=np.int64) - np.arange(20_000))
    return moved


def test_displacements_are_those_measured() -> None:
    """Source: the masking specification, n = 20000, w = 200: 0.56 w, 0.47 w, and 13 % that stay."""
    paired, content, skip = (displacement(partner) for partner in PARTNERS)
    assert paired.mean() / 200 == pytest.approx(0.56, abs=0.015)
    assert (paired == 0).sum() <= 5
    assert content.mean() / 200 == pytest.approx(0.47, abs=0.015)
    assert (skip == 0).mean() == pytest.approx(0.13, abs=0.015)


def test_partners_are_uniform_over_the_first_window() -> None:
    """Rank 0 finds everybody unswapped: under many keys its partner is uniform in 1 .. w."""
    partners = [swap_permutation(12, 10, STREAM.child(str(i)))[0] for i in range(4000)]
    counts = np.bincount(partners, minlength=11)[1:]
    assert ((counts - 400) ** 2 / 400).sum() < 9 + 6 * 18**0.5


def test_segments_depend_on_n_and_w_alone() -> None:
    assert segment_length(100, 3) == 100
    assert segment_length(10**7, 2000) == 128_000
    assert segment_length(10**7, 10**7 // 64) == 10**7 // 64 * 64


def test_values_do_not_change_between_versions() -> None:
    assert swap_permutation(20, 4, STREAM).tolist() == FIXED
    assert swap_permutation(20, 4, STREAM).dtype == np.int32


def test_no_ranks_one_rank_and_wrong_arguments() -> None:
    assert len(swap_permutation(0, 1, STREAM)) == 0
    assert swap_permutation(1, 1, STREAM).tolist() == [0]
    for n, w, segment in ((10, 0, 5), (-1, 1, 5), (10, 1, 0)):
        with pytest.raises(UsageError):
            swap_permutation(n, w, STREAM, segment=segment)
    with pytest.raises(UsageError):
        swap_permutation(10, 1, STREAM, partner="nobody")  # type: ignore[arg-type]

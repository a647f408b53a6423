"""Transparency attack and distance linkage on a rank-swapped table, all records attacked with all candidates.

Six correlated columns, near-unique, swapped within a window of p n ranks. The attack is also timed next to a plain
sort of the six columns in the same run, so that figures of a noisy machine can be compared. Prints only.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray
from recording import record

from privpipe.draws import Draws, Seed
from privpipe.kernels.linkage.distance import LinkedFile, linkage_scores
from privpipe.kernels.linkage.transparency import candidates_left, window_constraint
from privpipe.kernels.rank_swapping import swap_permutation
from privpipe.tolerance import floor_share

Floats = NDArray[np.float64]


def original(rows: int, columns: int) -> Floats:
    """Columns that share a factor, as amounts about one person do."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(rows, columns)) + rng.normal(size=(rows, 1))


def swapped(x: Floats, p: float) -> Floats:
    """Each column rank-swapped by itself."""
    draws, y = Draws(Seed.insecure(1), 0, "rank_swap"), np.empty_like(x)
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        pi = swap_permutation(len(x), floor_share(p, len(x)), draws.of(str(j)))
        y[order, j] = x[order[pi], j]
    return y


def standardised(x: Floats) -> Floats:
    """By own mean and deviation."""
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0, ddof=1))


def attack(x: Floats, y: Floats, p: float, attacked: NDArray[np.int64]) -> tuple[float, float]:
    """Share re-identified, and candidates on average."""
    window = floor_share(p, len(x))
    constraints = [window_constraint(x[attacked, j], y[:, j], window) for j in range(x.shape[1])]
    left = candidates_left(constraints, standardised(x)[attacked], standardised(y), attacked)
    return float(left.scores.mean()), float(left.counts.mean())


def linkage(x: Floats, y: Floats, attacked: NDArray[np.int64]) -> float:
    """Share linked from the intruder's side."""
    none = np.zeros((len(x), 0), dtype=np.int64)
    files = LinkedFile(standardised(x), none), LinkedFile(standardised(y), none)
    return float(linkage_scores(files[0].take(attacked), files[1], attacked, squared=True).mean())


class Watch:
    """Seconds since it was made: by the clock, and of the processor, which other work slows less."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def processor(self) -> float:
        return time.process_time() - self.start[1]

    def __str__(self) -> str:
        return f"{time.perf_counter() - self.start[0]:7.2f} s ({self.processor():7.2f} s of processor)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--p", type=float, nargs="+", default=[0.005, 0.02])
    parser.add_argument("--attacked", type=int, help="records that are attacked; default: all of them")
    options = parser.parse_args()
    warm = original(2_000, options.columns)
    attack(warm, swapped(warm, 0.05), 0.05, np.arange(2_000))
    x = original(options.rows, options.columns)
    attacked = np.arange(options.attacked or options.rows)
    watch = Watch()
    np.sort(x, axis=0)
    plain = watch.processor()
    print(f"plain sort of {options.columns} columns {watch}", flush=True)
    for p in options.p:
        y = swapped(x, p)
        watch = Watch()
        share, candidates = attack(x, y, p, attacked)
        took = watch.processor()
        record(
            f"transparency attack, {options.rows:,} rows, p = {p:g}", took=took, baseline=plain, beside="a plain sort"
        )
        print(f"p = {p:5.1%}  attack   {watch}   re-identified {share:.4f}   {candidates:.2f} candidates", flush=True)
        watch = Watch()
        share = linkage(x, y, attacked)
        took = watch.processor()
        record(f"distance linkage, {options.rows:,} rows, p = {p:g}", took=took, baseline=plain, beside="a plain sort")
        print(f"p = {p:5.1%}  linkage  {watch}   linked {share:.4f}", flush=True)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()

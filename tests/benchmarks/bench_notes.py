"""A release with its notes (recovery, near-unique columns, spelling) as a ratio to the same release without them.

Runs are interleaved, so that a noisy machine slows both alike. Prints only; aim: at most 1.2.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from recording import record
from tables import SECOND_SENSITIVE, SENSITIVE, benchmark_table

import privpipe as pp
from privpipe.engines import open_engine

staging = importlib.import_module("privpipe.running.staging")


@contextmanager
def without_notes() -> Iterator[None]:
    """Releases judge by their guarantees alone, for as long as the context lasts."""
    whole = staging.judging_rules

    def bare(*given: Any) -> Any:
        rules = whole(*given)
        return replace(rules, gate=replace(rules.gate, notes=False))

    staging.judging_rules = bare
    try:
        yield
    finally:
        staging.judging_rules = whole


def policy_of(folder: Path, target: Path) -> pp.Policy:
    """Two columns generalized, three next to them as they are."""
    return pp.Policy.from_dict(
        {
            "version": 1,
            "source": {"path": str(folder), "format": "parquet"},
            "columns": {
                "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"widths": [5]}}},
                "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left", "length": 9}}},
                "sex": {"role": "quasi_identifier"},
                "education": {"role": "quasi_identifier"},
                "country": {"role": "quasi_identifier"},
                SENSITIVE: {"role": "sensitive"},
                SECOND_SENSITIVE: {"role": "insensitive"},
                "income": {"role": "insensitive", "type": "number"},
            },
            "transform": [{"generalize": {"levels": {"age": 1, "zip": 1}}}],
            "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": SENSITIVE, "l": 2}}],
            "sink": {"path": str(target)},
        }
    )


def seconds(policy: pp.Policy, threads: int) -> tuple[tuple[float, float], Any]:
    """Time of one release on the clock and on the processors, and what it was judged to be."""
    with open_engine("embedded", {"threads": threads}) as engine:
        start, busy = time.perf_counter(), time.process_time()
        result = pp.release(policy, engine=engine)
        return (time.perf_counter() - start, time.process_time() - busy), result.assessment


def measure(folder: Path, rounds: int, threads: int) -> None:
    """Print the ratio for one table."""
    with tempfile.TemporaryDirectory() as place:
        policy = policy_of(folder, Path(place) / "published")
        noted, bare = [], []
        for at in range(rounds + 1):  # the first round warms the file cache and the compiler
            took, judged = seconds(policy, threads)
            with without_notes():
                less, _ = seconds(policy, threads)
            noted.append(took)
            bare.append(less)
            print(f"  round {at}: with {took[0]:.1f} s, without {less[0]:.1f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for at, clock in enumerate(("on the clock", "of processor")):
        whole, part = (statistics.median(run[at] for run in runs[1:]) for runs in (noted, bare))
        record(f"notes of a release, {folder.name}, {clock}", took=whole, baseline=part, beside="without notes")
        print(f"{folder.name:16} with notes {whole:6.2f} s {clock}   without {part:6.2f} s   ratio {whole / part:5.2f}")
    print(f"  peak {peak:.1f} GiB")
    for note in (*judged.notes, *judged.source_notes):
        print("  note:", note)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--shape", default="few")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    for rows in given.rows:
        measure(benchmark_table(given.folder, rows, given.shape), given.rounds, given.threads)

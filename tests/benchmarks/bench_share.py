"""Seconds of each step of `privpipe share`, compared with counting one holder's cells.

    python tests/benchmarks/bench_share.py [--cells 1000000] [--holders 5]

Every holder has as many records as there are cells, and shares counts, contributors and sums of all cells. What a
holder does for the other ones (draw, encrypt, write, read, add up) is compared with counting its own table.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from recording import record

from privpipe.sharing import Participant, RunDocument, SealingKey, joint_policy
from privpipe.signing import SigningKey, new_key, read_private


def records(folder: Path, side: int, seed: int) -> Path:
    """As many records as cells, one person each."""
    draw = np.random.default_rng(seed)
    number = side * side
    codes = [pa.array(draw.integers(0, side, number).astype(np.int32)) for _ in "ab"]
    labels = pa.array([f"label {at}" for at in range(side)])
    columns = {name: labels.take(code) for name, code in zip("ab", codes, strict=True)}
    path = folder / f"records-{seed}.parquet"
    pyarrow.parquet.write_table(pa.table({**columns, "cost": draw.integers(0, 1000, number)}), path)
    return path


def document(folder: Path, side: int, keys: dict[str, SigningKey]) -> RunDocument:
    given = {
        "version": 1,
        "nonce": "0" * 64,
        "exchange": str(folder / "exchange"),
        "holders": {
            name: {"sign": key.public.line, "seal": SealingKey.from_private(key).line} for name, key in keys.items()
        },
        "dimensions": {name: [f"label {at}" for at in range(side)] for name in "ab"},
        "measures": {"count": {"between": [0, 10**6]}, "cost": {"between": [0, 10**9]}},
        "disjoint_persons": True,
        "writer": "h0",
        "guarantees": [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}],
    }
    return RunDocument.of(given)


def main() -> None:
    """Print and record the steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--holders", type=int, default=5)
    given = parser.parse_args()
    side = math.isqrt(given.cells)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        keys = {}
        for at in range(given.holders):
            new_key(folder / f"h{at}.key")
            keys[f"h{at}"] = read_private(folder / f"h{at}.key")
        run = document(folder, side, keys)
        counting, sharing = [], []
        for at, (name, key) in enumerate(keys.items()):
            source, marks = records(folder, side, at), {}
            own = Participant(document=run, name=name, key=key, work=folder / name)
            own.split(source, progress=lambda now, seen=marks: seen.setdefault(now, time.perf_counter()))
            end = time.perf_counter()
            counting.append(marks["keep"] - marks["count"])
            sharing.append(end - marks["keep"])
        for at, (name, key) in enumerate(keys.items()):
            start = time.perf_counter()
            Participant(document=run, name=name, key=key, work=folder / name).add_up()
            sharing[at] += time.perf_counter() - start
        start = time.perf_counter()
        joint_policy(run, folder / "h0", str(folder / "out"), key=keys["h0"])
        combining = time.perf_counter() - start
        sent = sum(path.stat().st_size for path in run.folder.iterdir()) / given.holders / 2**20
    took, baseline = float(np.median(sharing)), float(np.median(counting))
    print(
        f"{side * side:,} cells, {given.holders} holders: each counts {baseline:.2f} s, shares {took:.2f} s and sends "
        f"{sent:.1f} MiB; the writer adds up {combining:.2f} s",
        flush=True,
    )
    record(
        f"shares of {side * side:,} cells, {given.holders} holders",
        took=took,
        baseline=baseline,
        beside="counting the table",
        cells=side * side,
        mebibytes=sent,
        **{"seconds of adding up": combining},
    )


if __name__ == "__main__":
    main()

"""Seeded tables for the benchmarks, written once to a folder of Parquet files."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

QUASI_IDENTIFIERS = ("age", "zip", "sex", "education", "country")
SENSITIVE = "illness"
SECOND_SENSITIVE = "ward"
SHAPES = {
    # At 10M rows: 45,000 classes and some 0.6M cells; 5.7M classes and 9.1M cells.
    "few": ((15, 50, 3, 4, 5), 15),
    "many": ((60, 65, 5, 20, 20), 20),
    # At 100M rows: 450,000 classes; 58M classes.
    "wide": ((15, 50, 6, 10, 10), 15),
    "vast": ((60, 130, 10, 30, 36), 20),
}
WARDS = 12
CHUNK = 1_000_000


def benchmark_table(folder: Path, rows: int, shape: str, seed: int = 1) -> Path:
    """The folder of a table of so many rows; written when it is not there yet.

    Parameters
    ----------
    shape : {"few", "many"}
        How many classes the five quasi-identifiers form.
    """
    target = folder / f"{shape}-{rows}-rows"
    if (target / "_done").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    cards, values = SHAPES[shape]
    for part, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([seed, part])
        n = min(CHUNK, rows - start)
        columns: dict[str, pa.Array] = {}
        for name, card in zip(QUASI_IDENTIFIERS, cards, strict=True):
            codes = rng.integers(0, card, n)
            columns[name] = pa.array(codes + 18) if name == "age" else _text(f"{name} ", codes, card)
        columns[SENSITIVE] = _text("illness ", np.minimum(rng.geometric(0.3, n), values) - 1, values)
        columns[SECOND_SENSITIVE] = _text("ward ", rng.integers(0, WARDS, n), WARDS)
        columns["income"] = pa.array(rng.lognormal(10, 1, n).round(2))
        pq.write_table(pa.table(columns), target / f"part-{part:05d}.parquet", row_group_size=250_000)
    (target / "_done").touch()
    return target


def _text(prefix: str, codes: NDArray[np.int64], card: int) -> pa.Array:
    labels = pa.array([f"{prefix}{code:05d}" for code in range(card)])
    return labels.take(pa.array(codes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shape", choices=SHAPES, default="few")
    given = parser.parse_args()
    print(benchmark_table(given.folder, given.rows, given.shape))

"""Generate the survey of the example: invented persons in invented households, the same on every machine."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

HOUSEHOLDS = 900
COLUMNS = ("hid", "pid", "region", "age", "sex", "rent", "satisfied")


def rows() -> list[tuple[object, ...]]:
    """A row a person, in no order that tells households."""
    rng = np.random.default_rng(20261123)
    found: list[tuple[object, ...]] = []
    for household in range(HOUSEHOLDS):
        region = rng.choice(["north", "south", "east", "west"], p=[0.4, 0.3, 0.2, 0.1])
        rent = 50 * int(rng.integers(8, 40))
        size = int(rng.choice([1, 2, 3, 4, 5], p=[0.35, 0.32, 0.16, 0.13, 0.04]))
        for member in range(size):
            age = int(rng.integers(20, 86) if member < 2 else rng.integers(0, 20))
            sex, satisfied = rng.choice(["f", "m"]), int(rng.integers(1, 6))
            found.append((f"H{household:04}", f"P{len(found):05}", region, age, sex, rent, satisfied))
    return [found[at] for at in rng.permutation(len(found))]


def write(path: Path) -> None:
    """The survey as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows())


if __name__ == "__main__":
    write(Path(__file__).parent / "data" / "survey.csv")

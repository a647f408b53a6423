"""Write invented patients, their visits and prescriptions: the same files on every machine, no real person."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
PERSONS = 1_500
AGES = (0, 10, 20, 30, 40, 50, 60, 70, 80)
ILLNESSES = ("asthma", "back pain", "diabetes", "hypertension", "none")
WARDS = ("surgery", "internal medicine", "paediatrics", "maternity", "eyes")
SUBSTANCES = ("ibuprofen", "insulin", "metoprolol", "salbutamol", "vitamin D")


def patients(draw: random.Random) -> Iterator[Sequence[object]]:
    """Key, decade of age, sex, town and main illness."""
    for number in range(1, PERSONS + 1):
        town = draw.choices(("Almen", "Berg", "Corve"), weights=(5, 3, 2))[0]
        yield f"p{number:05}", draw.choice(AGES), draw.choice("fm"), town, draw.choice(ILLNESSES)


def visits(draw: random.Random) -> Iterator[Sequence[object]]:
    """Key, patient, ward and month; a few patients come often."""
    number = 0
    for patient in range(1, PERSONS + 1):
        for _ in range(draw.choices((0, 1, 2, 3, 12), weights=(30, 40, 20, 9, 1))[0]):
            number += 1
            yield f"v{number:06}", f"p{patient:05}", draw.choice(WARDS), draw.randint(1, 4)


def drugs(draw: random.Random, rows: Sequence[Sequence[object]]) -> Iterator[Sequence[object]]:
    """Visit and substance, up to two per visit."""
    for visit in rows:
        for _ in range(draw.choices((0, 1, 2), weights=(50, 40, 10))[0]):
            yield visit[0], draw.choice(SUBSTANCES)


def write(name: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One CSV file."""
    with (DATA / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def main() -> None:
    draw = random.Random(20260701)
    DATA.mkdir(exist_ok=True)
    write("patients", ("patient", "age", "sex", "town", "illness"), list(patients(draw)))
    rows = list(visits(draw))
    write("visits", ("visit", "patient", "ward", "quarter"), rows)
    write("drugs", ("visit", "substance"), list(drugs(draw, rows)))


if __name__ == "__main__":
    main()

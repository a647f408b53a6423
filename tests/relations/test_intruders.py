"""Intruders: from published files alone, and what they know of someone, they look for that person.

They join by the pseudonyms that are published, in plain Python. Whatever they know is true of no one, or of at least k.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import NoSolutionError, Refused
from tests.tiers import deep

KEY, VARIABLE = "5f0e2d4c6b8a79685746352413021f0e5f0e2d4c6b8a79685746352413021f0e", "PRIVPIPE_KEY_OF_INTRUDERS"
Rows = list[dict[str, Any]]
Pick = Counter[tuple[Any, ...]]
SHOWN = {"patients": ("town", "age"), "visits": ("ward", "day"), "drugs": ("shop",)}
KINDS = {
    "patients": {"patient": pa.int64(), "town": pa.string(), "age": pa.int64(), "illness": pa.string()},
    "visits": {"visit": pa.int64(), "patient": pa.int64(), "ward": pa.string(), "day": pa.int64()},
    "drugs": {"patient": pa.int64(), "visit": pa.int64(), "shop": pa.string()},
}


@dataclass(frozen=True)
class Trial:
    """Random tables, and what is asked of their release."""

    tables: Mapping[str, Rows]
    k: int
    alpha: float
    knows: Mapping[str, int | str]
    counted: bool
    nested: bool
    banded: bool
    stages: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, seed: int) -> Trial:
        draw = random.Random(seed)
        persons = draw.sample(range(1000), draw.randint(40, 80))
        patients = [
            {
                "patient": who,
                "town": draw.choice(["a", "a", "a", "b", "b", None]),
                "age": draw.choice([25, 30, 30]),
                "illness": draw.choice("xyz"),
            }
            for who in persons
        ]
        visits = [
            {
                "visit": at,
                "patient": draw.choice(persons),
                "ward": draw.choice(["p", "p", "q", None]),
                "day": draw.randint(1, 2),
            }
            for at in range(draw.randint(1, 3) * len(persons))
        ]
        drugs = []
        for _ in range(len(persons)):
            visit = draw.choice(visits)
            drugs.append({"patient": visit["patient"], "visit": visit["visit"], "shop": draw.choice("sst")})
        visited: list[int | str] = [0, 1, 1, 2, 2, 3, "all"]
        bought: list[int | str] = [0, 1, 1, 2, "all"]
        stages: list[Mapping[str, Any]] = [{"suppress_persons": {"at_most": 1.0}}]
        if draw.random() < 0.7:
            stages.insert(0, {"cap_rows": {"table": "visits", "at_most": draw.randint(1, 3)}})
        least, share = draw.randint(2, 4), draw.choice([0.8, 1.0])
        knows = {"visits": draw.choice(visited), "drugs": draw.choice(bought)}
        if knows["visits"] == 1 and seed % 2:
            stages.insert(-1, {"suppress_rows": {"table": "visits", "at_most": 1.0}})
        return cls(
            tables={"patients": patients, "visits": visits, "drugs": drugs},
            k=least,
            alpha=share,
            knows=knows,
            counted=draw.random() < 0.2,
            nested=draw.random() < 0.5,
            banded=draw.random() < 0.5,
            stages=tuple(stages),
        )

    def publish(self, folder: Path, seed: int) -> Path:
        """The published folder.

        Raises
        ------
        Refused, DataError
            No one is left, or not enough.
        """
        for name, rows in self.tables.items():
            columns = {column: pa.array([row[column] for row in rows], kind) for column, kind in KINDS[name].items()}
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        roles: dict[str, dict[str, Any]] = {
            name: {column: {"role": "quasi_identifier" if column in SHOWN[name] else "identifier"} for column in kinds}
            for name, kinds in KINDS.items()
        }
        roles["patients"]["illness"] = {"role": "sensitive"}
        roles["patients"]["age"]["hierarchy"] = {"intervals": {"widths": [20], "start": 0}}
        roles["drugs"]["patient" if self.nested else "visit"] = {"role": "drop"}
        tables: dict[str, dict[str, Any]] = {
            name: {
                "source": {"path": f"{name}.parquet"},
                "columns": columns,
                "transform": [
                    pseudonyms(column, f"{column}s")
                    for column in ("patient", "visit")
                    if columns.get(column) == {"role": "identifier"}
                ],
            }
            for name, columns in roles.items()
        }
        tables["patients"]["key"], tables["visits"]["key"] = "patient", "visit"
        if self.banded:
            tables["patients"]["transform"].append({"generalize": {"levels": {"age": 1}}})
        parent = {"from": "drugs.visit", "to": "visits"} if self.nested else {"from": "drugs.patient", "to": "patients"}
        asked = {"knows": dict(self.knows), "row_counts": self.counted}
        document = {
            "version": 1,
            "name": "intruders",
            "tables": tables,
            "relations": [{"from": "visits.patient", "to": "patients"}, parent],
            "transform": list(self.stages),
            "guarantees": [
                {"joint_k_anonymity": {"k": self.k, **asked}},
                {"joint_alpha": {"column": "patients.illness", "alpha": self.alpha, **asked}},
            ],
            "sink": {"path": "published"},
            "seed": {"insecure": seed},
            "allow_insecure_seed": True,
        }
        pp.release(pp.Policy.from_dict(document, folder))
        return folder / "published"


def pseudonyms(column: str, domain: str) -> dict[str, Any]:
    return {"pseudonymise": {"columns": [column], "key": {"from_env": VARIABLE}, "domain": domain}}


def band(age: int) -> str:
    return f"{age // 20 * 20}-{age // 20 * 20 + 19}"


@dataclass(frozen=True)
class Person:
    """What is known, or published, of someone."""

    root: tuple[Any, ...]
    rows: Mapping[str, Pick]
    illness: str


def people(tables: Mapping[str, Rows], *, nested: bool, banded: bool = False) -> list[Person]:
    """Rows put together by their keys, ages in bands where they are published so."""
    owners = {row["visit"]: row["patient"] for row in tables["visits"]}
    rows: dict[Any, dict[str, Pick]] = defaultdict(lambda: {"visits": Counter(), "drugs": Counter()})
    for row in tables["visits"]:
        rows[row["patient"]]["visits"][row["ward"], row["day"]] += 1
    for row in tables["drugs"]:
        owner = owners[row["visit"]] if nested else row["patient"]
        rows[owner]["drugs"][row["shop"],] += 1
    return [
        Person((row["town"], band(row["age"]) if banded else row["age"]), rows[row["patient"]], row["illness"])
        for row in tables["patients"]
    ]


def picks(rows: Pick, most: int | str) -> list[Pick]:
    """All that may be known of these rows."""
    if most == "all":
        return [rows]
    found = {
        tuple(sorted(each, key=repr))
        for size in range(int(most) + 1)
        for each in itertools.combinations(rows.elements(), size)
    }
    return [Counter(each) for each in sorted(found, key=repr)]


def candidates(published: list[Person], person: Person, trial: Trial) -> Iterator[list[Person]]:
    """Those that fit, for everything that may be known of a person."""
    like = [each for each in published if each.root == person.root]
    if trial.counted:
        like = [each for each in like if all(each.rows[t].total() == person.rows[t].total() for t in person.rows)]
    names = ("visits", "drugs")
    for known in itertools.product(*(picks(person.rows[name], trial.knows[name]) for name in names)):
        yield [
            each
            for each in like
            if all(
                each.rows[name] == pick if trial.knows[name] == "all" else pick <= each.rows[name]
                for name, pick in zip(names, known, strict=True)
            )
        ]


@pytest.mark.parametrize(
    ("first", "sets"),
    [
        (0, 8),
        deep(8, 32),
        *(pytest.param(first, 40, marks=pytest.mark.rare) for first in range(40, 500, 40)),
    ],
)
def test_an_intruder_finds_no_one_or_at_least_k(
    first: int, sets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    published, found, alone = 0, 0, 0
    for seed in range(first, first + sets):
        trial = Trial.of(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        sources = people(trial.tables, nested=trial.nested, banded=trial.banded)
        alone += any(len(group) < trial.k for each in sources for group in candidates(sources, each, trial))
        try:
            place = trial.publish(folder, seed)
        except (Refused, NoSolutionError):
            continue
        published += 1
        files = {name: pq.read_table(place / name, partitioning=None).to_pylist() for name in SHOWN}
        released = people(files, nested=trial.nested)
        for person in (*released, *sources):
            for group in candidates(released, person, trial):
                assert not group or len(group) >= trial.k, seed
                assert not group or max(Counter(each.illness for each in group).values()) <= trial.alpha * len(group)
                found += bool(group)
    assert published > sets / 2
    assert found > 10 * published
    assert alone > sets / 2  # as they were, persons could be found

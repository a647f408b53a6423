"""Random releases through policies, attacked from their published files alone: no interval violates the rules."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import NoSolutionError, Refused
from tests.tables.attacker import Attacker, Labels, Published, Tree, read
from tests.tiers import deep_beyond

BATCH = 4
"""Releases of one test."""
NEAR = 1e-6
"""Ends of sums come from a program with rounded numbers."""
TREES: dict[str, Tree] = {
    "region": {"north": "Total", "south": "Total", "west": "Total"},
    "age": {"young": "Total", "old": "Total", "0-9": "young", "10-19": "young", "60+": "old", "40-59": "old"},
    "sex": {"f": "Total", "m": "Total"},
}
LEAVES = {name: sorted(set(tree) - set(tree.values())) for name, tree in TREES.items()}
COLUMNS = {
    "region": {"role": "quasi_identifier"},
    "age": {
        "role": "quasi_identifier",
        "hierarchy": {"rows": [[leaf, TREES["age"][leaf], "*"] for leaf in LEAVES["age"]]},
    },
    "sex": {"role": "quasi_identifier"},
    "value": {"role": "insensitive", "type": "integer"},
}


@dataclass(frozen=True)
class Release:
    """A policy, and the records that it is about."""

    records: pd.DataFrame
    tables: dict[str, dict[str, Any]]
    at_least: int
    stages: tuple[dict[str, Any], ...]
    format: str
    p: int | None = None
    differencing: bool = False

    def policy(self, folder: Path) -> dict[str, Any]:
        used = {name for table in self.tables.values() for name in (*table["by"], *table.get("only", {}))}
        asked: list[dict[str, Any]] = [{"minimum_frequency": {"at_least": self.at_least}}, {"table_audit": {}}]
        if self.p is not None:
            asked.insert(1, {"p_percent": {"at_least": self.p}})
            used.add("value")
        if self.differencing:
            asked.append({"differencing": {"at_least": self.at_least}})
        self.records.to_parquet(folder / "records.parquet")
        return {
            "version": 1,
            "columns": {**{name: COLUMNS[name] for name in COLUMNS if name in used}, "*": "drop"},
            "source": {"path": str(folder / "records.parquet")},
            "sink": {"path": str(folder / "out"), "format": self.format},
            "transform": [{"aggregate": {"tables": self.tables}}, *self.stages],
            "guarantees": asked,
        }

    def contributions(self, dims: tuple[str, ...], labels: Labels, only: dict[str, str]) -> dict[int, int]:
        """Value of each record of a cell."""
        inside = pd.Series(True, index=self.records.index)
        for name, label in {**dict(zip(dims, labels, strict=True)), **only}.items():
            inside &= self.records[name].map(lambda leaf, name=name, label=label: label in above(name, leaf))
        return dict(zip(self.records.index[inside].tolist(), self.records["value"][inside].tolist(), strict=True))


def above(name: str, label: str) -> set[str]:
    found = {label}
    while label in TREES[name]:
        label = TREES[name][label]
        found.add(label)
    return found


def release_of(seed: int, *, sums: bool = False) -> Release:
    draw = np.random.default_rng(seed)
    number = int(draw.integers(15, 120))
    records = pd.DataFrame(
        {
            name: draw.choice(leaves, number, p=draw.dirichlet(np.full(len(leaves), 1.5)))
            for name, leaves in LEAVES.items()
        }
    ).assign(value=np.exp(draw.normal(3, 1.2, number)).astype(int) + 1)
    names = [["region", "age"], ["region", "sex"], ["age", "sex"], ["region", "age", "sex"]]
    by = names[int(draw.integers(0, 4))]
    responses: list[Any] = [{"sum": "value", "name": "figure"}] if sums else ["count"]
    tables: dict[str, dict[str, Any]] = {"first": {"by": by, "responses": responses}}
    if draw.random() < 0.4:
        other = [name for name in ("region", "age", "sex") if name not in by]
        more: dict[str, Any] = {"by": names[int(draw.integers(0, 3))], "responses": responses}
        if other and draw.random() < 0.5:
            more = {"by": [by[0]], "responses": responses, "only": {other[0]: LEAVES[other[0]][0]}}
        tables["second"] = more
    stages: list[dict[str, Any]] = [{"suppress_table": {"zeros": bool(draw.random() < 0.3)}}]
    if not sums and draw.random() < 0.2:
        stages.append({"round_table": {"base": 3, "method": "nearest"}})
    form = "csv" if draw.random() < 0.5 else "parquet"
    n = int(draw.integers(2, 6))
    differencing = not sums and len(stages) == 1 and bool(draw.random() < 0.3)
    return Release(records, tables, n, tuple(stages), form, 15 if sums else None, differencing)


def published(release: Release, folder: Path, response: str) -> list[Published]:
    base = next((stage["round_table"]["base"] for stage in release.stages if "round_table" in stage), 1)
    return [
        Published(
            dims=tuple(table["by"]),
            figures=read(folder / f"{name}.{release.format}", table["by"], response),
            only=table.get("only", {}),
            base=base,
        )
        for name, table in release.tables.items()
    ]


def broken_counts(release: Release, attacker: Attacker) -> list[str]:
    """Every way in which published counts break the rule."""
    found = []
    size: dict[tuple[str, ...], int] = defaultdict(int)
    for row in release.records[list(attacker.dims)].itertuples(index=False):
        size[tuple(row)] += 1
    n = release.at_least
    for table, labels, population, figure in attacker.cells():
        true = sum(size[attacker.atoms[at]] for at in population)
        if figure is not None:
            low, high = table.interval(figure)
            if not low <= true <= high:
                found.append(f"{labels} is published as {figure}, and is {true}")
            if 0 < true < n:
                found.append(f"{labels} is published, of {true} records")
    for (_, labels), population in attacker.blanks().items():
        true = sum(size[attacker.atoms[at]] for at in population)
        if 0 < true < n:
            low, high = attacker.ends(population)
            if low > 1 or high < n - 1 or low == high:
                found.append(f"{labels} of {true} records is known to be {low} to {high}")
    follow = attacker.rests() | (attacker.differences() if release.differencing else {})
    found += [f"a population of {rest} follows" for rest in follow.values() if 0 < rest < n]
    return found


def broken_sums(release: Release, attacker: Attacker) -> list[str]:
    """Every way in which published sums break the rules, for readers with and without a contribution of their own."""
    assert release.p is not None
    found = []
    sensitive: dict[frozenset[int], tuple[dict[int, int], float]] = {}
    alone: dict[int, dict[frozenset[int], int]] = defaultdict(dict)
    for table, labels, population, figure in attacker.cells():
        values = release.contributions(table.dims, labels, dict(table.only))
        held = sorted(values.values(), reverse=True)
        rest = 100 * sum(held[2:]) - release.p * held[0] if held else 0
        unsafe = bool(held) and (len(held) < release.at_least or rest < 0)
        if figure is None:
            if unsafe:
                sensitive[population] = (values, max(-rest / 100, 0))
            if len(values) == 1:
                alone[next(iter(values))][population] = held[0]
        elif unsafe or figure != sum(held):
            found.append(f"{labels} is published")
    for population, (values, level) in sensitive.items():
        true, (low, high) = sum(values.values()), attacker.ends(population)
        if high < true + level - NEAR or low > true - min(level, true) + NEAR or high - low < NEAR:
            found.append(f"a cell of {len(values)} records is known too closely")
    for record, known in alone.items():
        insider = replace(attacker, known=known)
        for population, (values, _) in sensitive.items():
            low, high = insider.ends(population)
            if set(values) != {record} and high - low < NEAR:
                found.append(f"a cell of {len(values)} records is known to who is alone in another")
    return found


@pytest.mark.parametrize("batch", deep_beyond(1, range(40), then_rare=6))
def test_no_count_of_a_random_release_is_known_too_closely(batch: int) -> None:
    done = 0
    for seed in range(BATCH * batch, BATCH * (batch + 1)):
        release = release_of(seed)
        with tempfile.TemporaryDirectory() as place:
            try:
                pp.release(release.policy(Path(place)))
            except (NoSolutionError, Refused):
                continue
            tables = published(release, Path(place) / "out", "count")
        done += 1
        assert not broken_counts(release, Attacker(tables, TREES)), seed
    assert done or batch


@pytest.mark.parametrize("batch", deep_beyond(1, range(20), then_rare=2))
def test_no_sum_of_a_random_release_is_known_too_closely(batch: int) -> None:
    done = 0
    for seed in range(BATCH * batch, BATCH * (batch + 1)):
        release = release_of(seed, sums=True)
        with tempfile.TemporaryDirectory() as place:
            try:
                pp.release(release.policy(Path(place)))
            except (NoSolutionError, Refused):
                continue
            tables = published(release, Path(place) / "out", "figure")
        done += 1
        assert not broken_sums(release, Attacker(tables, TREES, whole=False)), seed
    assert done or batch


def test_the_attacker_finds_what_follows() -> None:
    """A blank next to its margins; the woman of the north among four blanks; a difference of two cells."""
    figures: dict[Labels, int | None] = {
        ("Total", "Total"): 13,
        ("Total", "f"): 5,
        ("Total", "m"): 8,
        ("north", "Total"): 6,
        ("north", "f"): None,
        ("north", "m"): 5,
        ("south", "Total"): 7,
        ("south", "f"): 4,
        ("south", "m"): 3,
    }
    attacker = Attacker([Published(("region", "sex"), figures)], TREES)
    [(cell, population)] = attacker.blanks().items()
    assert cell == (0, ("north", "f"))
    assert attacker.ends(population) == (1, 1)
    assert attacker.rests() == {population: 1}
    assert 1 in attacker.differences().values()
    four = {labels: None if "Total" not in labels else figure for labels, figure in figures.items()}
    hidden = Attacker([Published(("region", "sex"), four)], TREES)
    assert hidden.ends(population) == (0, 5)

"""AG_CS: levels and blanks together, no worse than any vector of levels repaired by itself."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import NoSolutionError, UnsupportedError
from privpipe.transforms import Generalize
from privpipe.transforms.recoding.labelling import LossSpec
from tests.tiers import deep_beyond

LEVELS = {"age": 4, "town": 3}
TOWNS = {"north": {"n": ["n1", "n2", "n3"]}, "south": {"s": ["s1", "s2"], "t": ["t1", "t2"]}}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(11)
    n = 120
    towns = rng.choice(["n1", "n2", "n3", "s1", "s2", "t1", "t2"], n, p=[0.4, 0.2, 0.05, 0.2, 0.1, 0.03, 0.02])
    return pa.table(
        {
            "age": pa.array(18 + (rng.gamma(2.0, 6.0, n)).astype(np.int64), mask=rng.random(n) < 0.03),
            "town": towns,
            "sex": rng.choice(["f", "m"], n, p=[0.9, 0.1]),
            "row": np.arange(n),
        }
    )


def policy(nulls: str, stage: dict[str, Any], k: int = 4) -> dict[str, Any]:
    return {
        "version": 1,
        "columns": {
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"start": 0, "widths": [5, 10, 20], "highest": 60}},
            },
            "town": {"role": "quasi_identifier", "hierarchy": {"tree": TOWNS}},
            "sex": {"role": "quasi_identifier"},
            "row": {"role": "insensitive"},
        },
        "nulls": nulls,
        "transform": [{"generalize": stage}],
        "guarantees": [{"k_anonymity": {"k": k}}],
        "seed": {"insecure": 3},
        "allow_insecure_seed": True,
    }


def like(rows: pa.Table, nulls: str) -> list[int]:
    cells = list(zip(*(rows[name].to_pylist() for name in ("age", "town", "sex")), strict=True))
    if nulls == "own_value":
        return [Counter(cells)[row] for row in cells]
    return [
        sum(all(x is None or y is None or x == y for x, y in zip(one, two, strict=True)) for two in cells)
        for one in cells
    ]


@pytest.mark.parametrize("nulls", ["own_value", "wildcard"])
def test_levels_and_blanks_meet_k_at_the_least_repaired_loss(people: pa.Table, nulls: str) -> None:
    asked = policy(nulls, {"approach": "AG_CS"})
    made = pp.plan(people, asked)
    detail = made.stages[0].detail
    assert (detail["approach"], detail["exhausted"]) == ("AG_CS", True)
    released = pp.transform(people, made)
    assert len(released) == len(people), "no record goes"
    assert min(like(released, nulls)) >= 4
    assert detail["failing_after"][nulls] == 0
    assert released["sex"].null_count == 0, "a column without a hierarchy stays and must match"
    # Every vector by itself, its blanks from the stage for cells: none repaired costs less.
    losses = {}
    for age in range(LEVELS["age"] + 1):
        for town in range(LEVELS["town"] + 1):
            alone = policy(nulls, {"levels": {"age": age, "town": town}})
            alone["transform"].append({"suppress_cells": {"columns": ["age", "town"]}})
            try:
                repaired = pp.plan(people, alone)
            except NoSolutionError:
                continue
            blanks = repaired.stages[1].detail["blanked_by_column"]
            losses[age, town] = (repaired.stages[0].detail["loss"], blanks)
    chosen = losses[detail["levels"]["age"], detail["levels"]["town"]]
    assert chosen[1] == detail["blanked_by_column"]
    assert detail["loss"] >= chosen[0]
    assert min(loss for loss, _ in losses.values()) - 1e-9 <= detail["lower_bound"] <= detail["loss"] + 1e-12
    assert detail["optimal"] == (detail["gap"] <= 1e-9)
    untouched = [loss for loss, blanks in losses.values() if not sum(blanks.values())]
    assert not untouched or detail["loss"] <= min(untouched) + 1e-9
    # The loss is that of the released cells.
    shares = cell_shares(released, detail["levels"], people)
    assert detail["loss"] == pytest.approx(shares, rel=1e-12)


def cell_shares(released: pa.Table, levels: dict[str, int], people: pa.Table) -> float:
    """cell_loss of the released table, cell by cell: D values seen for the intervals, the tree's leaves for towns."""
    parts = []
    for name in ("age", "town"):
        raw = people[name].to_pylist()
        domain: list[Any] = sorted({x for x in raw if x is not None}) if name == "age" else list("1234567")
        size = len(domain) + (None in raw)
        hierarchy = (
            pp.Policy.from_dict(policy("own_value", {}))
            .hierarchies[name]
            .build(
                [None if x is None else str(x) for x in dict.fromkeys(raw)],
                None,
                "integer" if name == "age" else "text",
            )
        )
        texts: list[str | None] = list(hierarchy.texts(levels[name]))
        if levels[name] < LEVELS[name] and hierarchy.null_code is not None:
            texts[hierarchy.null_code] = None
        share = dict(zip(texts, hierarchy.shares(levels[name]).tolist(), strict=True))
        before = dict(zip(people["row"].to_pylist(), raw, strict=True))
        total = 0.0
        for row, label in zip(released["row"].to_pylist(), released[name].to_pylist(), strict=True):
            missing_already = levels[name] < LEVELS[name] and before[row] is None
            total += share[None] if missing_already else 1.0 if label is None else share[str(label)]
        n = len(people)
        parts.append(max(0.0, (total - n / size) / (n - n / size)))
    return float(np.prod([1 + part for part in parts]) ** (1 / len(parts)) - 1)


@pytest.mark.parametrize("seed", deep_beyond(1, range(3)))
@pytest.mark.parametrize("nodes", [None, 2])
def test_no_levels_and_blanks_whatsoever_lose_less_than_the_bound(seed: int, nodes: int | None) -> None:
    """Against every vector of levels with every choice of blanks, on tables of six records."""
    rng = np.random.default_rng(seed)
    towns = rng.choice(["n1", "n2", "s1", "t1"], 6, p=[0.5, 0.2, 0.2, 0.1]).tolist()
    ages = rng.choice([20, 21, 26, 41], 6, p=[0.5, 0.2, 0.2, 0.1]).tolist()
    rows = pa.table({"age": pa.array(ages, pa.int64()), "town": towns, "sex": ["f"] * 6, "row": range(6)})
    budget = {} if nodes is None else {"budget": {"nodes": nodes}}
    made = pp.plan(rows, policy("own_value", {"approach": "AG_CS", **budget}, k=2)).stages[0].detail
    best = min(
        blanked_loss(rows, {"age": age, "town": town}) for age in range(LEVELS["age"]) for town in range(LEVELS["town"])
    )
    assert made["lower_bound"] <= best + 1e-9
    assert made["loss"] >= best - 1e-9
    assert not made["optimal"] or made["loss"] == pytest.approx(best)


def blanked_loss(rows: pa.Table, levels: dict[str, int]) -> float:
    """The least loss at a vector of levels over all blanks after which no record is alone."""
    alone = pp.plan(rows, policy("own_value", {"levels": levels}, k=1))
    released = pp.transform(rows, alone).sort_by("row")
    labels = [released[name].to_pylist() for name in ("age", "town")]
    size = {"age": len(set(rows["age"].to_pylist())), "town": 7}
    shares = []
    for at, name in enumerate(("age", "town")):
        raw = rows[name].to_pylist()
        wide = {
            label: len({value for value, own in zip(raw, labels[at], strict=True) if own == label}) / size[name]
            if name == "age"
            else town_leaves(str(label)) / 7
            for label in labels[at]
        }
        shares.append([wide[label] for label in labels[at]])
    least = float("inf")
    for blanks in itertools.product(range(4), repeat=len(rows)):
        cells = [tuple(None if mask >> at & 1 else labels[at][row] for at in (0, 1)) for row, mask in enumerate(blanks)]
        if min(Counter(cells).values()) < 2:
            continue
        parts = []
        for at, name in enumerate(("age", "town")):
            total = sum(1.0 if cell[at] is None else shares[at][row] for row, cell in enumerate(cells))
            n, d = len(rows), size[name]
            parts.append(0.0 if d == 1 else max(0.0, (total - n / d) / (n - n / d)))
        least = min(least, float(np.prod([1 + part for part in parts]) ** 0.5 - 1))
    return least


def town_leaves(label: str) -> int:
    """Leaves of the tree of towns below a label."""
    return {"n": 3, "north": 3, "s": 2, "t": 2, "south": 4, "*": 7}.get(label, 1)


def test_the_same_on_every_engine(engine: Engine, people: pa.Table) -> None:
    asked = policy("own_value", {"approach": "AG_CS"})
    wanted = pp.plan(people, asked)
    found = pp.plan(people.take(np.random.default_rng(0).permutation(len(people))), asked, engine=engine)
    assert found.stages == wanted.stages


def test_what_it_does_not_serve(people: pa.Table) -> None:
    with pytest.raises(UnsupportedError, match="minimises the loss of cells"):
        pp.plan(people, policy("own_value", {"approach": "AG_CS", "loss": {"name": "precision"}}))
    with pytest.raises(NoSolutionError, match="at none of"):
        pp.plan(people, policy("own_value", {"approach": "AG_CS"}, k=121))
    assert Generalize(approach="AG_CS", loss=LossSpec(gs_factor=0.25)).is_search

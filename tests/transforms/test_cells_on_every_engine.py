"""Labels cell by cell: one plan and one table on every engine, under any partitioning and row order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from privpipe.engines import Engine
from privpipe.models import AverageRisk, DistinctLDiversity, KAnonymity, TCloseness
from privpipe.roles import Roles
from privpipe.running.plan import canonical_json
from privpipe.transforms import LocalRecoding, Mondrian
from privpipe.transforms.base import Transformer
from privpipe.transforms.mondrian.cut_tree import CutTree
from tests.tiers import on_engines

ROLES = Roles(
    quasi_identifiers=["age", "town", "income", "rent", "admitted"],
    sensitive=["illness"],
    insensitive=["name", "seen"],
)
HIERARCHIES = {
    "age": {"intervals": {"start": 0, "widths": [5, 10, 20, 40]}},
    "town": {"priority": {"levels": 2, "order": "frequency"}},
}
MODELS = [KAnonymity(k=4), DistinctLDiversity(column="illness", l=2), TCloseness(column="illness", t=0.5)]
FEW = Roles(
    quasi_identifiers=["age", "town"],
    sensitive=["illness"],
    insensitive=["name", "income", "rent", "admitted", "seen"],
)
JUDGED: dict[str, Any] = {"hierarchies": HIERARCHIES, "base": ["illness"], "roles": ROLES}
ALL = ("age", "town", "income", "rent", "admitted")
STAGES: dict[str, tuple[Transformer, dict[str, Any]]] = {
    "by values": (Mondrian(columns=ALL), {**JUDGED, "guarantees": MODELS}),
    "by loss": (Mondrian(columns=ALL, score="loss", labels="values"), {**JUDGED, "guarantees": [KAnonymity(k=4)]}),
    "relaxed": (Mondrian(columns=ALL, mode="relaxed"), {**JUDGED, "guarantees": MODELS}),
    "relaxed, a column stays": (Mondrian(mode="relaxed"), {**JUDGED, "roles": FEW, "guarantees": [KAnonymity(k=3)]}),
    "a column stays": (Mondrian(k=3), {**JUDGED, "roles": FEW, "guarantees": [AverageRisk(at_most=0.1)]}),
    "sweep": (LocalRecoding(), {**JUDGED, "roles": FEW, "guarantees": MODELS[:2]}),
    "clusters": (
        LocalRecoding(method="search", steps=1, block=20),
        {**JUDGED, "roles": FEW, "guarantees": MODELS[:2]},
    ),
    "judged sweep": (LocalRecoding(suppress_at_most=0.2), {**JUDGED, "roles": FEW, "guarantees": MODELS}),
    "merged rest": (
        LocalRecoding(rest="merge", share=0.3, suppress_at_most=0.2),
        {**JUDGED, "roles": FEW, "guarantees": MODELS[:2]},
    ),
    "judged merged rest": (LocalRecoding(rest="merge"), {**JUDGED, "roles": FEW, "guarantees": MODELS}),
}

ON_SPARK = ("by values", "relaxed", "sweep", "clusters", "judged sweep", "merged rest")
"""Functions that travel; the others differ on the driver alone."""


def multiset(rows: pa.Table) -> Counter[Any]:
    return Counter(tuple(map(repr, row.values())) for row in rows.to_pylist())


@on_engines("dask")
def test_the_same_records_everywhere(engine: Engine, run_on: Any, embedded: Engine, people: pa.Table) -> None:
    for name, (stage, options) in STAGES.items():
        if engine.name == "spark" and name not in ON_SPARK:
            continue
        wanted = run_on(embedded, stage, people, **options)
        found = run_on(engine, stage, people, parts=3, shuffled=True, **options)
        assert canonical_json(found.plan.detail) == canonical_json(wanted.plan.detail)
        assert found.rows.schema.equals(wanted.rows.schema)
        assert multiset(found.rows) == multiset(wanted.rows)
        said = set(leaves(found.plan.detail))
        cells = {cell for column in people.columns for cell in column.to_pylist() if isinstance(cell, str | float)}
        assert not said & {cell for cell in cells if cell and cell == cell}


def leaves(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return [leaf for value in document.values() for leaf in leaves(value)]
    if isinstance(document, list | tuple):
        return [leaf for value in document for leaf in leaves(value)]
    return [document]


def test_untouched_columns_stay(run: Any, people: pa.Table) -> None:
    found = run(*STAGES["by values"][:1], people, **STAGES["by values"][1])
    others = ["name", "illness", "seen"]
    assert multiset(found.rows.select(others)) == multiset(people.select(others))
    tree = CutTree.unpacked(found.plan.detail["tree"])
    assert tree.leaves == found.plan.detail["tree"]["leaves"] > 3
    assert not tree.is_relaxed

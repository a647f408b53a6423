"""Related tables for tests: reference cases, random ones, and tables of an engine."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import Tree
from tests.relations.people_by_definition import People

FILE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "relations.json"
ABSENT = "reference figures (../shared/reference) are not next to the project"
COLUMNS: Mapping[str, Mapping[str, pa.DataType]] = {
    "patients": {"id": pa.int64(), "town": pa.string(), "sex": pa.string(), "illness": pa.string()},
    "visits": {"id": pa.int64(), "ward": pa.string(), "day": pa.int64()},
    "drugs": {"id": pa.int64(), "shop": pa.string(), "drug": pa.string()},
}
QUASI_IDENTIFIERS = {"patients": ["town", "sex"], "visits": ["ward", "day"], "drugs": ["shop"]}


def cases() -> Any:
    """A parameter for each reference case; without the figures one that is skipped by name."""
    if not FILE.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT), id="absent")]
    return [pytest.param(case, id=case["name"]) for case in json.loads(FILE.read_text())["cases"]]


def rare_beyond(usual: int, found: Any) -> Any:
    """The cases, those beyond the first few for the rarest tier."""
    more = [pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.rare]) for case in found[usual:]]
    return [*found[:usual], *more]


def related(
    engine: Engine,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    quasi_identifiers: Mapping[str, Sequence[str]] = QUASI_IDENTIFIERS,
    **options: Any,
) -> RelatedTables:
    """Tables that all lead to the first by `id`."""
    handles = {name: loaded(engine, name, rows) for name, rows in tables.items()}
    root, *children = tables
    relations = [{"from": f"{name}.id", "to": root} for name in children]
    names = {name: columns for name, columns in quasi_identifiers.items() if name in tables}
    tree = Tree.of(handles, relations, {root: "id"}, names)
    return RelatedTables(engine, tree, handles, **options)


def loaded(engine: Engine, name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows of a table as the engine has them."""
    columns = {column: pa.array([row[column] for row in rows], kind) for column, kind in COLUMNS[name].items()}
    return engine.scan(Source(data=pa.table(columns)))


def random_set(seed: int, persons: int = 9) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int | str], bool]:
    """Tables with ties, missing cells and persons without rows; what is known of them, and whether rows are counted."""
    draw = random.Random(seed)
    many = draw.randint(2, persons)
    ids = draw.sample(range(100), many)
    patients = [
        {"id": who, "town": draw.choice(["a", "b", None]), "sex": draw.choice("mf"), "illness": draw.choice("xyz")}
        for who in ids
    ]
    visits = [
        {"id": draw.choice(ids), "ward": draw.choice(["x", "y", None]), "day": draw.randint(1, 2)}
        for _ in range(draw.randint(0, 2 * many))
    ]
    drugs = [
        {"id": draw.choice(ids), "shop": draw.choice("st"), "drug": draw.choice(["q", "r", None])}
        for _ in range(draw.randint(0, many))
    ]
    knows: dict[str, int | str] = {
        "visits": draw.choice([0, 1, 2, 3, "all"]),
        "drugs": draw.choice([0, 1, 2, "all"]),
    }
    return {"patients": patients, "visits": visits, "drugs": drugs}, knows, draw.random() < 0.3


def people_of(tables: Mapping[str, Any], knows: Mapping[str, int | str], counted: bool = False) -> People:
    """The same tables for the definition."""
    children = {name: rows for name, rows in tables.items() if name != "patients"}
    names = {**QUASI_IDENTIFIERS, "": QUASI_IDENTIFIERS["patients"]}
    return People(tables["patients"], children, "id", names, knows, counted)


def rows_left(engine: Engine, table: Any) -> list[str]:
    """Rows of a table of the engine, in no order."""
    return sorted(map(repr, engine.collect(table).to_pylist()))

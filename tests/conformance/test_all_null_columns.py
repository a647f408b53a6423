"""A column without a value: every entry and every stage gives an answer or names the column, the same on engines."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import EngineError, PrivpipeError
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.testing import people
from privpipe.transforms import CATALOGUE as TRANSFORMS

PEOPLE = people(24)
KEYS = ["age", "zip", "town", "sex"]
ROLES = pp.Roles(
    quasi_identifiers=KEYS,
    sensitive=["illness"],
    identifiers=["name"],
    insensitive=["household", "income", "born", "weight"],
)
HIERARCHIES = {name: given["hierarchy"] for name, given in PEOPLE.columns.items() if "hierarchy" in given}
BESIDE: dict[str, Any] = {"original": PEOPLE.rows, "align": "position"}
SEED = "8f1c2b7a93e04d56b7a1c9d2e3f40516"
COLUMNS = ("age", "zip", "illness", "income", "born", "weight", "household", "name")
ENTRIES = {
    **{f"models.{name}": MODELS[name] for name in MODELS},
    **{f"measures.{name}": MEASURES[name] for name in MEASURES},
}


def without_values(column: str, *, typed: bool) -> pa.Table:
    place = PEOPLE.rows.schema.get_field_index(column)
    kind = PEOPLE.rows.schema.field(column).type if typed else pa.null()
    return PEOPLE.rows.set_column(place, pa.field(column, kind), pa.nulls(len(PEOPLE.rows), kind))


def judged(name: str, table: pa.Table, engine: str) -> str:
    entry = ENTRIES[name].examples()[-1]
    beside = BESIDE if name.startswith("measures") else {}
    options = {"quasi_identifiers": KEYS, "sensitive": ["illness"], "seed": SEED, "engine": engine, **beside}
    try:
        verdict = entry.assess(table, **options)
    except PrivpipeError as error:
        return said(error)
    return f"{verdict.outcome} {verdict.observed!r} {verdict.reason}"


def applied(name: str, table: pa.Table, engine: str) -> str:
    stage = TRANSFORMS[name].examples()[0]
    try:
        out = stage.apply(table, roles=ROLES, hierarchies=HIERARCHIES, seed=SEED, engine=engine)
    except PrivpipeError as error:
        return said(error)
    return f"{out.num_rows} {out.column_names}"


def said(error: PrivpipeError) -> str:
    assert not isinstance(error, EngineError), f"{type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}"


@functools.cache
def with_values(case: str, engine: str) -> str:
    return (judged if case in ENTRIES else applied)(case, PEOPLE.rows, engine)


def problem(case: str, column: str, typed: bool, engines: tuple[str, ...]) -> str:
    """What is wrong with the answers, if anything; what the case says of any table is not about the column."""
    found = []
    for engine in engines:
        try:
            found.append((judged if case in ENTRIES else applied)(case, without_values(column, typed=typed), engine))
        except AssertionError as error:
            return f"{case} on {engine}: {column}: {error}"
        if "DataError" in found[-1] and column not in found[-1] and found[-1] != with_values(case, engine):
            return f"{case} on {engine}: {column} is not named: {found[-1]}"
    return "" if len(set(found)) == 1 else f"{case}: {column}: engines differ: {found}"


@pytest.mark.parametrize("column", ["age", "illness", "income"])
def test_a_column_without_values_has_an_answer(column: str) -> None:
    cases = [
        "models.k_anonymity",
        "models.t_closeness",
        "measures.prosecutor_risk",
        "top_code",
        "generalize",
        "microaggregate",
    ]
    known = {*ENTRIES, *TRANSFORMS}
    wrong = [
        problem(case, column, typed, ("embedded", "dask")) for case in cases if case in known for typed in (True, False)
    ]
    assert not any(wrong), list(filter(None, wrong))


@pytest.mark.rare
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("typed", [True, False], ids=["typed", "of no type"])
def test_every_entry_and_stage_has_an_answer(column: str, typed: bool) -> None:
    wrong = [problem(case, column, typed, ("embedded", "dask")) for case in (*ENTRIES, *TRANSFORMS)]
    assert not any(wrong), list(filter(None, wrong))

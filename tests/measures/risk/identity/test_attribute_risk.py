"""Attribute risk agrees with ARX to the last digit, and with the definition on every engine and hostile table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import PolicyError, UsageError
from privpipe.judging import assess
from privpipe.kernels.classes.coded_classes import projected_sizes
from privpipe.measures import AttributeRisk
from privpipe.measures.risk.identity.attribute_risk import set_name
from privpipe.policy import Policy
from privpipe.roles import Roles
from privpipe.testing import HostileTable
from tests.gathering import gathered
from tests.hostile_kinds import on_every_engine

EXACT = {"rel": 1e-15, "abs": 0}


def reported(engine: Engine, frame: Any, measure: AttributeRisk, roles: Roles) -> dict[str, dict[str, float]]:
    handle = engine.scan(Source(data=frame))
    found: dict[str, dict[str, float]] = (
        assess(engine, handle, guarantees=[], measures=[measure], roles=roles).measures[0].observed
    )
    return found


def check(verdict: Verdict, table: HostileTable, by_definition: Any) -> None:
    measure: Any = verdict.entry
    columns = measure.columns or tuple(table.roles.quasi_identifiers)
    if by_definition(table, columns)[0] < 0:
        assert verdict.observed is None
        return
    left = dict(verdict.observed)
    for places in measure.column_sets(columns):
        names = [columns[at] for at in places]
        share, apart = by_definition(table, names)
        figures = left.pop(set_name(names))
        assert figures["distinction"] == pytest.approx(float(share), **EXACT)
        assert figures["separation"] == (None if apart is None else pytest.approx(float(apart), **EXACT))
    assert left == {}


@on_every_engine
@pytest.mark.parametrize("measure", AttributeRisk.examples(), ids=repr)
def test_every_engine_gives_the_defined_figures(
    engine: Engine, tables: Sequence[HostileTable], measure: AttributeRisk, by_definition: Any, judged_by: Any
) -> None:
    with gathered() as case:
        for table in tables:
            with case(table):
                check(judged_by(engine, table, measure), table, by_definition)


def test_the_small_table_of_arx(engine: Engine, shared: Path) -> None:
    """Source: reference/arx.json, attribute_risk."""
    reference = json.loads((shared / "reference" / "arx.json").read_text())["attribute_risk"]
    names = reference["columns"]
    frame = pa.table({name: [row[at] for row in reference["rows"]] for at, name in enumerate(names)})
    found = reported(engine, frame, AttributeRisk(), Roles(quasi_identifiers=names))
    for columns, (distinction, separation) in reference["distinction_separation"].items():
        assert found[columns] == {"distinction": distinction, "separation": separation}
    assert len(found) == 7


def test_adult_agrees_with_arx(engine: Engine, shared: Path) -> None:
    """Source: reference/arx.json, adult_attribute_risk_1_and_2: every set of one or two columns that it lists."""
    import pyarrow.csv as pc

    reference = json.loads((shared / "reference" / "arx.json").read_text())["adult_attribute_risk_1_and_2"]
    frame = pc.read_csv(
        shared / "data" / "adult" / "adult.csv",
        parse_options=pc.ParseOptions(delimiter=";"),
        convert_options=pc.ConvertOptions(column_types={"age": pa.string()}),
    )
    names = sorted(frame.schema.names)
    found = reported(engine, frame, AttributeRisk(max_dim=2), Roles(quasi_identifiers=names))
    by_set = {frozenset(name.split("+")): figures for name, figures in found.items()}
    for columns, figures in reference.items():
        assert by_set[frozenset(columns.split("+"))] == pytest.approx(figures, **EXACT)
    assert len(found) == len(names) + len(list(combinations(names, 2)))


def test_sizes_of_sets_are_taken_whole() -> None:
    names = tuple("abcdef")
    assert len(list(AttributeRisk().column_sets(names))) == 6 + 15 + 20
    assert len(list(AttributeRisk(max_sets=40).column_sets(names))) == 6 + 15
    assert len(list(AttributeRisk(max_sets=41).column_sets(names))) == 6 + 15 + 20
    assert len(list(AttributeRisk(max_dim=99).column_sets(names))) == 2**6 - 1
    with pytest.raises(UsageError, match="max_sets"):
        list(AttributeRisk(max_sets=5).column_sets(names))


@settings(deadline=None)
@given(st.data())
def test_projections_are_the_counted_classes(data: st.DataObject) -> None:
    width = data.draw(st.integers(0, 4))
    code = st.one_of(st.integers(0, 3), st.integers(0, 4000))
    rows = data.draw(st.lists(st.tuples(*[code] * width, st.integers(1, 5)), max_size=30))
    table = np.array(rows, dtype=np.int64).reshape(-1, width + 1)
    expected: dict[tuple[int, ...], int] = {}
    for *key, count in table.tolist():
        expected[tuple(key)] = expected.get(tuple(key), 0) + count
    assert sorted(projected_sizes(table[:, :width], table[:, width]).tolist()) == sorted(expected.values())


def test_it_reports_and_never_judges() -> None:
    policy = {
        "version": 1,
        "columns": {"age": {"role": "quasi_identifier"}, "hours": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 2}}, {"separation": {"columns": ["hours"], "at_most": 0.9}}],
        "measures": [{"attribute_risk": {"columns": ["age", "hours"]}}],
    }
    assert Policy.from_dict(policy).measures[0].columns == ("age", "hours")  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="only reports"):
        Policy.from_dict(policy | {"guarantees": [{"attribute_risk": {}}]})


def test_the_set_that_tells_most_pairs_apart_is_named(embedded: Engine) -> None:
    frame = pa.table({"same": ["x"] * 4, "half": ["a", "a", "b", "b"], "own": [1, 2, 3, 4]})
    roles = Roles(quasi_identifiers=("same", "half", "own"))
    for columns, best in ((("same", "half"), "half"), (("half", "own"), "own"), (("same",), "same")):
        handle = embedded.scan(Source(data=frame))
        [found] = assess(
            embedded, handle, guarantees=[], measures=[AttributeRisk(columns=columns)], roles=roles
        ).measures
        assert found.reason.endswith(f"over 4 records; {best} distinguishes most pairs.")

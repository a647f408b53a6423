"""Generalization of related tables together: the least loss among all vectors, walks, limits and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Engine, open_engine
from privpipe.errors import NoSolutionError, UnsupportedError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.relations import JointAlpha, JointKAnonymity
from privpipe.relations.joint_generalization import GeneralizeJointly
from privpipe.relations.set_stages import RelatedSet
from privpipe.roles import Roles
from privpipe.transforms.base import StageContext
from tests.relations.people_by_definition import People
from tests.relations.related_cases import QUASI_IDENTIFIERS, people_of, random_set, related, rows_left
from tests.tiers import deep, deep_beyond

LABELS: dict[str, list[list[str]]] = {
    "town": [["a", "ab", "*"], ["b", "ab", "*"], ["n", "n", "*"]],
    "sex": [["m", "*"], ["f", "*"]],
    "ward": [["x", "xy", "*"], ["y", "xy", "*"], ["n", "n", "*"]],
    "day": [["1", "*"], ["2", "*"]],
    "shop": [["s", "*"], ["t", "*"]],
}
Tables = dict[str, list[dict[str, Any]]]


def whole_set(seed: int, persons: int = 8) -> tuple[Tables, dict[str, int | str]]:
    """A random set without missing cells, and what is known of it."""
    tables, knows, _ = random_set(seed, persons)
    for rows in tables.values():
        for row in rows:
            row.update({name: "n" for name in ("town", "ward") if row.get(name, "") is None})
    return tables, knows


def set_of(engine: Engine, tables: Tables, *guarantees: Any) -> RelatedSet:
    found = related(engine, tables)
    contexts = {
        name: StageContext(
            roles=Roles(quasi_identifiers=QUASI_IDENTIFIERS[name]),
            schema=found.tables[name].schema,
            hierarchies={
                column: HierarchySpec.from_mapping({"rows": LABELS[column]}, column=column)
                for column in QUASI_IDENTIFIERS[name]
            },
        )
        for name in tables
    }
    return RelatedSet(related=found, guarantees=guarantees, seed=Seed.insecure(1), contexts=contexts)


def recoded(tables: Tables, levels: dict[str, int]) -> Tables:
    """Every cell looked up in the rows of its hierarchy."""
    labels = {
        name: {row[0]: row[level] for row in LABELS[name.split(".")[1]]} if level else {}
        for name, level in levels.items()
    }
    return {
        table: [
            {
                column: labels[f"{table}.{column}"].get(str(value), value) if f"{table}.{column}" in labels else value
                for column, value in row.items()
            }
            for row in rows
        ]
        for table, rows in tables.items()
    }


def loss_of(tables: Tables, levels: dict[str, int], gone: set[int]) -> float:
    """Mean by cells of the tables' losses, each the geometric mean of its columns' by their definition."""
    total = cells = 0.0
    for table, rows in tables.items():
        own = [name for name in levels if name.startswith(f"{table}.")]
        losses = []
        for name in own:
            ladder, column = LABELS[name.split(".")[1]], name.split(".")[1]
            label = {row[0]: row[levels[name]] for row in ladder}
            share = {value: sum(each == mine for each in label.values()) / len(ladder) for value, mine in label.items()}
            cost = sum(1.0 if row["id"] in gone else share[str(row[column])] for row in rows)
            least = len(rows) / len(ladder)
            losses.append(max(0.0, (cost - least) / (len(rows) - least)) if rows else 0.0)
        if rows:
            total += (math.prod(1 + each for each in losses) ** (1 / len(losses)) - 1) * len(rows) * len(own)
            cells += len(rows) * len(own)
    return total / cells


def by_exhaustion(tables: Tables, knows: dict[str, int | str], k: int, allowed: int) -> dict[float, list[set[int]]]:
    """The loss and the persons that go of every vector of levels within the limit."""
    names = [f"{table}.{column}" for table, rows in tables.items() if rows for column in QUASI_IDENTIFIERS[table]]
    everybody = {row["id"] for row in tables["patients"]}
    found: dict[float, list[set[int]]] = {}
    for vector in itertools.product(*(range(len(LABELS[name.split(".")[1]][0])) for name in names)):
        levels = dict(zip(names, vector, strict=True))
        people: People = people_of(recoded(tables, levels), knows)
        gone = everybody - set(people.stable(k))
        if len(gone) <= allowed and gone != everybody:
            found.setdefault(round(loss_of(tables, levels, gone), 9), []).append(gone)
    return found


def compare_with_exhaustion(engine: Engine, seed: int) -> None:
    tables, knows = whole_set(seed)
    many = len(tables["patients"])
    for share in (0.0, 0.3):
        allowed = int(share * many + 1e-9)
        expected = by_exhaustion(tables, knows, 2, allowed)
        given = set_of(engine, tables, JointKAnonymity(k=2, knows=knows))
        for search in ("optimal", "bottom_up"):
            stage = GeneralizeJointly(search=search, suppress_at_most=share)
            if not expected:
                with pytest.raises(NoSolutionError, match="persons suppressed; at the coarsest levels"):
                    stage.run(given)
                continue
            after = stage.run(given)
            done = after.steps[0]
            if search == "optimal":
                assert done["loss"] == pytest.approx(min(expected), abs=1e-8), (seed, share)
            assert round(done["loss"], 9) in {round(loss, 9) for loss in expected}, (seed, share, search)
            rows = recoded(tables, done["levels"])
            left = set(people_of(rows, knows).stable(2))
            assert done["suppressed_persons"] == many - len(left) <= allowed
            for name in tables:
                stays = sorted(repr({**row}) for row in rows[name] if row["id"] in left)
                assert rows_left(engine, after.related.tables[name]) == stays, (seed, name)
            assert JointKAnonymity(k=2, knows=knows).judge(after.related).passed


@pytest.mark.parametrize(("name", "seeds"), [("embedded", (3,)), deep("dask", (3,)), deep("embedded", (4, 5))])
def test_no_vector_loses_less(name: Any, seeds: tuple[int, ...]) -> None:
    with open_engine(name, {}) as engine:
        for seed in seeds:
            compare_with_exhaustion(engine, seed)


@pytest.mark.parametrize("first", deep_beyond(0, range(100, 200, 10), then_rare=0))
def test_no_vector_loses_less_in_many_sets(first: int) -> None:
    with open_engine("embedded", {}) as engine:
        for seed in range(first, first + 10):
            compare_with_exhaustion(engine, seed)


SMALL: Tables = {
    "patients": [{"id": at, "town": "ab"[at % 2], "sex": "m", "illness": "xy"[at // 2]} for at in range(4)],
    "visits": [{"id": at, "ward": "x" if at < 3 else "y", "day": 1} for at in range(4)],
}


def test_missing_cells_stay_missing(engine: Engine) -> None:
    rows = [{**row, "town": None if row["id"] > 1 else row["town"]} for row in SMALL["patients"]]
    tables = {"patients": rows, "visits": [{**row, "ward": None} for row in SMALL["visits"]]}
    after = GeneralizeJointly().run(set_of(engine, tables, JointKAnonymity(k=2)))
    levels = after.steps[0]["levels"]
    assert levels == {"patients.town": 1, "patients.sex": 0, "visits.ward": 0, "visits.day": 0}
    for name, expected in recoded(tables, levels).items():
        assert rows_left(engine, after.related.tables[name]) == sorted(map(repr, expected))
    assert [row["town"] for row in recoded(tables, levels)["patients"]] == ["ab", "ab", None, None]


def test_guarantees_of_values_are_worked_for() -> None:
    models = JointKAnonymity(k=2), JointAlpha(column="patients.illness", alpha=0.5)
    with open_engine("embedded", {}) as engine:
        after = GeneralizeJointly().run(set_of(engine, SMALL, *models))
        assert all(model.judge(after.related).passed for model in models)
    assert after.steps[0]["levels"] == {
        "patients.town": 0,
        "patients.sex": 0,
        "visits.ward": 1,
        "visits.day": 0,
    }


@pytest.mark.parametrize("search", ["optimal", "bottom_up"])
def test_what_cannot_be_had(search: Any) -> None:
    with open_engine("embedded", {}) as engine:
        with pytest.raises(NoSolutionError, match=r"with at most 0 of 4 persons .* levels 4 would have to go"):
            GeneralizeJointly(search=search).run(set_of(engine, SMALL, JointKAnonymity(k=5)))
        with pytest.raises(UsageError, match="no joint guarantee decides who is removed"):
            GeneralizeJointly(search=search).run(set_of(engine, SMALL))
        with pytest.raises(UsageError, match="no table has a quasi-identifier with a `hierarchy:`"):
            found = related(engine, SMALL)
            GeneralizeJointly(search=search).run(
                RelatedSet(related=found, guarantees=[JointKAnonymity(k=2)], seed=Seed.insecure(1))
            )


def test_values_that_a_hierarchy_lacks() -> None:
    with open_engine("embedded", {}) as engine:
        given = set_of(engine, SMALL, JointKAnonymity(k=2))
        rows = {"rows": [["x", "*"]], "unknown": "suppress"}
        given.contexts["visits"].hierarchies["ward"] = HierarchySpec.from_mapping(rows, column="ward")  # type: ignore[index]
        with pytest.raises(UnsupportedError, match=r"1 records of 'visits' have a value in 'ward' that its hierarchy"):
            GeneralizeJointly().run(given)


def test_a_policy_generalizes_its_tables_together(tmp_path: Path) -> None:
    patients = pa.table({"patient": range(40), "age": [20 + at % 4 for at in range(40)], "sex": list("mf") * 20})
    visits = pa.table({"patient": range(40), "ward": ["a", "b", "c", "c"] * 10})
    for name, table in (("patients", patients), ("visits", visits)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    ages = {"intervals": {"widths": [2, 4], "start": 0}}
    wards = {"rows": [["a", "ab", "*"], ["b", "ab", "*"], ["c", "c", "*"]]}
    key = {"patient": {"role": "identifier"}}
    columns = {"age": ages, "sex": {"rows": [["m", "*"], ["f", "*"]]}}
    policy = pp.Policy.from_dict(
        {
            "version": 1,
            "tables": {
                "patients": {
                    "source": {"path": "patients.parquet"},
                    "key": "patient",
                    "columns": {
                        **key,
                        **{name: {"role": "quasi_identifier", "hierarchy": each} for name, each in columns.items()},
                    },
                    "transform": [{"generalize": {"levels": {"sex": 1}}}],
                    "guarantees": [{"k_anonymity": {"k": 20}}],
                },
                "visits": {
                    "source": {"path": "visits.parquet"},
                    "columns": {**key, "ward": {"role": "quasi_identifier", "hierarchy": wards}},
                },
            },
            "relations": [{"from": "visits.patient", "to": "patients"}],
            "transform": [{"generalize_jointly": {"suppress_at_most": 0.1}}],
            "guarantees": [{"joint_k_anonymity": {"k": 20}}],
            "sink": {"path": "published"},
            "seed": {"insecure": 7},
            "allow_insecure_seed": True,
        },
        tmp_path,
    )
    result = pp.release(policy)
    assert result.assessment.passed
    assert set(pp.read_release(tmp_path / "published", table="visits")["ward"].to_pylist()) == {"ab", "c"}
    assert set(pp.read_release(tmp_path / "published", table="patients")["sex"].to_pylist()) == {"*"}
    plan = json.loads((tmp_path / "published" / "_privpipe" / "plan.json").read_text())
    assert plan["stages"][-1]["detail"] == {"levels": {"patients.age": 1, "visits.ward": 1}}

"""A kept plan whose parts do not fit each other is refused before a row is made by it: it may be from anywhere."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.kernels.synthesis.trees import packed, unpacked
from privpipe.running.plan import Plan, document_digest

N = 80
ROLES = {
    "sex": {"role": "quasi_identifier", "hierarchy": {"tree": {"*": ["f", "m"]}}},
    "age": {"role": "quasi_identifier"},
    "job": {"role": "insensitive"},
    "income": {"role": "insensitive"},
}
STAGES: dict[str, Any] = {
    "cart": {"synthesize": {"min_leaf": 5}},
    "cart next to columns": {"synthesize": {"columns": ["income", "job"], "given": ["sex", "age"], "min_leaf": 5}},
    "mondrian": {"mondrian": {"columns": ["sex", "age"]}},
    "microaggregate": {"microaggregate": {"columns": ["age", "income"], "k": 4}},
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], N)
    job = np.where(sex == "f", rng.choice(["x", "y"], N), rng.choice(["y", "z"], N))
    income = np.round(rng.lognormal(8, 1, N), 2)
    return pd.DataFrame({"sex": sex, "age": rng.integers(20, 60, N), "job": job, "income": income})


def policy(stage: str) -> pp.Policy:
    return pp.Policy.from_dict(
        {"version": 1, "columns": ROLES, "transform": [STAGES[stage]], "guarantees": [{"k_anonymity": {"k": 2}}]}
    )


def resealed(document: dict[str, Any]) -> str:
    """The plan with the checksum of what it holds, as whoever edits it would give it."""
    sealed = {name: value for name, value in document.items() if name != "checksum"}
    return json.dumps({**sealed, "checksum": document_digest(sealed)})


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield place, document
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*place, key))


def edited(document: Any, place: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    found = copy.deepcopy(document)
    around = found
    for key in place[:-1]:
        around = around[key]
    around[place[-1]] = change(around[place[-1]])
    return found


def shorter(text: str) -> str:
    return packed(unpacked(text)[:-1])


def longer(text: str) -> str:
    return packed(np.append(unpacked(text), 0))


def outside(text: str) -> str:
    numbers = unpacked(text).copy()
    numbers[-1] = 10**6
    return packed(numbers)


def bytes_less(text: str) -> str:
    return base64.b64encode(base64.b64decode(text)[:-1]).decode()


def bytes_far(text: str) -> str:
    return base64.b64encode(b"\x7e" * len(base64.b64decode(text))).decode()


def refused(people: pd.DataFrame, stage: str, engine: Engine, damaged: Any) -> bool:
    asked = policy(stage)
    try:
        pp.transform(people, Plan.from_json(resealed(damaged), asked), engine=engine)
    except (UsageError, DataError) as error:
        return "damaged" in str(error) or "make a new plan" in str(error)
    return False


@pytest.fixture(scope="module")
def plans(people: pd.DataFrame) -> dict[str, Any]:
    return {stage: pp.plan(people, policy(stage)).to_dict() for stage in STAGES}


@pytest.mark.parametrize("change", [shorter, longer])
def test_scores_of_another_length_are_refused(
    people: pd.DataFrame, plans: dict[str, Any], engine: Engine, change: Any
) -> None:
    held = [place for place, value in places(plans["cart"]) if "scores" in place and isinstance(value, str)]
    held = [place for place in held if len(place) > 3 and place[-1] == 1]
    assert held
    assert refused(people, "cart", engine, edited(plans["cart"], held[0], change))


ARRAYS = ("codes", "ends", "offsets", "left", "right", "feature")


@pytest.mark.parametrize("change", [shorter, longer, outside])
@pytest.mark.parametrize("name", [*ARRAYS, "threshold", "weights", "means"])
def test_arrays_of_a_tree_that_do_not_fit_are_refused(
    people: pd.DataFrame, plans: dict[str, Any], embedded: Engine, name: str, change: Any
) -> None:
    if change is outside and name not in ("codes", "offsets"):
        change = shorter  # a threshold or a weight may be any number; a leaf has no sides
    held = [place for place, value in places(plans["cart"]) if place and place[-1] == name and isinstance(value, str)]
    assert held
    assert refused(people, "cart", embedded, edited(plans["cart"], held[-1], change))


DAMAGE: dict[str, Callable[[Any], Any]] = {
    "an order that lacks a code": lambda model: edited(model, ("trees", _split(model), "orders", 0, 1), _less),
    "no tree of a column": lambda model: edited(model, ("trees",), lambda trees: dict(list(trees.items())[1:])),
    "a column twice": lambda model: edited(model, ("order",), lambda order: [*order, order[0]]),
    "zeros of no code": lambda model: edited(model, ("zeros",), lambda _: {"job": {"sex": [[0, 99]]}}),
    "zeros of a negative code": lambda model: edited(model, ("zeros",), lambda _: {"job": {"sex": [[-1, 0]]}}),
    "zeros of a column that is none": lambda model: edited(model, ("zeros",), lambda _: {"job": {"no": [[0, 0]]}}),
    "a rule of no code": lambda model: edited(
        model, ("rules",), lambda _: [{"when": {"sex": [99]}, "then": {"job": [0]}}]
    ),
    "a label less": lambda model: edited(model, ("codebooks", "job", "labels"), _less),
    "a label twice": lambda model: edited(model, ("codebooks", "job", "labels"), lambda each: [each[0]] * len(each)),
    "a label that is not text": lambda model: edited(model, ("codebooks", "job", "labels", 0), lambda _: None),
    "a mean less": lambda model: edited(model, ("codebooks", "income", "cells", "means"), _less),
    "a cell less": lambda model: edited(model, ("codebooks", "income", "cells", "points"), _less),
    "a point that is not a number": lambda model: edited(
        model, ("codebooks", "income", "cells", "points", 0), lambda _: [None]
    ),
    "a cell beyond the last": lambda model: edited(
        model, ("codebooks", "income", "cells", "start_cells"), lambda each: [10**6] * len(each)
    ),
    "a negative cell": lambda model: edited(
        model, ("codebooks", "income", "cells", "start_cells"), lambda each: [-1] * len(each)
    ),
    "an endless value": lambda model: edited(model, ("codebooks", "income", "cells", "starts", 0), lambda _: 10**400),
    "fewer than no records": lambda model: edited(model, ("records",), lambda _: -1),
    "half a record": lambda model: edited(model, ("records",), lambda _: 0.5),
    "no model": lambda model: None,
}


def _split(model: dict[str, Any]) -> str:
    """A column whose tree splits by another."""
    return next(name for name, tree in model["trees"].items() if tree["orders"])


def _less(items: list[Any]) -> list[Any]:
    return items[:-1]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("stage", ["cart", "cart next to columns"])
def test_a_model_of_trees_that_does_not_fit_is_refused(
    people: pd.DataFrame, plans: dict[str, Any], embedded: Engine, stage: str, damage: str
) -> None:
    place = ("stages", 0, "detail", "models", 0)
    assert refused(people, stage, embedded, edited(plans[stage], place, DAMAGE[damage]))


def test_a_plan_draws_every_column_that_the_policy_says(
    people: pd.DataFrame, plans: dict[str, Any], engine: Engine
) -> None:
    """One that a kept plan left out would be released unchanged in the source."""
    stage = "cart next to columns"
    model = edited(plans[stage], ("stages", 0, "detail", "columns"), lambda columns: columns[:1])
    assert refused(people, stage, engine, model)
    assert refused(people, stage, engine, edited(plans[stage], ("stages", 0, "detail", "given"), _less))


@pytest.mark.parametrize("change", [bytes_less, bytes_far, lambda _: ""])
@pytest.mark.parametrize("name", ["columns", "cuts", "lows", "highs"])
def test_a_tree_of_parts_that_is_none_is_refused(
    people: pd.DataFrame, plans: dict[str, Any], engine: Engine, name: str, change: Any
) -> None:
    place = ("stages", 0, "detail", "tree", name, "base64")
    assert refused(people, "mondrian", engine, edited(plans["mondrian"], place, change))


@pytest.mark.parametrize("leaves", [0, -1, 1, 10**9])
def test_a_tree_of_parts_has_the_leaves_it_says(
    people: pd.DataFrame, plans: dict[str, Any], embedded: Engine, leaves: int
) -> None:
    place = ("stages", 0, "detail", "tree", "leaves")
    assert refused(people, "mondrian", embedded, edited(plans["mondrian"], place, lambda _: leaves))


@pytest.mark.parametrize("damage", ["columns", "k", "list"])
def test_groups_are_of_the_columns_and_the_k_of_the_policy(
    people: pd.DataFrame, plans: dict[str, Any], engine: Engine, damage: str
) -> None:
    """A list of columns that a kept plan left out would be released unchanged in the source."""
    place = ("stages", 0, "detail", "groups")
    changed = {
        "columns": lambda groups: [{**groups[0], "columns": groups[0]["columns"][:1]}],
        "k": lambda groups: [{**groups[0], "k": 1}],
        "list": lambda groups: groups[1:],
    }
    assert refused(people, "microaggregate", engine, edited(plans["microaggregate"], place, changed[damage]))


@pytest.mark.parametrize("scale", [0, 0.0, -1.0, 10**400, None])
def test_no_scale_of_a_plan_leaves_a_number_unchanged(
    people: pd.DataFrame, plans: dict[str, Any], engine: Engine, scale: Any
) -> None:
    place = ("stages", 0, "detail", "groups", 0, "scale", 0, "income")
    assert refused(people, "microaggregate", engine, edited(plans["microaggregate"], place, lambda _: scale))


def test_a_number_that_was_constant_is_not_released_as_it_is_later(people: pd.DataFrame, embedded: Engine) -> None:
    asked = policy("microaggregate")
    plan = pp.plan(people.assign(income=7.5), asked)
    same = pp.transform(people.assign(income=7.5), plan, engine=embedded)
    assert set(same["income"]) == {7.5}
    with pytest.raises(DataError, match="'income' was constant"):
        pp.transform(people, plan, engine=embedded)


@pytest.mark.parametrize("stage", STAGES)
def test_a_plan_that_is_whole_is_applied(
    people: pd.DataFrame, plans: dict[str, Any], engine: Engine, stage: str
) -> None:
    assert not refused(people, stage, engine, plans[stage])

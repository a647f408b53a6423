"""Identifiers go, but for those that become pseudonyms or that the run itself needs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from privpipe.roles import Roles
from privpipe.transforms import DropIdentifiers
from privpipe.transforms.base import StageContext

ROLES = Roles(identifiers=["name", "phone"], insensitive=["age"])
ROWS = {"name": ["a", "b"], "phone": ["1", "2"], "age": [3, 4]}


def test_identifiers_go(run: Any) -> None:
    found = run(DropIdentifiers(), ROWS, roles=ROLES)
    assert found.rows.column_names == ["age"]
    assert sorted(found["age"]) == [3, 4]
    assert found.plan.detail == {"dropped": ["name", "phone"]}


def test_pseudonyms_and_held_keys_stay(run: Any) -> None:
    found = run(DropIdentifiers(), ROWS, roles=ROLES, identifiers_released=["phone"])
    assert found.rows.column_names == ["phone", "age"]
    context = StageContext(roles=ROLES, schema=pa.schema([]), held_columns=("name",))
    assert DropIdentifiers().plan(None, context).detail == {"dropped": ["phone"]}  # type: ignore[arg-type]


def test_nothing_to_drop(run: Any) -> None:
    assert run(DropIdentifiers(), {"age": [1]}).rows.column_names == ["age"]

"""Mondrian as a policy writes it, and what its plan is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.errors import UsageError
from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import Mondrian
from privpipe.transforms.mondrian.cut_tree import CutTree, order_keys


def test_parameters() -> None:
    assert Mondrian.build({"k": 5, "mode": "relaxed"}).mode == "relaxed"
    wrong: tuple[dict[str, Any], ...] = (
        {"k": 0},
        {"mode": "loose"},
        {"score": "gini"},
        {"labels": "all"},
        {"columns": []},
    )
    for parameters in wrong:
        with pytest.raises(UsageError, match=next(iter(parameters))):
            Mondrian.build(parameters)
    with pytest.raises(UsageError, match="mode relaxed cuts through them"):
        Mondrian.build({"mode": "relaxed", "score": "loss"})


def test_a_tree_survives_its_plan() -> None:
    ties = np.array([7, 0, np.iinfo(np.int64).max, 0, 0])
    for cut in (1, 300, 70_000):
        tree = CutTree(
            np.array([0, -1, 1, -1, -1]),
            np.array([cut, 0, 2, 0, 0]),
            ties,
            np.array([[0], [1], [2]]),
            np.array([[0], [cut], [3]]),
        )
        again = CutTree.unpacked(tree.packed())
        for name in ("columns", "cuts", "lows", "highs"):
            assert getattr(again, name).tolist() == getattr(tree, name).tolist()
        assert again.ties.tolist() == ties.tolist()
        assert again.is_relaxed
    assert tree.depths().tolist() == [1, 2, 2]


def test_keys_are_spread_and_never_negative() -> None:
    keys = order_keys(np.stack([np.arange(1000) - 500, np.arange(1000)], axis=1))
    assert len(set(keys.tolist())) == 1000
    assert (keys >= 0).all()
    assert abs(float((keys > 1 << 62).mean()) - 0.5) < 0.06


def test_the_mark_of_a_type_goes_with_the_labels(run: Any, people: Any) -> None:
    roles = Roles(
        quasi_identifiers=["age", "rent"], insensitive=["name", "town", "income", "admitted", "seen", "illness"]
    )
    found = run(Mondrian(columns=["age", "rent"]), people, roles=roles, guarantees=[KAnonymity(k=6)])
    kinds = {field.name: str(field.type) for field in found.rows.schema}
    assert kinds["age"] == kinds["rent"] == "string"
    assert found.rows.schema.names == people.schema.names
    assert kinds["income"] == "double"
    assert all(label[0] in "[<>*0123456789" for label in found["rent"])

"""The schema of what stands under a builder's name takes what the builder takes, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from privpipe.errors import UsageError
from privpipe.hierarchies.spec import CLASSES, builder_schema

TAKEN: list[tuple[str, Any]] = [
    ("quantiles", {"counts": [4, 2]}),
    ("quantiles", {"counts": [4], "round": "auto"}),
    ("quantiles", {"counts": [4], "round": 10}),
    ("log", {"base": 2, "decades": [1, 2], "lowest": "0.5"}),
    ("redact", {"length": 5}),
    ("intervals", {"widths": [5, 10], "lowest": 0, "highest": 90, "labels": "words"}),
    ("rows", [["a", "*"], ["b", "*"]]),
]
REFUSED: list[tuple[str, Any]] = [
    ("quantiles", {"counts": []}),
    ("log", {"base": 3}),
    ("redact", {"length": 0}),
    ("intervals", {"widths": [5], "labels": "loud"}),
    ("rows", []),
    ("rows", [["a", "*"], ["b", 7]]),
    ("rows", [["a", "*"], "b"]),
    ("rows", [7]),
]


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(builder_schema(name))


@pytest.mark.parametrize(("name", "given"), TAKEN)
def test_what_a_builder_takes_fits_its_schema(name: str, given: Any) -> None:
    CLASSES[name].from_parameters(given)
    assert validator(name).is_valid(given)


@pytest.mark.parametrize(("name", "given"), REFUSED)
def test_what_a_builder_refuses_does_not_fit_its_schema(name: str, given: Any) -> None:
    with pytest.raises(UsageError):
        CLASSES[name].from_parameters(given)
    assert not validator(name).is_valid(given)


def test_a_row_is_a_list_of_texts() -> None:
    for wrong in (["b", 7], [], "b", 7, None):
        with pytest.raises(UsageError, match="row 2 must be a list of texts"):
            CLASSES["rows"].from_parameters([["a", "*"], wrong])

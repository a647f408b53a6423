"""Suites from policies, saved as JSON and loaded in a fresh process."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from great_expectations.core.expectation_suite import ExpectationSuite

from privpipe.blocks.verdict import plain
from privpipe.errors import UnsupportedError, UsageError
from privpipe.gx.expectations import EXPECTATIONS
from privpipe.roles import Roles

__all__ = ["load_suite", "save_suite", "suite_of"]


def suite_of(
    guarantees: Any, roles: Roles, *, name: str, nulls: str = "own_value", suppression_mark: str = "*"
) -> ExpectationSuite:
    """One expectation a guarantee; all over one count for each set of quasi-identifiers.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        Such as ``policy.guarantees``.
    roles : Roles
    name : str

    Raises
    ------
    UnsupportedError
        A guarantee that reads pairs or a population, which a batch alone does not have.
    """
    shared = sorted({column for guarantee in guarantees for column in guarantee.sensitive_columns()})
    expectations = []
    for guarantee in guarantees:
        if guarantee.name() not in EXPECTATIONS:
            raise UnsupportedError(f"{guarantee.name()} needs more than one table and is no expectation")
        given = plain(guarantee.parameters())
        keys = guarantee.quasi_identifiers
        given["quasi_identifiers"] = list(roles.quasi_identifiers if keys is None else keys)
        made = EXPECTATIONS[guarantee.name()](sensitive=shared, nulls=nulls, suppression_mark=suppression_mark, **given)
        expectations.append(made)
    # Handed over at birth: adding one later asks for a data context.
    return ExpectationSuite(name=name, expectations=expectations)


def save_suite(suite: ExpectationSuite, path: str | PathLike[str]) -> None:
    """Write a suite as JSON, without the ids that a data context gave it."""
    document = suite.to_json_dict()
    document.pop("id", None)
    for expectation in document["expectations"]:
        expectation.pop("id", None)
    Path(path).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def load_suite(path: str | PathLike[str]) -> ExpectationSuite:
    """Read a saved suite.

    Raises
    ------
    UsageError
        Not a suite.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return ExpectationSuite(name=document["name"], expectations=document["expectations"], meta=document.get("meta"))
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{str(path)!r} is not a saved suite: {type(error).__name__}") from None

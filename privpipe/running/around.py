"""The policy that stands around one frame: its columns, and what stages or entries ask, without a document."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.errors import DataError, PolicyError, UsageError, did_you_mean
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.policy import ColumnSpec, Policy
from privpipe.roles import Roles, not_text
from privpipe.transforms.base import Transformer

__all__ = ["hierarchy_specs", "policy_around"]

KEYS = ("record_id", "person_id", "household_id")


def policy_around(
    columns: Sequence[str],
    *,
    roles: Roles | None = None,
    hierarchies: Mapping[str, HierarchySpec] | None = None,
    transform: Sequence[Transformer] = (),
    guarantees: Sequence[Guarantee] = (),
    measures: Sequence[Guarantee] = (),
    **values: Any,
) -> Policy:
    """A policy over the columns of a frame; a column without a role is insensitive.

    Parameters
    ----------
    columns : sequence of str
        Of the frame.
    values : other fields of `Policy`, such as `nulls` or `person_id`; None: as the policy's default.

    Raises
    ------
    DataError
        A column has a role (or a hierarchy) and is not in the frame.
    UsageError
        A key or a column with a hierarchy is named by a label that is no text; a key that is dropped.
    """
    roles = roles or Roles()
    keys = {key: [values[key]] for key in KEYS if values.get(key) is not None}
    for option, named in (("hierarchies", list(hierarchies or {})), *keys.items()):
        if wrong := not_text(named):
            raise UsageError(f"{option}: {wrong}")
    for name in (*roles.columns, *(hierarchies or {})):
        if name not in columns:
            raise DataError(f"column {name!r} is not in the frame{did_you_mean(name, columns)}")
    specs = {
        name: ColumnSpec(
            role=roles.of(name) if name in roles.columns else "insensitive", hierarchy=(hierarchies or {}).get(name)
        )
        for name in columns
    }
    for key in ("record_id", "person_id"):
        if values.get(key) in roles.dropped:
            raise UsageError(f"{key}: column {values[key]!r} is dropped; a key has the role of an identifier, or none")
    stages = [{stage.name(): plain(stage.parameters())} for stage in transform]
    judged = [{entry.name(): plain(entry.parameters())} for entry in guarantees]
    return Policy.of_fields(
        name="frame",
        columns=specs,
        transform=tuple(transform),
        guarantees=tuple(guarantees),
        measures=tuple(measures),
        document={"transform": stages, "guarantees": judged},
        **{name: value for name, value in values.items() if value is not None},
    )


def hierarchy_specs(given: Mapping[str, Any] | None) -> dict[str, HierarchySpec]:
    """Hierarchies by column, from what a caller may hand over.

    Parameters
    ----------
    given : mapping of column to Hierarchy, HierarchySpec, builder mapping or path of a CSV file

    Raises
    ------
    UsageError
        None of these, or a builder mapping that is wrong.

    Examples
    --------
    >>> list(hierarchy_specs({"zip": {"redact": {"keep": "left"}}}))
    ['zip']
    """
    return {column: _spec(column, value) for column, value in (given or {}).items()}


def _spec(column: str, value: Any) -> HierarchySpec:
    if isinstance(value, HierarchySpec):
        return value
    if isinstance(value, Hierarchy):
        return HierarchySpec.from_hierarchy(value, column=column)
    if isinstance(value, str | os.PathLike):
        value = {"file": os.fspath(value)}
    if isinstance(value, Mapping):
        try:
            return HierarchySpec.from_mapping(value, ".", column=column)
        except PolicyError as error:
            above = f"hierarchies.{column}"
            raise PolicyError(
                [replace(each, path=f"{above}.{each.path}" if each.path else above) for each in error.problems]
            ) from None
    raise UsageError(
        f"hierarchies: {column!r} is a {type(value).__name__}; give a Hierarchy, a builder mapping or a path"
    )

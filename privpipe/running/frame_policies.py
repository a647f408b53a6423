"""A policy made from the columns of a frame and the arguments of a call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.errors import DataError, PolicyError, UnsupportedError, UsageError, did_you_mean
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.judging.rules import UndeclaredRule
from privpipe.policy import ColumnSpec, Policy
from privpipe.roles import Roles, not_text

if TYPE_CHECKING:
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
    undeclared: UndeclaredRule | None = None,
    **values: Any,
) -> Policy:
    """A policy over the columns of a frame.

    Parameters
    ----------
    columns : sequence of str
        Of the frame.
    undeclared : {"refuse", "note"}, optional
        For a frame that is judged: what becomes of a column without a role; identifiers, insensitive and dropped
        columns need not be there. Left out, a column without a role is insensitive: a stage passes it on untouched.
    values : other fields of `Policy`, such as `nulls` or `person_id`; None: as the policy's default.

    Raises
    ------
    DataError
        A column has a role (or a hierarchy) and is not in the frame.
    UsageError
        A key or a column with a hierarchy is named by a label that is not text; a key that is dropped.
    """
    roles, known = roles or Roles(), hierarchies or {}
    keys = {key: [values[key]] for key in KEYS if values.get(key) is not None}
    for option, labels in (("hierarchies", list(known)), *keys.items()):
        if wrong := not_text(labels):
            raise UsageError(f"{option}: {wrong}")
    dispensable = () if undeclared is None else (*roles.unreleased, *roles.insensitive)
    for name in (*roles.columns, *known):
        if name not in columns and name not in dispensable:
            raise DataError(f"column {name!r} is not in the frame{did_you_mean(name, columns)}")
    named = {None: tuple(columns), "refuse": roles.columns, "note": (*roles.columns, *known)}[undeclared]
    wanted = set(named)
    specs = {
        name: ColumnSpec(role=roles.of(name) if name in roles.columns else "insensitive", hierarchy=known.get(name))
        for name in dict.fromkeys((*(each for each in columns if each in wanted), *named))
    }
    for key in ("record_id", "person_id"):
        if values.get(key) in roles.dropped:
            raise UsageError(f"{key}: column {values[key]!r} is dropped; a key has the role of an identifier, or none")
    over_households = any(entry.counts_over() == "households" for entry in guarantees)
    for stage in transform if over_households or values.get("person_id") is not None else ():
        if refused := stage.uncounted_persons():
            raise UnsupportedError(f"{stage.name()} counts records, and the call distinguishes persons: {refused}")
    stages = [{stage.name(): plain(stage.parameters())} for stage in transform]
    judged = [{entry.name(): plain(entry.parameters())} for entry in guarantees]
    return Policy.of_fields(
        name="frame",
        columns=specs,
        transform=tuple(transform),
        guarantees=tuple(guarantees),
        measures=tuple(measures),
        document={"transform": stages, "guarantees": judged},
        undeclared=undeclared or "refuse",
        **{name: value for name, value in values.items() if value is not None},
    )


def hierarchy_specs(given: Mapping[str, Any] | None) -> dict[str, HierarchySpec]:
    """Hierarchies by column, from the forms that a caller may pass.

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

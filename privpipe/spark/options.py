"""The options of a stage as Params: roles, hierarchies, guarantees and the rest, to JSON and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.errors import UsageError, did_you_mean
from privpipe.judging.rules import undeclared_rule
from privpipe.roles import NullRule, Roles, read_roles, require_empty_rule
from privpipe.spark.parameters import Asked, as_json, capital, lower_camel

__all__ = ["KEPT", "gate_options", "option_values", "stage_options", "unsavable"]

ROLES = ("quasi_identifiers", "sensitive", "identifiers", "insensitive", "dropped", "carried")
KEPT = ("from_env", "from_file")
"""Places of a seed outside what is saved."""
Convert = Callable[[str, str, Any], Any]


def stage_options(owner: str, taken: Collection[str]) -> list[Asked]:
    """The options that every stage has; one whose name a parameter of the stage has is prefixed with ``policy``.

    Examples
    --------
    >>> [each.name for each in stage_options("RankSwap", {"nulls"})]
    ['roles', 'hierarchies', 'guarantees', 'recordId', 'personId', 'householdId', 'policyNulls', 'mark', 'seed']
    """
    return [_asked(owner, option, taken) for option in OPTIONS if option not in ("undeclared", "empty")]


def gate_options(owner: str) -> list[Asked]:
    """The options of a gate: what it judges by, and nothing that a search or a draw needs."""
    return [
        _asked(owner, option, ())
        for option in (
            *("guarantees", "roles", "undeclared", "hierarchies", "person_id", "household_id", "nulls", "mark"),
            "empty",
        )
    ]


def option_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options as `fit` of a transformer takes them, from the values of their Params."""
    found = {option: value for option, value in values.items() if value is not None}
    if "roles" in found:
        found["roles"] = Roles(**found["roles"])
    if "guarantees" in found:
        found["guarantees"] = [_entry("guarantees", each) for each in found["guarantees"]]
    return found


def unsavable(option: str, value: Any) -> str:
    """Why the value of an option is never written to a file; empty where it may be.

    Examples
    --------
    >>> unsavable("seed", {"from_env": "PRIVPIPE_SEED"})
    ''
    """
    if option == "seed" and value is not None and not isinstance(value, Mapping):
        return 'a seed itself is never saved; name the place where it is kept, as in {"from_env": "PRIVPIPE_SEED"}'
    for column, each in value.items() if option == "hierarchies" and value else ():
        if not isinstance(each, Mapping):
            return f"that of {column!r} was made in Python; write it with `to_csv` and give the path, or give a builder"
    return ""


def _asked(owner: str, option: str, taken: Collection[str]) -> Asked:
    text, convert = OPTIONS[option]
    name = lower_camel(option)
    name = f"policy{capital(name)}" if name in taken else name
    return Asked(name, text, partial(_converted, convert, owner, name), option=option)


def _converted(convert: Convert, owner: str, name: str, value: Any) -> Any:
    return None if value is None else convert(owner, name, value)


def _roles(owner: str, name: str, value: Any) -> Any:
    try:
        roles = read_roles(value)
    except UsageError as error:
        raise UsageError(f"{owner}: {error}") from None
    return {key: list(getattr(roles, key)) for key in ROLES if getattr(roles, key)}


def _hierarchies(owner: str, name: str, value: Any) -> Any:
    from privpipe.running.frame_policies import hierarchy_specs

    if not isinstance(value, Mapping):
        raise UsageError(f"{owner}: {name} must be a mapping of column to builder mapping, path or Hierarchy")
    found = {str(column): _hierarchy(each) for column, each in value.items()}
    hierarchy_specs(found)
    return found


def _hierarchy(given: Any) -> Any:
    if isinstance(given, str | os.PathLike):
        return {"file": os.fspath(given)}
    return plain(given) if isinstance(given, Mapping) else given


def _guarantees(owner: str, name: str, value: Any) -> list[Any]:
    listed = [value] if isinstance(value, Guarantee) else value
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise UsageError(f"{owner}: {name} must be a list of models, as in [KAnonymity(k=5)]")
    found = []
    for each in listed:
        entry = _entry(f"{owner}: {name}", each)
        if not entry.is_gate():
            raise UsageError(f"{owner}: {name}: {entry.name()} has no threshold to work for")
        found.append({entry.name(): plain(entry.parameters())})
    return found


def _entry(owner: str, given: Any) -> Guarantee:
    """A guarantee, from itself or from what represents it in a policy."""
    from privpipe import measures, models

    if isinstance(given, Guarantee):
        return given
    if not isinstance(given, Mapping) or len(given) != 1:
        raise UsageError(f"{owner} must list models, or mappings such as {{'k_anonymity': {{'k': 5}}}}")
    [(name, parameters)] = given.items()
    for room in (models.CATALOGUE, measures.CATALOGUE):
        if name in room:
            built: Guarantee = room[name].build(parameters or {})  # type: ignore[assignment]
            return built
    raise UsageError(f"{owner}: unknown model {name!r}{did_you_mean(str(name), models.CATALOGUE)}")


def _text(owner: str, name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{owner}: {name} must be a text")
    return value


def _nulls(owner: str, name: str, value: Any) -> str:
    if value not in get_args(NullRule):
        raise UsageError(f"{owner}: {name} must be one of {', '.join(get_args(NullRule))}")
    return str(value)


def _undeclared(owner: str, name: str, value: Any) -> str:
    try:
        return undeclared_rule(value, whole=True)
    except UsageError as error:
        raise UsageError(f"{owner}: {error}") from None


def _empty(owner: str, name: str, value: Any) -> str:
    try:
        require_empty_rule(value)
    except UsageError as error:
        raise UsageError(f"{owner}: {error}") from None
    return str(value)


def _seed(owner: str, name: str, value: Any) -> Any:
    from privpipe.policy.secret import secret_given

    try:
        spec = secret_given(value)
    except UsageError as error:
        raise UsageError(f"{owner}: {name}: {error}") from None
    if spec is None:
        return None
    if isinstance(value, Mapping) and set(value) <= set(KEPT):
        return as_json(owner, name, value)
    return spec.resolve()  # as a Seed, which nothing prints


OPTIONS: Mapping[str, tuple[str, Convert]] = {
    "roles": (f"what columns are for: {{{', '.join(ROLES)}}}, each a list", _roles),
    "hierarchies": ("the hierarchy of each column: a builder, or the path of a CSV file", _hierarchies),
    "guarantees": ("what a search works for: models, as [KAnonymity(k=5)] or [{k_anonymity: {k: 5}}]", _guarantees),
    "undeclared": (
        "whether a column without a role is an error (refuse, the default with roles) or not (note)",
        _undeclared,
    ),
    "record_id": ("a unique column by which draws know a record; default: its content", _text),
    "person_id": ("column that distinguishes persons, where they are counted instead of records", _text),
    "household_id": ("column that distinguishes households, whose members share draws and removal", _text),
    "nulls": ("how a missing quasi-identifier matches: own_value, wildcard or refuse", _nulls),
    "mark": ("the suppression mark; default *", _text),
    "empty": ("whether a frame without records is an error (refuse, the default) or passes (pass)", _empty),
    "seed": ("where the secret seed is kept, {from_env: NAME} or {from_file: PATH}; default: one is drawn", _seed),
}

"""What a caller asks of a check besides the entries, checked before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Self, get_args

from privpipe.blocks import Guarantee
from privpipe.blocks.check_face import CheckOptions
from privpipe.engines.base.frames import at_hand
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.judging.gate import UndeclaredRule, undeclared_rule
from privpipe.policy import Policy
from privpipe.policy.secret import secret_given
from privpipe.policy.specs import FrameSpec, SourceSpec
from privpipe.roles import NullRule, Roles, require_empty_rule
from privpipe.running.around import hierarchy_specs, policy_around

__all__ = ["Check"]

KNOWN = tuple(CheckOptions.__annotations__)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Entries and the options around them.

    Parameters
    ----------
    guarantees, measures : tuple of Guarantee
        With a threshold, and without.
    roles : Roles
    undeclared : {"refuse", "note"}
        What becomes of a column without a role.
    given : mapping
        The options that were given.
    """

    guarantees: tuple[Guarantee, ...]
    measures: tuple[Guarantee, ...]
    roles: Roles
    undeclared: UndeclaredRule
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, entries: Any, options: Mapping[str, Any]) -> Self:
        """The entries and options of a call.

        Raises
        ------
        UsageError
            No entry, something that is none, an unknown option, or one of another kind.
        """
        asked = (entries,) if isinstance(entries, Guarantee) else entries
        if not isinstance(asked, Sequence) or not asked or not all(isinstance(each, Guarantee) for each in asked):
            raise UsageError("give a policy, a model or measure, or a list of them, as in [KAnonymity(k=5)]")
        for name in options:
            if name not in KNOWN:
                raise UsageError(f"unknown option {name!r}{did_you_mean(name, KNOWN)}; known: {', '.join(KNOWN)}")
        given = {name: value for name, value in options.items() if value is not None}
        if given.get("nulls", "own_value") not in get_args(NullRule):
            raise UsageError(f"nulls must be one of {', '.join(get_args(NullRule))}")
        require_empty_rule(given.get("empty"))
        roles = _with_own(_roles(given), asked)
        _require_keys(asked, roles)
        _require_population(asked, given)
        asked = tuple(entry.with_roles(roles).beside("population" in given) for entry in asked)
        return cls(
            guarantees=tuple(entry for entry in asked if entry.is_gate()),
            measures=tuple(entry for entry in asked if not entry.is_gate()),
            roles=roles,
            undeclared=undeclared_rule(given.get("undeclared"), whole="roles" in given),
            given=given,
        )

    def policy(self, columns: Sequence[str]) -> Policy:
        """The policy that stands around a frame with these columns.

        Raises
        ------
        DataError
            A column that an option or an entry names is not in the frame.
        """
        for entry in (*self.guarantees, *self.measures):
            for name in (*(entry.quasi_identifiers or ()), *(entry.own_columns() or ()), *entry.record_columns()):
                if name not in columns:
                    raise DataError(f"{entry.name()}: column {name!r} is not in the frame{did_you_mean(name, columns)}")
        values = {
            name: self.given[name]
            for name in ("record_id", "person_id", "household_id", "nulls", "empty")
            if name in self.given
        }
        return policy_around(
            columns,
            roles=self.roles,
            undeclared=self.undeclared,
            hierarchies=hierarchy_specs(self.given.get("hierarchies")),
            guarantees=self.guarantees,
            measures=self.measures,
            population=_population(self.given.get("population")),
            suppression_mark=self.given.get("mark"),
            seed=secret_given(self.given.get("seed")),
            **values,
        )


def _roles(given: Mapping[str, Any]) -> Roles:
    named = {name: given[name] for name in ("quasi_identifiers", "sensitive") if name in given}
    if "roles" not in given:
        return Roles(**named)
    if not isinstance(given["roles"], Roles):
        raise UsageError(f"roles must be a privpipe.Roles, not {type(given['roles']).__name__}")
    if named:
        raise UsageError(f"give roles or {' and '.join(named)}, not both")
    roles: Roles = given["roles"]
    return roles


def _with_own(roles: Roles, entries: Sequence[Guarantee]) -> Roles:
    """The sensitive columns that entries name themselves need no role besides."""
    named = dict.fromkeys(name for entry in entries for name in entry.sensitive_columns())
    for name in named:
        if name in roles.columns and roles.of(name) != "sensitive":
            raise UsageError(f"{name!r} is given as {roles.of(name)} and an entry counts it as a sensitive column")
    more = [name for name in named if name not in roles.columns]
    return replace(roles, sensitive=(*roles.sensitive, *more)) if more else roles


def _require_keys(entries: Sequence[Guarantee], roles: Roles) -> None:
    if roles.quasi_identifiers:
        return
    for entry in entries:
        if entry.quasi_identifiers is None and entry.way.over_classes and entry.own_columns() is None:
            raise UsageError(
                f"{entry.name()} forms classes and no quasi-identifier is given, so every table would pass: give "
                "quasi_identifiers=[...] the columns by which somebody could be recognised"
            )


def _require_population(entries: Sequence[Guarantee], given: Mapping[str, Any]) -> None:
    for entry in entries:
        if entry.needs_population and "population" not in given:
            raise UsageError(f"{entry.name()} needs population=, the table of all persons it could be about")


def _population(given: Any) -> SourceSpec | None:
    if given is None:
        return None
    if isinstance(given, str | PurePath):
        return SourceSpec(path=str(given), generalized=True)
    return FrameSpec(frame=at_hand(given, "assess, population="), generalized=True)

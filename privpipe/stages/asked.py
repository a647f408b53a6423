"""What a caller asks of a stage besides the frame, checked before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, get_args

from privpipe.blocks import Guarantee
from privpipe.errors import UsageError, did_you_mean
from privpipe.hierarchies import HierarchySpec
from privpipe.policy import Policy, SecretSpec
from privpipe.policy.secret import secret_given
from privpipe.roles import NullRule, Roles, require_empty_rule
from privpipe.running.around import hierarchy_specs, policy_around
from privpipe.running.run_context import no_progress
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import StageOptions

__all__ = ["Asked"]

KNOWN = tuple(StageOptions.__annotations__)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a stage over a frame.

    Parameters
    ----------
    roles : Roles
    hierarchies : mapping of column to HierarchySpec
    guarantees : tuple of Guarantee
    seed : SecretSpec, optional
        None: drawn from the system.
    values : mapping
        record_id, person_id, household_id, nulls, mark and empty, where they are given.
    engine, progress : see `StageOptions`
    """

    roles: Roles = field(default_factory=Roles)
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    guarantees: tuple[Guarantee, ...] = ()
    seed: SecretSpec | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    engine: Any = None
    progress: Any = no_progress

    @classmethod
    def of(cls, owner: str, options: Mapping[str, Any]) -> Self:
        """The options that a call gave to a stage, or to several.

        Raises
        ------
        UsageError
            An unknown option, or a value of another kind.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in options:
            if name not in KNOWN:
                raise UsageError(
                    f"{owner}: unknown option {name!r}{did_you_mean(name, KNOWN)}; known: {', '.join(KNOWN)}"
                )
        roles = given.get("roles", Roles())
        if not isinstance(roles, Roles):
            raise UsageError(f"roles must be a privpipe.Roles, not {type(roles).__name__}")
        if given.get("nulls", "own_value") not in get_args(NullRule):
            raise UsageError(f"nulls must be one of {', '.join(get_args(NullRule))}")
        require_empty_rule(given.get("empty"))
        return cls(
            roles=roles,
            hierarchies=hierarchy_specs(given.get("hierarchies")),
            guarantees=_guarantees(given.get("guarantees", ()), roles),
            seed=secret_given(given.get("seed")),
            values={
                name: given[name]
                for name in ("record_id", "person_id", "household_id", "nulls", "mark", "empty")
                if name in given
            },
            engine=given.get("engine"),
            progress=given.get("progress", no_progress),
        )

    def policy(self, stages: Sequence[Transformer], columns: Sequence[str]) -> Policy:
        """The policy that stands around a frame with these columns.

        Raises
        ------
        DataError
            A column with a role, or one that an option names, is not in the frame.
        """
        renamed = {"suppression_mark" if name == "mark" else name: value for name, value in self.values.items()}
        return policy_around(
            columns,
            roles=self.roles,
            hierarchies=self.hierarchies,
            transform=tuple(stages),
            guarantees=self.guarantees,
            seed=self.seed,
            **renamed,
        )


def _guarantees(given: Any, roles: Roles) -> tuple[Guarantee, ...]:
    entries = (given,) if isinstance(given, Guarantee) else given
    if not isinstance(entries, Sequence) or not all(isinstance(entry, Guarantee) for entry in entries):
        raise UsageError("guarantees must be a list of models, as in [KAnonymity(k=5)]")
    for entry in entries:
        if not entry.is_gate():
            raise UsageError(f"guarantees: {entry.name()} has no threshold to work for")
    return tuple(entry.with_roles(roles) for entry in entries)

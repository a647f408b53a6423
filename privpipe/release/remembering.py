"""The ledger of a run: opened before it, asked while it is judged, moved on with its publication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.assess.class_memory import class_memory
from privpipe.blocks.release_history import ReleaseHistory, ReleaseRows
from privpipe.blocks.suppressed import NothingLeft, without_suppressed
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.release.ledger import Ledger, named_ledger
from privpipe.release.remote import RemoteTarget
from privpipe.roles import Roles

if TYPE_CHECKING:
    from privpipe.release.policy import Policy
    from privpipe.release.target import LocalTarget, Target

__all__ = ["Remembering"]


@dataclass
class Remembering:
    """A context around a run; without a ledger in the policy it does nothing.

    Parameters
    ----------
    policy : Policy
    place : Target, optional
        Where the run publishes; without one the ledger is only read.
    """

    policy: Policy
    place: Target | None = None
    histories: Mapping[str, ReleaseHistory] = field(default_factory=dict, init=False)
    _ledger: Ledger | None = field(default=None, init=False)
    _current: ReleaseRows | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        named = named_ledger(self.policy)
        if named is not None and named.ledger is not None:
            path = Path(named.ledger)
            local: LocalTarget | None = None if isinstance(self.place, RemoteTarget) else self.place  # type: ignore[assignment]
            if local is not None and ({local.path, local.state} & {path.absolute(), *path.absolute().parents}):
                raise UsageError(
                    "complementary_release: the ledger lies inside the sink and would be published with it"
                )
            self._ledger = Ledger(path, named.key).__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        if self._ledger is not None:
            self._ledger.__exit__(*details)

    def gather(self, engine: Engine, original: Any, released: Any, roles: Roles) -> None:
        """Hash who is in which class of the new release, and lay it beside what the ledger remembers.

        Raises
        ------
        UsageError
            A key and nothing that tells persons apart.
        DataError
            The original lacks the column.
        """
        named = named_ledger(self.policy)
        if self._ledger is None or named is None or named.ledger is None:
            return
        keys = tuple(roles.quasi_identifiers) if named.quasi_identifiers is None else named.quasi_identifiers
        unit = self._unit(keys)
        for column in unit:
            if column not in original.schema.names:
                raise DataError(f"column {column!r} is not in the original: the ledger follows persons by it")
        self._current = class_memory(
            engine,
            original,
            without_suppressed(
                engine, released, NothingLeft(tuple(released.schema.names), self.policy.suppression_mark)
            ),
            unit=unit,
            keys=keys,
            sensitive=getattr(named, "sensitive", None),
            seed=self._ledger.seed,
            persons=self._ledger.persons,
        )
        self.histories = {named.ledger: self._ledger.history(self._current)}

    def prepare(self, run_id: str) -> None:
        """Note that the run is about to publish."""
        if self._ledger is None or self._current is None or self.place is None:
            return
        place: Any = self.place
        target = place.url if isinstance(place, RemoteTarget) else str(place.path)
        self._ledger.prepare(self._current, run_id, target, self.place.current())

    def settle(self) -> None:
        """Keep the run if it was published, forget it if not."""
        if self._ledger is not None:
            self._ledger.settle()

    def _unit(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        if self._ledger is None or not self._ledger.persons:
            return keys
        column = self.policy.person_id or self.policy.record_id
        if column is None:
            raise UsageError(
                "complementary_release: with a key persons are followed by person_id or record_id, and the policy has "
                "neither; declare one, or leave the key out"
            )
        return (column,)

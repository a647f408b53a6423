"""The ledger of a run: opened before it, read while it is judged, extended with its publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks.release_history import ReleaseHistory, ReleaseRows
from privpipe.blocks.suppressed import NothingLeft, without_suppressed
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.judging.class_memory import LedgerUnit, class_memory
from privpipe.judging.noise_memory import NoiseStage, noise_memory
from privpipe.ledger import Ledger, named_ledger
from privpipe.ledger.sink import forget_what_never_was, place_of, recalled
from privpipe.roles import Roles
from privpipe.running.key_history import repeated_note
from privpipe.running.noise_stages import bare_columns
from privpipe.sinks.local import LocalTarget

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.sinks.target import Target

__all__ = ["Remembering"]

NOT_REMEMBERED = (
    "the sink's earlier releases are remembered in a ledger, and this release is not: the policy names none"
)


@dataclass
class Remembering:
    """A context around a run; without a ledger in the policy it does nothing.

    Parameters
    ----------
    policy : Policy
    place : Target, optional
        Where the run publishes; without one the ledger is only read.
    reading : bool
        Nothing is published there: ledger and sink are read, and nothing is noted in them.
    """

    policy: Policy
    place: Target | None = None
    reading: bool = False
    histories: Mapping[str, ReleaseHistory] = field(default_factory=dict, init=False)
    notes: tuple[str, ...] = field(default=(), init=False)
    repeated: Mapping[str, str] = field(default_factory=dict, init=False)
    _ledger: Ledger | None = field(default=None, init=False)
    _current: ReleaseRows | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        named = named_ledger(self.policy.entries)
        if named is None:
            self._without_ledger()
            return self
        path = Path(named.path)
        local = self.place if isinstance(self.place, LocalTarget) else None
        if local is not None and ({local.path, local.state} & {path.absolute(), *path.absolute().parents}):
            raise UsageError("the ledger lies inside the sink and would be published with it")
        place = self.place if self.place is not None else self._own_sink()
        ledger = Ledger(path, named.key, named.normalise, place, reading=self.reading or self.place is None)
        self._ledger = ledger.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        if self._ledger is not None:
            self._ledger.__exit__(*details)

    def gather(
        self, engine: Engine, original: Any, released: Any, roles: Roles, noise: Sequence[NoiseStage] | None = None
    ) -> None:
        """Hash who is in which class of the new release, and lay it beside what the ledger remembers.

        Parameters
        ----------
        noise : sequence of NoiseStage, optional
            Stages of the run that added noise; None: nothing is known of them.

        Raises
        ------
        UsageError
            A key and nothing that distinguishes persons.
        DataError
            The original lacks the column.
        """
        named = named_ledger(self.policy.entries)
        if self._ledger is None or named is None:
            return
        keys = tuple(roles.quasi_identifiers) if named.quasi_identifiers is None else named.quasi_identifiers
        unit = self._unit(keys)
        for column in unit:
            if column not in original.schema.names:
                raise DataError(f"column {column!r} is not in the original: the ledger follows persons by it")
        nothing = NothingLeft(tuple(released.schema.names), self.policy.suppression_mark)
        left = without_suppressed(engine, released, nothing)
        followed = LedgerUnit(unit, self._ledger.seed, self._ledger.persons, tuple(named.normalise))
        self._current = class_memory(engine, original, left, unit=followed, keys=keys, sensitive=named.sensitive)
        if noise is not None and self._ledger.persons:
            bare = bare_columns(released.schema, self.policy.transform)
            kept = noise_memory(engine, original, left, noise, unit=followed, bare=bare)
            self._current = replace(self._current, noise=kept)
        history = self._ledger.history(self._current)
        self.histories, self.repeated = {named.path: history}, _repeated(history)

    def prepare(self, run_id: str) -> None:
        """Note that the run is about to publish."""
        if self._ledger is None or self._current is None or self.place is None:
            return
        self._ledger.prepare(self._current, run_id, self.place.name, self.place.current())

    def settle(self) -> None:
        """Keep the run if it was published, forget it if not."""
        if self._ledger is not None:
            self._ledger.settle()

    def _own_sink(self) -> LocalTarget | None:
        """The policy's sink as a witness, where a table is judged and nothing published."""
        sink = self.policy.sink
        return None if sink is None or not sink.is_folder else place_of(sink.target(self.policy.base_dir))

    def _without_ledger(self) -> None:
        """A policy without a ledger at a sink that has one: what it publishes will be missing there."""
        seen = recalled if self.reading else forget_what_never_was
        found = None if self.place is None else seen(self.place)
        if found is not None and found.reached is not None:
            self.notes = (NOT_REMEMBERED,)

    def _unit(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        if self._ledger is None or not self._ledger.persons:
            return keys
        column = self.policy.person_id or self.policy.record_id
        if column is None:
            raise UsageError(
                "with a key a ledger follows persons by person_id or record_id, and the policy has neither; declare "
                "one, or leave the key out"
            )
        return (column,)


def _repeated(history: ReleaseHistory) -> dict[str, str]:
    """A note for each column whose noise earlier releases have for the same persons with other draws."""
    import numpy as np

    from privpipe.kernels.noise.averaging import left_ratios
    from privpipe.kernels.noise.looks import looks_at

    now = history.current.noise
    if now is None:
        return {}
    found = {}
    for column in dict.fromkeys(name for name, _ in now.stages):
        looks = looks_at(column, history.current, history.earlier)
        if looks.keys < 2:
            continue
        left = left_ratios(looks.units, looks.stages, looks.draws, looks.values, looks.ratios, moving=False)
        here = np.isin(now.stage, [at for at, (name, _) in enumerate(now.stages) if name == column])
        found[column] = repeated_note(column, looks.keys, float(now.ratios[here].min()), float(left.min()))
    return found

"""What earlier releases left: the ledger of a run, and the draws of a sink's published releases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks.release_history import ReleaseHistory, ReleaseRows
from privpipe.blocks.row_reductions import NothingLeft, without_suppressed
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError
from privpipe.judging.release_memory import LedgerUnit, NoiseStage, class_memory, noise_memory
from privpipe.ledger import Ledger, named_ledger
from privpipe.ledger.sink import counts, forget_what_never_was, place_of, recalled
from privpipe.private_files import flush_new
from privpipe.roles import Roles
from privpipe.sinks.target import LocalTarget, sink_faults

if TYPE_CHECKING:
    from privpipe.draws import Draws, Seed
    from privpipe.policy import Policy
    from privpipe.sinks.target import Target
    from privpipe.tables.table import Table
    from privpipe.tables.table_history import TableHistory
    from privpipe.transforms.base import StagePlan, Transformer
    from privpipe.transforms.noise.add_noise import AddNoise

__all__ = ["Drawn", "KeyHistory", "Remembering", "bare_columns", "drawn_by", "left_of", "noise_stage", "repeated_note"]


VERSION = 3
FILE = "keys.json"
Releases = dict[str, float | None]
"""Ratio of the noise's variance to the column's, by the name of the draws; None where they are not noise of a ratio."""


@dataclass(frozen=True)
class _Known:
    """Draws of releases by keyed column, and those of a run that was about to publish."""

    keys: Mapping[str, Releases]
    pending: Mapping[str, Releases] = field(default_factory=dict)
    run_id: str = ""
    before: str | None = None

    def settled(self, now: str | None) -> Mapping[str, Releases]:
        """What was published, according to what the sink points at now."""
        if not counts(now, self.run_id, self.before):
            return self.keys
        return {tag: {**self.keys.get(tag, {}), **self.pending.get(tag, {})} for tag in {*self.keys, *self.pending}}

    def document(self) -> dict[str, Any]:
        """The file."""
        pending = {"keys": self.pending, "run_id": self.run_id, "before": self.before} if self.pending else None
        return {"version": VERSION, "keys": self.keys, "pending": pending}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> _Known:
        keys = {str(tag): _releases(given) for tag, given in document["keys"].items()}
        pending = document.get("pending")
        if pending is None:
            return cls(keys)
        own = {str(tag): _releases(given) for tag, given in pending["keys"].items()}
        before = pending["before"]
        return cls(keys, own, str(pending["run_id"]), None if before is None else str(before))


Drawn = Mapping[str, tuple[str, float | None]]
"""By column, or by stage where it draws for none: the name of all draws for it, and the ratio of their noise."""


@dataclass(frozen=True)
class KeyHistory:
    """The draws of a sink's published releases, by column, in a private file of its work area.

    They are written before the step that publishes and count by what the sink points at, as entries of a ledger do.

    Columns and keys are in it under names that are keyed by the seed: another seed finds nothing in it, and neither
    does a reader.

    Parameters
    ----------
    folder : Path or None
        The sink's work area; None: nothing is remembered (remote sinks).
    seed : Seed
    """

    folder: Path | None
    seed: Seed

    def notes(self, drawn: Drawn, current: Callable[[], str | None]) -> tuple[str, ...]:
        """A note for each column that this sink has published before with other draws.

        Parameters
        ----------
        current : callable
            Returns what the sink points at now.

        Raises
        ------
        DataError
            The file is not one of ours.
        """
        before = self._read()
        known = before.settled(current()) if before.pending else before.keys
        found = []
        for what, (name, ratio) in drawn.items():
            ratios = [*({**known.get(self._tag(what), {}), name: ratio}).values()]
            if len(ratios) > 1:
                found.append(repeated_note(what, len(ratios), ratio, left_of(ratios)))
        return tuple(found)

    def prepare(self, drawn: Drawn, run_id: str, current: Callable[[], str | None]) -> None:
        """Note the draws of a run that is about to publish; they count unless the sink still points where it does now.

        Raises
        ------
        SinkError
            They cannot be written.
        """
        if self.folder is None or not drawn:
            return
        found, before = self._read(), current()
        known = found.settled(before) if found.pending else found.keys
        own = {self._tag(what): {name: ratio} for what, (name, ratio) in drawn.items()}
        self._write(_Known(known, own, run_id, before), "nothing was published")

    def settle(self, current: Callable[[], str | None]) -> None:
        """Keep the draws of a run if it was published, forget them if not.

        Raises
        ------
        SinkError
            They cannot be written.
        """
        found = self._read()
        if found.pending:
            self._write(_Known(found.settled(current())), "they stay pending")

    def _write(self, known: _Known, otherwise: str) -> None:
        if self.folder is None:
            return
        with sink_faults(self.folder / FILE, otherwise):
            flush_new(self.folder / FILE, json.dumps(known.document(), sort_keys=True).encode())

    def _read(self) -> _Known:
        if self.folder is None or not (self.folder / FILE).exists():
            return _Known({})
        try:
            document = json.loads((self.folder / FILE).read_text(encoding="utf-8"))
            if document["version"] not in (1, 2, VERSION):
                raise ValueError("another version")
            return _Known.read(document)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise DataError(
                f"{str(self.folder / FILE)!r} is damaged; move it away, and earlier releases are not compared with"
            ) from None

    def _tag(self, what: str) -> str:
        return self.seed.bound("privpipe/key history/2", what).hex()[:32]


def left_of(ratios: Sequence[float | None]) -> float | None:
    """The variance ratio that averaging over independent noise leaves; None where one is not known.

    Examples
    --------
    >>> left_of([0.5, 0.5]), left_of([0.5, 0.0]), left_of([0.5, None])
    (0.25, 0.0, None)
    """
    known = [each for each in ratios if each is not None]
    if len(known) < len(ratios):
        return None
    return 1 / sum(1 / each for each in known) if all(known) else 0.0


def repeated_note(column: str, times: int, ratio: float | None, left: float | None) -> str:
    """The gain of an attacker who keeps releases of one column with independent draws.

    Parameters
    ----------
    column : str
    times : int
        Releases with other draws, this one included.
    ratio : float or None
        Variance of this release's noise over the column's; None where it is not known.
    left : float or None
        What averaging leaves of it.

    Examples
    --------
    >>> repeated_note("cost", 3, None, None)
    "'cost' was released 3 times with independent draws: an attacker who compares them learns more than from one"
    """
    start = f"{column!r} was released {times:,} times with independent"
    if ratio is None or left is None:
        return f"{start} draws: an attacker who compares them learns more than from one"
    return (
        f"{start} noise: the variance ratio left to an attacker who averages is {left:.2g} of {ratio:.2g}; a frozen "
        "plan (`plan:`) keeps the noise of a value that did not change"
    )


def _releases(given: Any) -> Releases:
    """The releases of a column; version 1 kept only the names of their keys."""
    if isinstance(given, list):
        return {str(name): None for name in given}
    return {str(name): None if ratio is None else float(ratio) for name, ratio in given.items()}


def drawn_by(stages: tuple[Transformer, ...], draws: tuple[Draws, ...]) -> Drawn:
    """What the stages of a table drew."""
    found: dict[str, list[tuple[str, float | None]]] = {}
    for stage, drawn in zip(stages, draws, strict=True):
        for column in () if stage.links_releases else stage.drawn_columns():
            found.setdefault(column or stage.name(), []).append((drawn.key_id(column), stage.noise_ratio()))
    return {
        what: (
            "+".join(sorted(name for name, _ in each)),
            None if any(ratio is None for _, ratio in each) else sum(ratio or 0.0 for _, ratio in each),
        )
        for what, each in found.items()
    }


def noise_stage(stage: AddNoise, made: StagePlan, draws: Draws, table: Any) -> NoiseStage:
    """The stage as it ran over a table.

    Orthogonal noise, which has no ratio, and noise only for outliers count as removed entirely.
    """
    figures = made.detail.get("by_stratum") or [made.detail]
    return NoiseStage(
        table=table,
        columns=stage.columns,
        together=stage.kind == "correlated",
        ratio=stage.noise_ratio() or 0.0,
        spares_zeros=stage.keep_zeros or stage.kind == "multiplicative",
        unchanged=frozenset(column for each in figures for column in each["constant"]),
        key_ids={column: draws.key_id(column) for column in stage.columns},
    )


def bare_columns(schema: Any, stages: Sequence[Transformer]) -> tuple[str, ...]:
    """Released columns of numbers or dates that no stage names."""
    import pyarrow as pa

    if any(stage.taxon == "synthetic" and not stage.masked_columns() for stage in stages):
        return ()
    masked = {column for stage in stages for column in stage.masked_columns()}
    measured = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal)
    return tuple(
        field.name for field in schema if field.name not in masked and any(kind(field.type) for kind in measured)
    )


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
    source_notes: tuple[str, ...] = field(default=(), init=False)
    repeated: Mapping[str, str] = field(default_factory=dict, init=False)
    _ledger: Ledger | None = field(default=None, init=False)
    _current: ReleaseRows | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        named = named_ledger(self.policy.entries, self.policy.tables)
        if named is None:
            self._without_ledger()
            return self
        path = Path(named.path)
        local = self.place if isinstance(self.place, LocalTarget) else None
        if local is not None and ({local.path, local.state} & {path.absolute(), *path.absolute().parents}):
            raise UsageError("the ledger is inside the sink and would be published with it")
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
        """Hash who is in which class of the new release, next to the memory of the ledger.

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

    def gather_tables(
        self, engine: Engine, original: Any, records: Any, tables: Mapping[str, Table]
    ) -> TableHistory | None:
        """Hash who is in which cell of the new tables, and put it next to earlier tables; None without a ledger.

        Parameters
        ----------
        records : Table
            What was counted, with the record ids of the original.
        tables : mapping of str to Table
            As they were counted.

        Raises
        ------
        DataError, UsageError, UnsupportedError
            Persons cannot be followed.
        """
        from privpipe.running.leaf_memory import table_memory
        from privpipe.tables.table_history import TableHistory

        named = named_ledger(self.policy.entries, self.policy.tables)
        if self._ledger is None or named is None:
            return None
        unit = self._unit(())
        for column in unit:
            if column not in original.schema.names:
                raise DataError(f"column {column!r} is not in the original: the ledger follows persons by it")
        followed = LedgerUnit(unit, self._ledger.seed, self._ledger.persons, tuple(named.normalise))
        policy = self.policy
        self._current = table_memory(
            engine, original, records, tables, unit=followed, person=policy.person_id, hierarchies=policy.hierarchies
        )
        history = self._ledger.history(self._current)
        self.notes = (*self.notes, *history.notes)
        self.source_notes = history.source_notes
        return TableHistory(current=history.current, earlier=history.earlier)

    def remember_tables(self, tables: Mapping[str, Table]) -> None:
        """What the tables show, as they will be published."""
        from privpipe.tables.table_history import remembered

        if self._current is not None and self._current.tables is not None:
            self._current = replace(self._current, tables=remembered(self._current.tables, tables))

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
        """A policy without a ledger at a sink that has one: its releases will be missing there."""
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

    from privpipe.kernels.noise.averaging import left_ratios, looks_at

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

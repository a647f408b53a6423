"""The draws of a sink's published releases, so that a verdict can note what averaging over them gives an attacker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.errors import DataError
from privpipe.ledger.sink import counts
from privpipe.private_files import flush_new
from privpipe.sinks.local import sink_faults

if TYPE_CHECKING:
    from privpipe.draws import Draws, Seed
    from privpipe.transforms.base import Transformer

__all__ = ["KeyHistory", "left_of", "repeated_note"]

VERSION = 3
FILE = "keys.json"
Releases = dict[str, float | None]
"""Ratio of the noise's variance to the column's, by the name of the draws; None where they are no noise of a ratio."""


@dataclass(frozen=True)
class _Known:
    """Draws of releases by keyed column, and those of a run that was about to publish."""

    keys: Mapping[str, Releases]
    pending: Mapping[str, Releases] = field(default_factory=dict)
    run_id: str = ""
    before: str | None = None

    def settled(self, now: str | None) -> Mapping[str, Releases]:
        """What was published, by what the sink points at now."""
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

    def notes(
        self, stages: tuple[Transformer, ...], draws: tuple[Draws, ...], current: Callable[[], str | None]
    ) -> tuple[str, ...]:
        """A note for each column that this sink has published before with other draws.

        Parameters
        ----------
        current : callable
            Gives what the sink points at now.

        Raises
        ------
        DataError
            The file is not one of ours.
        """
        before = self._read()
        known = before.settled(current()) if before.pending else before.keys
        found = []
        for what, (name, ratio) in _drawn(stages, draws).items():
            ratios = [*({**known.get(self._tag(what), {}), name: ratio}).values()]
            if len(ratios) > 1:
                found.append(repeated_note(what, len(ratios), ratio, left_of(ratios)))
        return tuple(found)

    def prepare(
        self,
        stages: tuple[Transformer, ...],
        draws: tuple[Draws, ...],
        run_id: str,
        current: Callable[[], str | None],
    ) -> None:
        """Note the draws of a run that is about to publish; they count unless the sink still points where it does now.

        Raises
        ------
        SinkError
            They cannot be written.
        """
        drawn = _drawn(stages, draws)
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
    """What an attacker gains who keeps releases of one column with independent draws.

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
    """The releases of a column; version 1 kept the names of their keys alone."""
    if isinstance(given, list):
        return {str(name): None for name in given}
    return {str(name): None if ratio is None else float(ratio) for name, ratio in given.items()}


def _drawn(stages: tuple[Transformer, ...], draws: tuple[Draws, ...]) -> dict[str, tuple[str, float | None]]:
    """By column, or by stage where it draws for none: the name of all draws for it, and the ratio of their noise."""
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

"""The draws of a sink's published releases, so that a verdict can note what averaging over them gives an attacker."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.draws import Draws, Seed
    from privpipe.transforms.base import Transformer

__all__ = ["KeyHistory", "left_of", "repeated_note"]

log = logging.getLogger("privpipe.release")
VERSION = 2
FILE = "keys.json"
Releases = dict[str, float | None]
"""Ratio of the noise's variance to the column's, by the name of the draws; None where they are no noise of a ratio."""


@dataclass(frozen=True)
class KeyHistory:
    """The draws of a sink's published releases, by column, in a private file of its work area.

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

    def notes(self, stages: tuple[Transformer, ...], draws: tuple[Draws, ...]) -> tuple[str, ...]:
        """A note for each column that this sink has published before with other draws.

        Raises
        ------
        DataError
            The file is not one of ours.
        """
        before = self._read()
        found = []
        for what, (name, ratio) in _drawn(stages, draws).items():
            ratios = [*({**before.get(self._tag(what), {}), name: ratio}).values()]
            if len(ratios) > 1:
                found.append(repeated_note(what, len(ratios), ratio, left_of(ratios)))
        return tuple(found)

    def keep(self, stages: tuple[Transformer, ...], draws: tuple[Draws, ...]) -> None:
        """Remember the draws of a release that was published."""
        drawn = _drawn(stages, draws)
        if self.folder is None or not drawn:
            return
        known = {tag: dict(releases) for tag, releases in self._read().items()}
        for what, (name, ratio) in drawn.items():
            known.setdefault(self._tag(what), {})[name] = ratio
        document = {"version": VERSION, "keys": known}
        new = self.folder / f"{FILE}.new"
        try:
            new.unlink(missing_ok=True)
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.folder / FILE)
        except OSError as error:  # the release is published and judged; only a later note is lost
            log.warning("the draws of this release could not be remembered next to the sink: %s", error.strerror)

    def _read(self) -> Mapping[str, Releases]:
        if self.folder is None or not (self.folder / FILE).exists():
            return {}
        try:
            document = json.loads((self.folder / FILE).read_text(encoding="utf-8"))
            if document["version"] not in (1, VERSION):
                raise ValueError("another version")
            return {str(tag): _releases(given) for tag, given in document["keys"].items()}
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

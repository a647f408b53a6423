"""The draw keys of a sink's published releases, so that a verdict can note a change of key."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.draws import Draws, Seed
    from privpipe.transforms.base import Transformer

__all__ = ["KeyHistory"]

log = logging.getLogger("privpipe.release")
VERSION = 1
FILE = "keys.json"


@dataclass(frozen=True)
class KeyHistory:
    """The keys of a sink's published releases, by column, in a private file of its work area.

    Columns and keys stand there under names that are keyed by the seed: another seed finds nothing in it, and neither
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
        """A note for each column that a published release drew for by another key.

        Raises
        ------
        DataError
            The file is not one of ours.
        """
        before = self._read()
        return tuple(
            f"{what!r} was released before with another plan under this seed; the draws are independent"
            for what, ids in _keys(stages, draws).items()
            if set(before.get(self._tag(what), ())) - ids
        )

    def keep(self, stages: tuple[Transformer, ...], draws: tuple[Draws, ...]) -> None:
        """Remember the keys of a release that was published."""
        keys = _keys(stages, draws)
        if self.folder is None or not keys:
            return
        known = {tag: set(ids) for tag, ids in self._read().items()}
        for what, ids in keys.items():
            known.setdefault(self._tag(what), set()).update(ids)
        document = {"version": VERSION, "keys": {tag: sorted(ids) for tag, ids in known.items()}}
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
            log.warning("the keys of this release could not be remembered beside the sink: %s", error.strerror)

    def _read(self) -> Mapping[str, list[str]]:
        if self.folder is None or not (self.folder / FILE).exists():
            return {}
        try:
            document = json.loads((self.folder / FILE).read_text(encoding="utf-8"))
            if document["version"] != VERSION:
                raise ValueError("another version")
            return {str(tag): [str(each) for each in ids] for tag, ids in document["keys"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise DataError(
                f"{str(self.folder / FILE)!r} is damaged; move it away, and earlier releases are not compared with"
            ) from None

    def _tag(self, what: str) -> str:
        return self.seed.bound("privpipe/key history/2", what).hex()[:32]


def _keys(stages: tuple[Transformer, ...], draws: tuple[Draws, ...]) -> dict[str, set[str]]:
    """Names of the keys by column, or by stage where it draws for none."""
    found: dict[str, set[str]] = {}
    for stage, drawn in zip(stages, draws, strict=True):
        for column in stage.drawn_columns():
            found.setdefault(column or stage.name(), set()).add(drawn.key_id(column))
    return found

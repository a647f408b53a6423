"""The documents of a finished run: those beside its data, or those of its private record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privpipe.errors import UsageError
from privpipe.reporting.document_shapes import MANIFEST, REPORT, REQUEST, VERDICT, misshapen

__all__ = ["RunDocuments"]

HOME = "_privpipe"
SHAPES = {"manifest.json": MANIFEST, "report.json": REPORT, "request.json": REQUEST}


@dataclass(frozen=True)
class RunDocuments:
    """What a run left, in one of its editions.

    Parameters
    ----------
    path : str
        As it was given.
    verdict : mapping
        The verdict document.
    manifest : mapping
        With the plan and the public policy; empty for a verdict alone, such as that of a refused run.
    report : mapping
        Figures that only a report shows, of a private record; empty in the public edition.
    request : mapping
        What is to be signed, of a run that waits.

    Examples
    --------
    >>> RunDocuments("published/adult", {"run_id": "r", "guarantees": [], "measures": []}).name
    'r'
    """

    path: str
    verdict: Mapping[str, Any] = field(repr=False)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    report: Mapping[str, Any] = field(default_factory=dict, repr=False)
    request: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Run id, else the path."""
        return str(self.verdict.get("run_id") or self.path)

    @property
    def edition(self) -> str:
        """``public``: what stands beside the data; ``private``: what only who ran it may read."""
        return str(self.verdict.get("edition") or "private")

    @property
    def stages(self) -> list[Mapping[str, Any]]:
        """The stages of its plan."""
        return list(self.manifest.get("plan", {}).get("stages", self.report.get("stages", [])))

    @property
    def policy(self) -> Mapping[str, Any]:
        """Its policy, without secrets."""
        found: Mapping[str, Any] = self.manifest.get("policy", self.report.get("policy", {}))
        return found

    @classmethod
    def read(cls, path: str) -> RunDocuments:
        """The documents of a released folder, of a private record, of a run that waits, or of a verdict file alone.

        Raises
        ------
        UsageError
            Nothing of the kind is there.
        """
        place = Path(path)
        if place.is_file():
            return cls(path, _document(place, path))
        waits = (place / "request.json").is_file()
        possible = (place / "private",) if waits else (place / HOME, place)
        homes = [home for home in possible if (home / "verdict.json").is_file()]
        if not homes:
            raise UsageError(
                f"{path!r} is no finished run: it has no {HOME}/verdict.json; name the folder of a release, the folder "
                "of a private record or of a run that waits, or the verdict file of a run"
            )
        home = homes[0]
        found = {
            name: _document(home / f"{name}.json", path) if (home / f"{name}.json").is_file() else {}
            for name in ("manifest", "report")
        }
        request = _document(place / "request.json", path) if waits else {}
        return cls(path, _document(home / "verdict.json", path), found["manifest"], found["report"], request)


def _document(file: Path, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file.name} of {path!r} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):  # whatever is malformed was not written by a run
        raise UsageError(f"{file.name} of {path!r} cannot be read: it is no JSON, or damaged") from None
    wrong = misshapen(found, SHAPES.get(file.name, VERDICT))
    if wrong:
        raise UsageError(f"{file.name} of {path!r} is no document of a run, or damaged: {wrong}")
    document: Mapping[str, Any] = found
    return document

"""A finished publication in a folder, as its public documents describe it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privpipe.border import bordered
from privpipe.errors import UsageError

__all__ = ["Published", "published_at"]


RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A release that is published.

    Parameters
    ----------
    run_id : str
    started : datetime
        When its run began.
    folder : str
        Its own folder, behind the link that readers follow.
    verdict : mapping
        The public verdict.
    """

    run_id: str
    started: datetime
    folder: str
    verdict: Mapping[str, Any] = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether the public verdict says so."""
        return self.verdict.get("passed") is True


@bordered
def published_at(path: str) -> Published | None:
    """The release that a sink on this machine shows now; None: there is none that is whole.

    A folder is whole when both public documents name one run and every file is there in the size that the manifest
    says. Whether its rows hold what is stated is not checked here: `Job(action="judge")` does.

    Raises
    ------
    UsageError
        The path names another machine's file system.

    Examples
    --------
    >>> published_at("nowhere") is None
    True
    """
    if "://" in path:
        raise UsageError("only a release on a file system of this machine can be looked for; give its path")
    folder = Path(os.path.realpath(path))
    verdict, manifest = (_document(folder / "_privpipe" / f"{name}.json") for name in ("verdict", "manifest"))
    run_id = verdict.get("run_id")
    if not isinstance(run_id, str) or not RUN.fullmatch(run_id) or manifest.get("run_id") != run_id:
        return None
    output = manifest.get("output")
    files = output.get("files") if isinstance(output, dict) else None
    if not isinstance(files, list) or not files or not all(_is_there(folder, file) for file in files):
        return None
    try:
        started = datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:  # fourteen digits that are not a date and time
        return None
    return Published(run_id=run_id, started=started, folder=str(folder), verdict=verdict)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_there(folder: Path, file: Any) -> bool:
    try:
        return bool((folder / os.path.basename(file["name"])).stat().st_size == file["bytes"])
    except (OSError, KeyError, TypeError):
        return False

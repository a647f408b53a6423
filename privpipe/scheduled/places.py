"""Where a release may not go: into a folder of the scheduler that others list, execute or serve."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from privpipe.errors import UsageError
from privpipe.ledger import named_ledger
from privpipe.running.places import place_of

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.scheduled.job import Job

__all__ = ["require_kept_out"]


def require_kept_out(job: Job, policy: Policy) -> None:
    """Refuse a sink, record, ledger or report that lies in a folder to keep out of, whatever links lead there.

    Raises
    ------
    UsageError
    """
    if not job.keep_out:
        return
    for name, place in _places(job, policy):
        for what, folder in job.keep_out:
            if _inside(place, folder):
                raise UsageError(
                    f"{name} {str(place)!r} lies in {what} ({folder!r}): whoever reads that folder would read it, and "
                    "the scheduler takes what lies there for its own; name a folder outside"
                )


def _places(job: Job, policy: Policy) -> Iterator[tuple[str, Path]]:
    """What a run writes on this machine, as far as it is known without running."""
    base = Path(os.path.abspath(policy.base_dir))
    if job.report is not None:
        yield "the report", Path(job.report)
    if job.action != "release":
        return
    area: Path | None = None
    if job.target is not None or policy.sink is None or policy.sink.table is None:
        place = place_of(policy, job.target)
        area = place.area
        try:
            yield from place.folders
        finally:
            place.close()
    if policy.records is not None:
        yield "the folder of private records", base / policy.records
    elif area is None:
        yield "the folder of private records", base / ".privpipe"
    ledger = named_ledger(policy.entries)
    if ledger is not None:
        yield "the ledger", Path(os.path.abspath(ledger.path))


def _inside(place: Path, folder: str) -> bool:
    """Whether a path, or where it leads, is a folder or lies below it, by name or as the very same directory."""
    real = Path(os.path.realpath(folder))
    # The parent is followed and the name is not: the sink itself is a link, from its first release on.
    named = Path(os.path.realpath(place.parent), place.name)
    for path in {named, Path(os.path.realpath(place))}:
        if path.is_relative_to(real):
            return True
        for above in (path, *path.parents):  # a mount, or a file system that knows no case
            with suppress(OSError):
                if os.path.samefile(above, real):
                    return True
    return False

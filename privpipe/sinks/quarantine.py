"""Records that a release leaves out, as they came in, where only who runs it can read them.

The home is a folder of mode 0700, files in it have mode 0600::

    <home>/<run>/part-*.parquet               records that a run left out, which published
    <home>/.<run>.<sink>.staged               those of a run that has not published yet

They are staged before the release is published and moved once it is. A run killed in between leaves them staged, and
the next one finds by the sink whether they are moved or thrown away; a run that is refused leaves none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from privpipe.errors import SinkError, UsageError
from privpipe.private_files import private_folder, sync_folder
from privpipe.private_files.owned import keep_private
from privpipe.sinks.records import seen_by_readers

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.sinks.target import Target

__all__ = ["Quarantine"]

PRIVATE_FILE = 0o600


@dataclass(frozen=True)
class Quarantine:
    """Where the runs of a sink keep the records that they leave out.

    Parameters
    ----------
    home : Path
    sink : str
        What the runs publish to; other sinks may share the home.
    """

    home: Path
    sink: str

    @classmethod
    def of(cls, policy: Policy, place: Target) -> Self | None:
        """The folder that `failing: {sink: ...}` names; None where the policy has none.

        Raises
        ------
        UsageError
            It is the sink, in it or above it, so that readers of the release could come to it.
        """
        if policy.failing is None:
            return None
        home = Path(os.path.abspath(policy.base_dir / policy.failing.path))
        real = Path(os.path.realpath(home))
        for seen in seen_by_readers(place):
            if seen == real or seen in real.parents or real in seen.parents:
                raise UsageError(
                    f"failing.sink.path: {str(home)!r} is where readers of the release look, or above it: name a "
                    "folder apart from the sink"
                )
        return cls(home, place.name)

    def open(self, current: str | None) -> None:
        """Make the home, and see to what a killed run left; `current` is what the sink points at.

        Raises
        ------
        SinkError
            The home cannot be written, is a link, or belongs to another user.
        """
        private_folder(self.home)
        self.settle(current)

    def stage(self, run_id: str) -> Path:
        """An empty private folder for the records of a run."""
        with _written():
            folder = self.home / f".{run_id}.{self._tag}.staged"
            folder.mkdir(mode=0o700)
            keep_private(folder)
        return folder

    def close(self, folder: Path) -> None:
        """Have the written files readable by their owner alone, and on the disk."""
        with _written():
            for path in folder.rglob("*"):
                if path.is_file():
                    path.chmod(PRIVATE_FILE)
                    sync_folder(path)
            sync_folder(folder)
            sync_folder(self.home)

    def settle(self, current: str | None) -> None:
        """Move staged records of the run that the sink points at to their place, and throw the others away."""
        named = None if current is None else current.rstrip("/").rsplit("/", 1)[-1]
        with _written():
            for folder in self.home.glob(f".*.{self._tag}.staged"):
                run_id = folder.name[1 : -len(f".{self._tag}.staged")]
                if run_id == named:
                    os.replace(folder, self.home / run_id)
                else:
                    shutil.rmtree(folder)
            sync_folder(self.home)

    @property
    def _tag(self) -> str:
        return hashlib.sha256(self.sink.encode()).hexdigest()[:16]


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SinkError(f"the records that the run leaves out cannot be kept: {error.strerror or error}") from None

"""What a sink asks of a database: rows staged where no reader looks, and one transaction that publishes them."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from privpipe.blocks.table_name import TableName
from privpipe.engines.base.databases import Database
from privpipe.errors import SinkError
from privpipe.sinks.databases.loading import StagedRows

__all__ = ["DOCUMENTS", "NOTHING", "Release", "Store"]

DOCUMENTS: Final = "__documents"
"""Ends the name of the table of public documents."""
NOTHING: Final = "nothing was published"
MARK: Final = re.compile(r"privpipe: run (?P<run>\d{8}T\d{6}Z-[0-9a-f]{8}), (?:passed|failed), policy [0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a run publishes beside its rows.

    Parameters
    ----------
    run_id : str
    documents : mapping of text to text
        The public verdict, manifest and plan.
    """

    run_id: str
    documents: Mapping[str, str]

    @property
    def comment(self) -> str:
        """What is written at the table: nothing but what the public documents say.

        Examples
        --------
        >>> documents = {"verdict": '{"passed": true}', "manifest": '{"policy_hash": "' + "ab" * 32 + '"}'}
        >>> Release(run_id="20260102T030405Z-1a2b3c4d", documents=documents).comment[:56]
        'privpipe: run 20260102T030405Z-1a2b3c4d, passed, policy '
        """
        word = "passed" if json.loads(self.documents["verdict"])["passed"] else "failed"
        return f"privpipe: run {self.run_id}, {word}, policy {json.loads(self.documents['manifest'])['policy_hash']}"

    @staticmethod
    def run_of(comment: str | None) -> str | None:
        """The run that a comment of ours names.

        Examples
        --------
        >>> Release.run_of("visits of 2026") is None
        True
        """
        found = MARK.fullmatch(comment or "")
        return found["run"] if found else None


class Store(ABC):
    """One table of one database, on its way from release to release.

    Every method that talks to the database raises `SinkError` where the database fails or refuses; its texts are never
    passed on, since they quote cells, URLs and passwords.
    """

    database: Database
    """With the table of the sink."""

    @abstractmethod
    def take(self, area: Path) -> None:
        """Take the lock, refuse what is not ours, and clean up behind killed runs.

        Parameters
        ----------
        area : Path
            A private folder of this sink.
        """

    @abstractmethod
    def require_free(self) -> None:
        """Refuse what a release would be refused for, without a lock and without a change."""

    @abstractmethod
    def leave(self) -> None:
        """Take away what this run staged or kept, and let go of the lock."""

    @abstractmethod
    def load(self, rows: StagedRows, folder: Path) -> Database:
        """Load rows into a private table; gives back where they are read, as a source would be."""

    @abstractmethod
    def drop_loaded(self) -> None:
        """Take that table away."""

    @abstractmethod
    def publish(self, release: Release) -> None:
        """Replace the published rows, documents and comments by what was loaded, in one transaction."""

    @abstractmethod
    def withdraw(self, run_id: str) -> None:
        """Put back what was published before, in one transaction; nothing where another run is published."""

    @abstractmethod
    def current(self) -> str | None:
        """The run whose release is published."""

    @abstractmethod
    def texts(self) -> Mapping[str, str]:
        """The public documents of that release, by name; none where nothing is published."""

    @property
    @abstractmethod
    def called(self) -> str:
        """How people call it: never by a URL."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells it from other sinks; nobody prints it."""

    @property
    @abstractmethod
    def folder(self) -> Path | None:
        """The folder in which its work area lies; None: it has none."""

    @property
    def table(self) -> TableName:
        """The name of the sink."""
        if self.database.table is None:
            raise TypeError("a sink is a table")
        return self.database.table

    def foreign(self, what: str = "") -> SinkError:
        """What is said of a table that is not ours."""
        return SinkError(
            self.database.located(
                f"the sink {str(self.table)!r} is a table that privpipe did not publish{what}; rename or drop it, or "
                f"give the sink another name ({NOTHING})"
            )
        )

    def busy(self) -> SinkError:
        """What is said where another run holds the lock."""
        return SinkError(
            f"another run is writing the sink {str(self.table)!r}; this one did nothing. Try again when it is done"
        )

"""What a release run returns; from the moment its release can be read, what fails is noted and withdraws nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from privpipe.errors import PrivpipeError
from privpipe.html_tables import Table, cut, html_tables
from privpipe.judging import Assessment
from privpipe.running.plan import Plan
from privpipe.sinks.records import note_afterwards

__all__ = ["Outcome", "ReleaseResult", "reason_of"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ReleaseResult:
    """A published release.

    Parameters
    ----------
    path : str
        Where it is read.
    run_id : str
    assessment : Assessment
        Of the published files.
    plan : Plan
    manifest : mapping
        The whole manifest, as the private record holds it.
    record : str
        Folder of the private record.
    public : mapping of str to mapping
        The public documents by name, as published: verdict, manifest, plan.
    target : str
        What it is published to: a path, a URL, a table.
    quarantine : str
        Folder of the records that were left out, where the policy has `failing:`; nothing where none was.
    quarantined : int
        Their number.
    published : bool
        False after a dry run, and where the source had no records (`nothing_to_publish`): there is no path and no
        record, and `target` is where it would have gone.
    repeated : bool
        The batch was published before, by the run `run_id`: nothing was judged, so `assessment` has no verdict, and
        plan and manifest are empty.
    unfinished : tuple of str
        What could not be done once the release was published, each with what is to be done about it. The release
        stays published; the private record has the same lines in `afterwards.txt`.
    """

    path: str
    run_id: str
    assessment: Assessment
    plan: Plan
    manifest: Mapping[str, Any]
    record: str = ""
    public: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    target: str = ""
    quarantine: str = ""
    quarantined: int = 0
    published: bool = True
    repeated: bool = False
    unfinished: tuple[str, ...] = ()

    @property
    def nothing_to_publish(self) -> bool:
        """Whether the source had no records, which the policy's `empty: pass` allows."""
        return not self.published and not self.manifest["output"]["files"]

    @property
    def verdict_document(self) -> dict[str, Any]:
        """The whole verdict document, as the private record holds it."""
        return self.assessment.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """The document of the run for machines: the whole verdict, with where the release is, or would be."""
        if self.repeated:
            return {"run_id": self.run_id, "published": False, "already_published": True, "target": self.target}
        output = self.manifest["output"]
        return {
            **self.verdict_document,
            "published": self.published,
            "target": self.target,
            "columns": list(output["columns"]),
            "files": [{"name": file["name"], "bytes": file["bytes"]} for file in output["files"]],
        }

    def __repr__(self) -> str:
        judged = self.assessment
        if self.repeated:
            return f"ReleaseResult({cut(self.run_id, 40)}, published before, at {cut(self.target, 90)!r})"
        where = f"at {cut(self.path, 90)!r}" if self.published else f"not published, meant for {cut(self.target, 90)!r}"
        return f"ReleaseResult({cut(self.run_id, 40)}, {judged.records:,} records {where})"

    def _repr_html_(self) -> str:
        if self.repeated:
            return html_tables("Published before", Table(rows=[("path", cut(self.target)), ("run", self.run_id)]))
        about = [("path", cut(self.path)), ("run", self.run_id), ("plan", repr(self.plan))]
        return html_tables("Published", Table(rows=about)) + self.assessment._repr_html_()


log = logging.getLogger("privpipe.release")
CLOSING = "what the run had open was not closed in order; the next run to this sink removes what is left"


@dataclass
class Outcome:
    """A context around a run: once `stands` was called, errors that reach it are noted and go no further.

    An interruption (Ctrl-C, SIGTERM and SIGHUP at the command line) is noted likewise: a user who learns that a run was
    interrupted runs it again, and would publish twice.

    Examples
    --------
    >>> with Outcome() as outcome:
    ...     raise ValueError
    Traceback (most recent call last):
    ValueError
    """

    _result: ReleaseResult | None = field(default=None, init=False)
    _unfinished: list[str] = field(default_factory=list, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or self._result is None:
            return False
        if not isinstance(error, Exception | KeyboardInterrupt):  # the host ends, and returns nothing to anyone
            error.add_note(f"privpipe: the release is published (run {self._result.run_id})")
            return False
        self.note(CLOSING, error)
        return True

    def stands(self, result: ReleaseResult) -> None:
        """The release is published, and judged as it is read: there is no way back from here."""
        self._result = result

    @property
    def published(self) -> bool:
        """Whether the release can no longer be withdrawn."""
        return self._result is not None

    @property
    def result(self) -> ReleaseResult:
        """The result, with what could not be done after the release was published."""
        if self._result is None:
            raise TypeError("the run has no result")
        return replace(self._result, unfinished=tuple(self._unfinished))

    def settled(self, step: Callable[[], object], otherwise: str) -> None:
        """Take a step after publication; where it fails, note what is the case otherwise and what to do."""
        try:
            step()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 whatever it is, the release is published
            self.note(otherwise, error)

    def note(self, otherwise: str, error: BaseException) -> None:
        """Note a failure in the result, in the log and in the private record, as far as each can be written."""
        what = f"{otherwise} ({reason_of(error)})"
        self._unfinished.append(what)
        with suppress(Exception):  # a handler of the host's may fail, and the other channels are left
            log.warning("the release is published; %s", what)
        record = "" if self._result is None else self._result.record
        with suppress(Exception):
            note_afterwards(record, what)


def reason_of(error: BaseException) -> str:
    """What may be shown of an error: texts of foreign ones may quote data values.

    Examples
    --------
    >>> reason_of(OSError(28, "4711")), reason_of(ValueError("4711")), reason_of(KeyboardInterrupt())
    ('No space left on device', 'ValueError', 'interrupted')
    """
    if isinstance(error, PrivpipeError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__

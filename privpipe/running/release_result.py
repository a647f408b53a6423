"""The result of a release run, one per batch; once its release can be read, failures are noted and withdraw nothing."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from privpipe.engines import Engine
from privpipe.engines.base.part_files import partitions_of
from privpipe.errors import DataError, PrivpipeError, UsageError
from privpipe.html_tables import Table, cut, html_tables
from privpipe.judging import Assessment
from privpipe.running.plan import Plan
from privpipe.running.staging import Staged
from privpipe.sinks.records import note_afterwards

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["Outcome", "ReleaseResult", "already_published", "reason_of", "require_batch", "require_own_partitions"]


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
        Steps that failed once the release was published, each with its remedy. The release
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

    An interruption (Ctrl-C, SIGTERM and SIGHUP at the command line) is noted too: a user who learns that a run was
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
        """The result, with the steps that failed after the release was published."""
        if self._result is None:
            raise TypeError("the run has no result")
        return replace(self._result, unfinished=tuple(self._unfinished))

    def settled(self, step: Callable[[], object], otherwise: str) -> None:
        """Take a step after publication; where it fails, note the consequence and what to do."""
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


KEY = re.compile(r"[A-Za-z0-9_.:T+-]{1,64}")


def require_batch(batch: str | None) -> None:
    """Refuse a batch key that could hold more than the name of a run: it is public.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> require_batch("2026-01-31T00:00:00+00:00")
    >>> require_batch("visits of Ann")
    Traceback (most recent call last):
    privpipe.errors.UsageError: batch: a key has 1 to 64 letters (A to Z), digits and - _ : . +, as in 2026-01-31
    """
    if batch is not None and not (isinstance(batch, str) and KEY.fullmatch(batch)):
        raise UsageError("batch: a key has 1 to 64 letters (A to Z), digits and - _ : . +, as in 2026-01-31")


def already_published(batch: str | None, run_id: str, path: str, target: str) -> ReleaseResult:
    """The answer to a batch that an earlier run published: nothing was read, judged or changed for it."""
    note = f"the batch {batch!r} was published by run {run_id}; nothing was judged or published again"
    return ReleaseResult(
        path=path,
        run_id=run_id,
        assessment=Assessment(verdicts=(), records=0, notes=(note,)),
        plan=Plan(policy_digest="", records=0, stages=()),
        manifest={},
        target=target,
        repeated=True,
    )


def require_own_partitions(engine: Engine, policy: Policy, staged: Staged) -> None:
    """Refuse released rows in other partitions than those of the source, where partitions are replaced.

    A partition is replaced by the rows of the batch that are released in it. Were rows moved to another one, or were
    none left of one, rows that others published would go, or rows of people would be published twice.

    Raises
    ------
    DataError
    """
    sink = policy.sink
    if sink is None or sink.mode != "replace_partition":
        return
    columns = list(sink.partition)
    before, after = (
        frozenset(partitions_of(engine.distinct(table, columns), columns)[0])
        for table in (staged.original, staged.table)
    )
    if before != after:
        raise DataError(
            f"sink.partition: {', '.join(map(repr, columns))}: {len(after - before):,} partitions of the released rows "
            f"are not in the source, and {len(before - after):,} of the source have no released row: stages must not "
            "change partition columns, nor suppress all rows of a partition; name columns that no stage changes"
        )

"""The lock of a sink in a store: an object that says who is at work, and lapses when nobody renews it.

A lock cannot be trusted alone: a process that stood still for an hour believes that it holds it. It keeps a second run
from beginning; that two runs never both publish, the pointer decides, which is switched only from the version that a
run found when it began.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from typing import Any

from privpipe.engines.base.objects import OpenedStore, reason_of
from privpipe.errors import SinkError
from privpipe.private_files import has_ended, this_process
from privpipe.sinks.conditional import Conditional, Conflict, Version, holds_conditions

__all__ = ["LAPSES", "Lease"]

LAPSES = 300.0
"""Seconds after which a lock that was not renewed may be taken over, by the clock of the store."""
log = logging.getLogger("privpipe.release")


class Lease:
    """The lock ``_LOCK`` beside a sink.

    Parameters
    ----------
    store : OpenedStore
        Of the sink.
    state : str
        The folder of the lock.
    writes : Conditional, optional
        None: the store has no conditional writes. Then the lock is created exclusively where the file system can, and
        one that a killed run left is removed by hand.
    """

    def __init__(self, store: OpenedStore, state: str, writes: Conditional | None) -> None:
        self.store, self.path, self.clock = store, f"{state}/_LOCK", f"{state}/_CLOCK"
        self.writes = writes
        self.owner = secrets.token_hex(8)
        self._tag = ""
        self._renewed = 0
        self._held = False
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> Conditional | None:
        """Hold the lock; the conditional writes that the store was seen to keep to, or None.

        Raises
        ------
        SinkError
            Another run holds it.
        """
        if self.writes is None:
            self._create_alone()
            return None
        found = self.writes.read(self.path)
        try:
            self._tag = (
                self.writes.create(self.path, self._content())
                if found is None
                else self._taken_over(self.writes, found)
            )
        except Conflict:
            now = self.writes.read(self.path)
            if now is None or not self._is_ours(now):  # else an answer was lost, and the write was repeated
                raise self._another("try again when it is done") from None
            self._tag = now.tag
        except NotImplementedError:
            self.writes = None
            self._create_alone()
            return None
        self._held = True
        if not holds_conditions(self.writes, self.path):
            log.warning("the store of %s keeps to no conditional writes: its lock alone excludes two runs", self.path)
            self.writes = None
            self.store.files.pipe_file(self.path, self._content())
            return None
        self._thread = threading.Thread(target=self._renew, name="privpipe-lock", daemon=True)
        self._thread.start()
        return self.writes

    def release(self) -> None:
        """Let go of the lock, if it is still ours; what fails here is told in the log."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(10)
        if not self._held:
            return
        self._held = False
        try:
            found = self.writes.read(self.path) if self.writes is not None else None
            if self.writes is None or (found is not None and self._is_ours(found)):
                self.store.files.rm_file(self.path)
        except Exception as problem:  # noqa: BLE001 the release is what it is; the next run says what to do
            log.warning("%s could not be removed (%s)", self.path, type(problem).__name__)

    def _taken_over(self, writes: Conditional, found: Version) -> str:
        """The lock of a run that is no more."""
        process = _said(found).get("process", "")
        if not (isinstance(process, str) and has_ended(process)):
            age = self._age()
            if age < LAPSES:
                raise self._another(
                    f"its lock {self.path} was renewed {age:,.0f} s ago. Try again when it is done; a lock that a "
                    f"killed run left lapses after {LAPSES:,.0f} s"
                )
        return writes.replace(self.path, self._content(), found.tag)

    def _age(self) -> float:
        """Seconds since the lock was written, both times by the clock of the store."""
        self.store.files.pipe_file(self.clock, secrets.token_bytes(8))
        times = [self.store.files.modified(path) for path in (self.clock, self.path)]
        return float((times[0] - times[1]).total_seconds())

    def _renew(self) -> None:
        while not self._done.wait(LAPSES / 5):
            writes = self.writes
            try:
                self._renewed += 1
                if writes is not None:
                    self._tag = writes.replace(self.path, self._content(), self._tag)
            except Conflict:
                found = self._looked()
                if found is None or not self._is_ours(found):
                    log.warning("%s was taken over by another run; this one will publish nothing", self.path)
                    return
                self._tag = found.tag  # an answer was lost
            except Exception as error:  # noqa: BLE001 - the next renewal may reach the store again
                log.debug("%s was not renewed: %s", self.path, reason_of(error))

    def _looked(self) -> Version | None:
        try:
            return self.writes.read(self.path) if self.writes is not None else None
        except Exception:  # noqa: BLE001 - the store does not answer
            return None

    def _create_alone(self) -> None:
        files = self.store.files
        if files.exists(self.path):
            raise self._another(f"or was killed while it did: then remove {self.path}")
        try:
            with files.open(self.path, "xb") as handle:
                handle.write(self._content())
        except FileExistsError:
            raise self._another("try again when it is done") from None
        except (ValueError, NotImplementedError):
            # The file system has no exclusive creation; the check above is the best it can do.
            files.pipe_file(self.path, self._content())
        self._held = True

    def _another(self, told: str) -> SinkError:
        return SinkError(f"another run is writing the sink {self.store.url!r}; {told}")

    def _content(self) -> bytes:
        said = {"owner": self.owner, "process": this_process(), "renewed": self._renewed}
        return json.dumps(said).encode()

    def _is_ours(self, found: Version) -> bool:
        return _said(found).get("owner") == self.owner


def _said(found: Version) -> dict[str, Any]:
    try:
        said = json.loads(found.content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}

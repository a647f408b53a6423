"""Settings that a session is lent while an engine is at work in it: as many tasks as the data are worth."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privpipe.engines.spark.versions import coalesces_kept

__all__ = ["Loan", "tasks_for"]


log = logging.getLogger("privpipe.engines.spark")
PARTITIONS = "spark.sql.shuffle.partitions"
ADAPTIVE = "spark.sql.adaptive.enabled"
KEPT = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
PACKED = "spark.sql.inMemoryColumnarStorage.compressed"
BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
UNLIMITED = "2147483647"
"""Under any other limit, Spark adds up the bytes of a batch again with each row, a tenth of all its work."""
SHORT_ROW = 256
"""Bytes of a row in the files, up to which batches of many thousand rows stay small."""
LEAST_ROWS = 1 << 14
"""Records that are worth a separate task."""
TASK_BYTES = 1 << 25
CELL_BYTES = 16


def tasks_for(records: int, columns: int, cores: int) -> int:
    """Into how many parts a shuffle of so many records is cut.

    Each core has two, more where the parts would be large, and fewer where they would be tiny.

    Examples
    --------
    >>> [tasks_for(records, 10, 2) for records in (0, 1_000, 32_561, 1_000_000, 10_000_000)]
    [1, 1, 2, 6, 58]
    """
    heavy = -(-records * (columns + 2) * CELL_BYTES // TASK_BYTES)
    return max(1, heavy, min(-(-records // LEAST_ROWS), 2 * cores))


@dataclass
class _Session:
    """What a session was set to, and what each engine in it asks for."""

    before: dict[str, str | None] = field(default_factory=dict)
    wishes: dict[int, dict[str, str]] = field(default_factory=dict)

    def wanted(self) -> dict[str, str]:
        """What satisfies all engines: most parts, tables packed where one packs them, else the last."""
        found: dict[str, str] = {}
        for wish in self.wishes.values():
            for name, value in wish.items():
                if name == PARTITIONS:
                    value = str(max(int(value), int(found.get(name, 0))))
                found[name] = max(value, found.get(name, "")) if name == PACKED else value
        return found


_sessions: dict[str, _Session] = {}
_lock = threading.Lock()


class Loan:
    """The settings of one engine in a session, until it closes.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or Connect.
    parts : int, optional
        Parts of every shuffle; default: by the size of the tables.
    own : bool
        Whether the session was started for this engine; else its own number of parts is never exceeded.
    """

    def __init__(self, session: Any, *, parts: int | None = None, own: bool = False) -> None:
        self._session, self._own, self._fixed = session, own, parts is not None
        self._key = _identity(session)
        self._most = 0 if own else int(_value(session, PARTITIONS) or 0)
        self._packs = _explicit(session, PACKED) is None
        self._limits = _value(session, BATCH) is not None and _explicit(session, BATCH) is None
        self._wish = {ADAPTIVE: "true"}
        if coalesces_kept():
            self._wish[KEPT] = "true"
        if parts is not None:
            self._wish[PARTITIONS] = str(parts)
        self._ask()

    def sized(self, records: int, columns: int) -> None:
        """Lend what tables of so many records are worth; the largest table of a run decides."""
        if self._fixed:
            return
        wanted = tasks_for(records, columns, _cores(self._session))
        wanted = max(wanted, int(self._wish.get(PARTITIONS, 0)))
        wanted = min(wanted, self._most) if self._most else wanted
        if str(wanted) != self._wish.get(PARTITIONS):
            self._wish[PARTITIONS] = str(wanted)
            self._ask()

    def keeps(self, size: int) -> None:
        """Lend what a kept table of so many bytes needs: it stays unchanged while it fits into executors' memory.

        Several tables of that size lie partly on disk, which is cheaper than packing them. What the user has set
        stays set; the largest table of a run decides.
        """
        if self._packs and self._wish.get(PACKED) != "true":
            packed = "false" if 0 <= size <= _memory(self._session) else "true"
            if packed != self._wish.get(PACKED):
                self._wish[PACKED] = packed
                self._ask()

    def sends(self, size: float, records: int) -> None:
        """Lend what rows of a table of so many bytes in all are worth: short ones go to workers by their number alone.

        What the user has set stays set; one table of long rows decides; and older Sparks have no such limit.
        """
        if not self._limits:
            return
        if size > SHORT_ROW * records:
            self._limits = False
            with _lock:
                if self._wish.pop(BATCH, None) is not None:
                    self._give_back(_sessions[self._key], {BATCH: UNLIMITED})
        elif BATCH not in self._wish:
            self._wish[BATCH] = UNLIMITED
            self._ask()

    def close(self) -> None:
        """Give back; what others have set in the meantime stays."""
        with _lock:
            held = _sessions.get(self._key)
            if held is None or held.wishes.pop(id(self), None) is None:
                return
            self._give_back(held, self._wish)
            if not held.wishes:
                del _sessions[self._key]

    def _give_back(self, held: _Session, lent: Mapping[str, str]) -> None:
        """Settings that this engine asks for no longer, with the values that it asked for."""
        wanted = held.wanted()
        for name, value in lent.items():
            if name in wanted:
                _set(self._session, name, wanted[name])
            elif _value(self._session, name) == value:
                _set(self._session, name, held.before.get(name))

    def _ask(self) -> None:
        with _lock:
            held = _sessions.setdefault(self._key, _Session())
            held.wishes[id(self)] = self._wish
            for name, value in held.wanted().items():
                if name not in held.before:
                    held.before[name] = _explicit(self._session, name)
                if _value(self._session, name) != value:
                    _set(self._session, name, value)


def _identity(session: Any) -> str:
    """The same for all Python handles on one session."""
    inner = getattr(session, "_jsparkSession", None)
    return str(session.session_id) if inner is None else str(inner.sessionUUID())


def _cores(session: Any) -> int:
    """Cores that the session's executors have; unknown for Connect."""
    return int(session.sparkContext.defaultParallelism) if hasattr(session, "_jsparkSession") else 8


def _memory(session: Any) -> int:
    """Bytes that executors keep tables in; unknown for Connect."""
    if not hasattr(session, "_jsparkSession"):
        return 0
    held = session.sparkContext._jsc.sc().getExecutorMemoryStatus().values().iterator()
    total = 0
    while held.hasNext():
        total += int(held.next()._1())
    return total


def _value(session: Any, name: str) -> str | None:
    try:
        return str(session.conf.get(name))
    except Exception as error:  # noqa: BLE001 - a setting that this Spark lacks, or hides
        log.debug("%s is not known: %s", name, type(error).__name__)
        return None


def _explicit(session: Any, name: str) -> str | None:
    """The value that a setting was given; None where it has its default."""
    inner = getattr(session.conf, "_jconf", None)
    try:
        given = inner.contains(name) if inner is not None else name in session.conf.getAll
    except Exception as error:  # noqa: BLE001 - then its value comes back as one that was given
        log.debug("%s cannot be distinguished from its default: %s", name, type(error).__name__)
        given = True
    return _value(session, name) if given else None


def _set(session: Any, name: str, value: str | None) -> None:
    try:
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)
    except Exception as error:  # noqa: BLE001 - serverless Spark lets no one set anything, and works all the same
        log.debug("%s is not set: %s", name, type(error).__name__)

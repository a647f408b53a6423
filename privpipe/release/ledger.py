"""Ledgers: what is remembered from release to release, and how it moves on in the step that publishes.

A ledger is a folder::

    ledger/ledger.json            salt, what is followed, commitment to the key
    ledger/lock                   held while a run is at work
    ledger/00001-<run>.parquet    a release: keyed hashes of units and classes
    ledger/pending-<run>.parquet  a run about to publish, with what its sink pointed at before

A pending entry counts from the moment its sink points at its run: publishing and remembering are one rename. A run
killed right after it leaves the entry pending, and the next run finds by the sink which of the two happened; where the
sink has moved on since, the entry counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks.release_history import HistoryMeasure, ReleaseHistory, ReleaseRows
from privpipe.draws import Seed
from privpipe.draws.secret import read_key
from privpipe.errors import DataError, SinkError, UsageError
from privpipe.release.remote import RemoteTarget, is_remote
from privpipe.release.target import LocalTarget, Target

if TYPE_CHECKING:
    from privpipe.release.policy import Policy

__all__ = ["NOT_JUDGED", "Ledger", "history_entries", "named_ledger"]

NOT_JUDGED = "complementary releases were not judged: no ledger and no earlier release is declared"
VERSION = 1
COLUMNS = ("unit_1", "unit_2", "class_1", "class_2", "value_1", "value_2")


def history_entries(policy: Policy) -> tuple[HistoryMeasure, ...]:
    """The policy's entries over several releases."""
    return tuple(entry for entry in (*policy.guarantees, *policy.measures) if isinstance(entry, HistoryMeasure))


def named_ledger(policy: Policy) -> HistoryMeasure | None:
    """The entry that names the policy's ledger; one ledger, named alike wherever it is.

    Raises
    ------
    UsageError
        Two ledgers, or one that is kept in two ways.
    """
    named = [entry for entry in history_entries(policy) if entry.ledger is not None]
    kept = {(e.ledger, str(e.key), getattr(e, "sensitive", None), e.quasi_identifiers) for e in named}
    if len(kept) > 1:
        raise UsageError(
            "complementary_release: a policy keeps one ledger, with one key, one sensitive column and one "
            "set of quasi_identifiers; the entries name several"
        )
    return named[0] if named else None


@dataclass
class Ledger:
    """An open ledger; a context that keeps other runs out.

    Parameters
    ----------
    path : Path
    key : mapping, optional
        Where the key of persons is kept; None: combinations of original quasi-identifiers are followed.
    """

    path: Path
    key: Mapping[str, str] | None = None
    _lock: int | None = field(default=None, init=False, repr=False)
    _salt: str = field(default="", init=False, repr=False)
    _pending: Path | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        if is_remote(str(self.path)):
            raise UsageError("complementary_release: a ledger lies on a local (or mounted) file system")
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._close()
            raise SinkError(
                "another run is using the ledger; this one did nothing. Try again when it is done"
            ) from None
        except OSError as error:
            self._close()
            raise SinkError(f"the ledger cannot be written: {error.strerror}") from None
        try:
            self._read_head()
            self.settle()
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self._close()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self._close()

    @property
    def persons(self) -> bool:
        """Whether persons are followed, by a key."""
        return self.key is not None

    @property
    def seed(self) -> Seed:
        """What keys the hashes: the key with the ledger's salt, or the salt alone."""
        own = read_key("ComplementaryRelease", self.key) if self.key is not None else b""
        return Seed(own + bytes.fromhex(self._salt))

    def releases(self) -> tuple[ReleaseRows, ...]:
        """Every release it remembers, in the order of their publication."""
        return tuple(_read(path) for path in sorted(self.path.glob("[0-9]*-*.parquet")))

    def history(self, current: ReleaseRows) -> ReleaseHistory:
        """What it remembers beside a new release."""
        return ReleaseHistory(current=current, earlier=self.releases(), persons=self.persons)

    def prepare(self, current: ReleaseRows, run_id: str, target: str, before: str | None) -> None:
        """Note a run that is about to publish; it counts once `target` points at it."""
        pending = self.path / f"pending-{run_id}.parquet"
        try:
            _write(current, pending, {"run_id": run_id, "target": target, "before": before})
            _flush(self.path)
        except OSError as error:
            raise SinkError(f"the ledger cannot be written: {error.strerror}") from None
        self._pending = pending

    def settle(self) -> None:
        """Keep pending entries whose run was published, and throw the others away."""
        for pending in sorted(self.path.glob("pending-*.parquet")):
            run = _head(pending)
            now = _current(str(run["target"]))
            if now == run["before"] and not _names(now, run["run_id"]):
                pending.unlink()
                continue
            number = 1 + max((int(path.name[:5]) for path in self.path.glob("[0-9]*-*.parquet")), default=0)
            os.replace(pending, self.path / f"{number:05}-{run['run_id']}.parquet")
        _flush(self.path)

    def _read_head(self) -> None:
        """The ledger's own file, made when it is first used."""
        head = self.path / "ledger.json"
        if not head.exists():
            self._salt = secrets.token_hex(32)
            document = {"version": VERSION, "salt": self._salt, "persons": self.persons}
            document["commitment"] = self.seed.commitment(self._salt)
            new = self.path / "ledger.json.new"
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(document, file, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, head)
            return
        try:
            found = json.loads(head.read_text(encoding="utf-8"))
            version, self._salt, persons = found["version"], str(found["salt"]), found["persons"]
            commitment = found["commitment"]
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError("the ledger cannot be read: ledger.json is not one of ours") from None
        if version != VERSION:
            raise DataError(f"the ledger has version {version!r}, this program reads {VERSION}")
        if persons != self.persons:
            way = "persons, by a key" if persons else "combinations of quasi-identifiers, without a key"
            raise UsageError(
                f"complementary_release: the ledger follows {way}; give the key it was begun with, or none"
            )
        if self.seed.commitment(self._salt) != commitment:
            raise UsageError("complementary_release: the ledger was begun with another key")

    def _close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _names(current: str | None, run_id: str) -> bool:
    return current is not None and current.rsplit("/", 1)[-1] == run_id


def _current(target: str) -> str | None:
    """What a target points at now."""
    if not is_remote(target):
        return LocalTarget(Path(target)).current()
    place: Target = RemoteTarget(target)
    try:
        return place.current()
    finally:
        place.__exit__(None, None, None)


def _write(rows: ReleaseRows, path: Path, head: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = [rows.units, rows.classes, *([] if rows.values is None else [rows.values])]
    columns = dict(zip(COLUMNS, np.hstack(words).T, strict=False))
    table = pa.table({**columns, "records": rows.records})
    table = table.replace_schema_metadata({"privpipe": json.dumps(dict(head), sort_keys=True)})
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        pq.write_table(table, file)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> ReleaseRows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        pairs = [np.column_stack([table[name].to_numpy() for name in COLUMNS[at : at + 2]]) for at in (0, 2)]
        told = "value_1" in table.schema.names
        values = np.column_stack([table[name].to_numpy() for name in COLUMNS[4:]]) if told else None
        return ReleaseRows(pairs[0], pairs[1], table["records"].to_numpy(), values)
    except (OSError, KeyError, pa.ArrowInvalid):
        raise DataError(f"the ledger cannot be read: {path.name} is torn or not one of ours") from None


def _head(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[b"privpipe"])
        return found
    except (OSError, KeyError, ValueError, pa.ArrowInvalid):
        # Torn before it was whole, hence before its run published anything.
        return {"run_id": "", "target": "", "before": None}


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)

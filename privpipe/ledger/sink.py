"""What a sink keeps of its ledger: its identity, and its last entry at the sink's last release.

The record is kept in the sink's own work area, away from the ledger, so that a ledger that is lost, cut or
exchanged leaves a witness. It is written before the rename that publishes, with what the sink pointed at, and read by
the same rule as the ledger's own notes: it counts unless the sink still points where it did.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from privpipe.errors import DataError, SinkError
from privpipe.ledger.entry import Seal
from privpipe.ledger.folder import canonical, read_document
from privpipe.sinks.delta import local_target
from privpipe.sinks.remote_delta import remote_target
from privpipe.sinks.target import LocalTarget, is_remote

__all__ = [
    "Point",
    "SinkRecord",
    "Witness",
    "counts",
    "current_of",
    "forget_what_never_was",
    "place_of",
    "recalled",
    "remember",
]

VERSION = 1


class Witness(Protocol):
    """What a sink must do to be one."""

    def current(self) -> str | None:
        """What names the published release."""

    def recall(self) -> bytes | None:
        """What the sink keeps; None: nothing."""

    def remember(self, data: bytes) -> None:
        """Keep this instead."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A place in a ledger's history.

    Parameters
    ----------
    ledger : str
        Its id.
    number : int
        Entries up to there.
    link : str
        Link of the last one.
    seal : str
        Keyed hash of these three under the ledger's secret.
    """

    ledger: str
    number: int
    link: str = field(repr=False)
    seal: str = field(default="", repr=False)

    def sealed(self, seal: Seal) -> Point:
        """The same, sealed."""
        return replace(self, seal=seal.link(self._content()))

    def holds(self, seal: Seal) -> bool:
        """Whether the seal is this ledger's."""
        return hmac.compare_digest(self.seal, seal.link(self._content()))

    def _content(self) -> bytes:
        return b"sink " + canonical({"ledger": self.ledger, "number": self.number, "link": self.link})

    @classmethod
    def read(cls, document: Mapping[str, Any] | None) -> Point | None:
        """From its fields."""
        if document is None:
            return None
        texts = {name: document[name] for name in ("ledger", "link", "seal")}
        if (
            not all(isinstance(text, str) and text.isascii() for text in texts.values())
            or type(document["number"]) is not int
        ):
            raise TypeError("not a point")
        return cls(number=document["number"], **texts)


@dataclass(frozen=True, kw_only=True)
class SinkRecord:
    """What a sink remembers.

    Parameters
    ----------
    reached : Point or None
        Where the ledger had come with the last release that counts.
    next : Point or None
        Where it comes with the release that was about to be published.
    run_id, before : str or None
        That run, and what the sink pointed at before it.
    """

    reached: Point | None = None
    next: Point | None = None
    run_id: str | None = None
    before: str | None = None

    def to_bytes(self) -> bytes:
        """The file."""
        document: dict[str, Any] = {"version": VERSION, **asdict(self)}
        document["checksum"] = hashlib.sha256(canonical(document)).hexdigest()
        return canonical(document)

    @classmethod
    def read(cls, data: bytes) -> SinkRecord:
        """A record that is whole.

        Raises
        ------
        DataError
        """
        what = "the sink's record of its ledger"
        document = read_document(data, what)
        try:
            checksum = document.pop("checksum")
            run_id, before = document["run_id"], document["before"]
            whole = checksum == hashlib.sha256(canonical(document)).hexdigest() and document["version"] == VERSION
            if whole and isinstance(run_id, str | None) and isinstance(before, str | None):
                reached, following = Point.read(document["reached"]), Point.read(document["next"])
                return cls(reached=reached, next=following, run_id=run_id, before=before)
        except (KeyError, TypeError):
            pass
        raise DataError(f"{what} was changed, or is not one of ours")

    def settled(self, now: str | None) -> SinkRecord:
        """The record once it is known what the sink points at."""
        if self.next is None or not counts(now, self.run_id or "", self.before):
            return SinkRecord(reached=self.reached)
        return SinkRecord(reached=self.next)


def counts(now: str | None, run_id: str, before: str | None) -> bool:
    """Whether a run that was about to publish did so, by what its sink points at now.

    Where the sink has moved on since, it counts: that can only refuse too much.

    Examples
    --------
    >>> [counts(now, "b", before="releases/a") for now in ("releases/a", "releases/b", None)]
    [False, True, True]
    """
    return now != before or (now is not None and now.rsplit("/", 1)[-1] == run_id)


def recalled(place: Witness) -> SinkRecord | None:
    """What a sink remembers, settled; None: nothing.

    Raises
    ------
    DataError
        The record was changed.
    """
    data = place.recall()
    return None if data is None else SinkRecord.read(data).settled(place.current())


def forget_what_never_was(place: Witness) -> SinkRecord | None:
    """What a sink remembers, and let it keep that: before it points elsewhere, a run that was killed is recognised."""
    found = recalled(place)
    if found is not None:
        remember(place, found)
    return found


def remember(place: Witness, record: SinkRecord) -> None:
    """Have a sink keep a record, where it holds anything new."""
    data = record.to_bytes()
    if place.recall() != data:
        place.remember(data)


def current_of(target: str) -> str | None:
    """What a sink points at now; another value than ever before where its work area is gone."""
    if is_remote(target):
        place = remote_target(target)
        try:
            return place.current()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SinkError(f"what a sink of the ledger points at cannot be read: {type(error).__name__}") from None
        finally:
            place.__exit__(None, None, None)
    local = local_target(Path(target))
    return local.current() if local.state.is_dir() else "gone"


def place_of(target: str) -> LocalTarget | None:
    """A sink of this machine that still exists; None for others, which are not asked."""
    if is_remote(target):
        return None
    local = local_target(Path(target))
    return local if local.state.is_dir() else None

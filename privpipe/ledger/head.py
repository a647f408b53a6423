"""``ledger.json``: the identity of a ledger, its settings and its last entry."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from privpipe.errors import DataError, UsageError
from privpipe.ledger.folder import HEAD, canonical, read_document
from privpipe.ledger.seal import Seal

__all__ = ["OLD", "VERSION", "Head", "Loss", "is_first_version", "now"]

VERSION = 2
ID = re.compile("[0-9a-f]{32}")
OLD = (
    "the ledger is of version 1, whose entries are not chained; seal it with `privpipe ledger repair` once you are "
    "sure that it is whole. Nothing was published"
)


def now() -> str:
    """The time, as ledgers write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """History that was declared lost.

    Parameters
    ----------
    ledger : str
        Id of the ledger that was there; empty where nothing is known of it.
    time : str
    kept : int
        Entries that went over into this ledger.
    """

    ledger: str
    time: str
    kept: int


@dataclass(frozen=True, kw_only=True)
class Head:
    """The state of a ledger.

    Parameters
    ----------
    id : str
    salt : str
    persons : bool
        Persons are followed, by a key; else combinations of original quasi-identifiers.
    normalise : tuple of str
    begun : str
    losses : tuple of Loss
    number : int
        Entries.
    link : str
        Link of the last one.
    """

    id: str
    salt: str = field(repr=False)
    persons: bool
    normalise: tuple[str, ...] = ()
    begun: str = ""
    losses: tuple[Loss, ...] = ()
    number: int = 0
    link: str = ""

    @classmethod
    def new(cls, *, persons: bool, normalise: tuple[str, ...], salt: str | None = None) -> Head:
        """The head of a new ledger, without its first link."""
        return cls(
            id=secrets.token_hex(16),
            salt=salt or secrets.token_hex(32),
            persons=persons,
            normalise=tuple(sorted(normalise)),
            begun=now(),
        )

    def identity(self) -> dict[str, Any]:
        """What each entry repeats, so that a lost head can be made anew."""
        found = asdict(self)
        del found["number"], found["link"]
        return found | {"normalise": list(self.normalise), "losses": [asdict(loss) for loss in self.losses]}

    def at(self, number: int, link: str) -> Head:
        """The head after an entry."""
        return replace(self, number=number, link=link)

    def to_bytes(self, seal: Seal) -> bytes:
        """The file."""
        document = {**self.identity(), "version": VERSION, "number": self.number, "link": self.link}
        document["commitment"] = seal.commitment()
        document["seal"] = seal.link(canonical(document))
        document["checksum"] = _checksum(document)
        return canonical(document)

    @classmethod
    def read(cls, data: bytes, key: Mapping[str, str] | None) -> tuple[Head, Seal]:
        """A head and the seal it was made under.

        Raises
        ------
        DataError
            The file was changed, or is of another version.
        UsageError
            It was begun with another key, or without one.
        """
        head, document = cls.unsealed(data)
        head.require_key(key)
        seal = Seal.of(key, head.salt)
        if document.pop("commitment", None) != seal.commitment():
            raise UsageError("the ledger was begun with another key")
        if head.to_bytes(seal) != data:
            raise DataError(f"{HEAD} was changed: its seal is broken")
        return head, seal

    @classmethod
    def unsealed(cls, data: bytes) -> tuple[Head, dict[str, Any]]:
        """A head that is whole, whoever wrote it, and its document."""
        if is_first_version(data):
            raise DataError(OLD)
        document = read_document(data, HEAD)
        version = document.get("version")
        if version != VERSION:
            raise DataError(f"the ledger has version {version!r}, this program reads {VERSION}")
        checksum = document.pop("checksum", None)
        if checksum != _checksum(document):
            raise DataError(f"{HEAD} was changed, or is not one of ours")
        return cls.from_document(document), document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Head:
        """A head from its fields; those of an entry's identity do.

        Raises
        ------
        DataError
            They are none.
        """
        try:
            losses = tuple(
                Loss(ledger=str(loss["ledger"]), time=str(loss["time"]), kept=int(loss["kept"]))
                for loss in document["losses"]
            )
            bytes.fromhex(document["salt"])
            if not ID.fullmatch(document["id"]):  # it names a folder
                raise ValueError("no id")
            return cls(
                id=str(document["id"]),
                salt=document["salt"],
                persons=bool(document["persons"]),
                normalise=tuple(str(step) for step in document["normalise"]),
                begun=str(document["begun"]),
                losses=losses,
                number=int(document.get("number", 0)),
                link=str(document.get("link", "")),
            )
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{HEAD} is not one of ours") from None

    def require_key(self, key: Mapping[str, str] | None) -> None:
        """Refuse to follow combinations where persons are followed, and the other way round."""
        if self.persons != (key is not None):
            way = "persons, by a key" if self.persons else "combinations of quasi-identifiers, without a key"
            raise UsageError(f"the ledger follows {way}; give the key it was begun with, or none")

    def require_normalise(self, normalise: tuple[str, ...]) -> None:
        """Refuse keys of persons that are spelt in another way than those remembered."""
        if self.normalise != tuple(sorted(normalise)):
            begun = ", ".join(self.normalise) or "none"
            raise UsageError(
                f"the ledger was begun with normalise: [{begun}]; under another the same person would be somebody else"
            )

    def notes(self) -> tuple[str, ...]:
        """What every later verdict says of history that was lost."""
        return tuple(
            f"the ledger lost history, as declared on {loss.time}: releases before that may not be counted"
            for loss in self.losses
        )


def is_first_version(data: bytes) -> bool:
    """Whether a head is of version 1, which was written in another way."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("version") == 1


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()

"""``ledger.json``, and the chain of entries that it ends: read, and proved link by link."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privpipe.errors import DataError, SinkError, UsageError
from privpipe.ledger.entry import SUFFIX, Entry, Seal
from privpipe.ledger.folder import HEAD, canonical, read_document
from privpipe.ledger.sink import Point, SinkRecord

__all__ = [
    "ADVICE",
    "NEXT",
    "OLD",
    "VERSION",
    "Chain",
    "Head",
    "Loss",
    "chain_under",
    "is_first_version",
    "name_of",
    "now",
    "read_bytes",
    "read_chain",
    "read_unsealed",
]


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
        """What each entry repeats, so that a lost head can be rebuilt."""
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
        """A head that is whole, regardless of its author, and its document."""
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
                f"the ledger was begun with normalise: [{begun}]; under another the same person would be another one"
            )

    def notes(self) -> tuple[str, ...]:
        """What every later verdict states about history that was lost."""
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


NEXT = "pending-"
ADVICE = (
    "Nothing was published: `privpipe ledger check` shows what is wrong, `privpipe ledger show` what is there, and "
    "`privpipe ledger repair` mends what can be mended"
)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What a ledger holds, and what is wrong with it.

    Parameters
    ----------
    path : Path
        The ledger's folder.
    head : Head
    seal : Seal or None
        None: nothing was proved, for want of the key.
    entries : tuple of Entry
        In the order of the chain.
    pending : tuple of Entry
        Of runs that were about to publish.
    problems : tuple of str
        Empty: the chain is whole.
    torn : tuple of Path
        Pending files that do not read.
    """

    path: Path
    head: Head
    seal: Seal | None = None
    entries: tuple[Entry, ...] = ()
    pending: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    torn: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def home(self) -> Path:
        """Where its entries are."""
        return self.path / self.head.id

    @property
    def tip(self) -> str:
        """Link of the last entry."""
        return self.link_at(len(self.entries))

    def link_at(self, number: int) -> str:
        """Link of an entry; 0: the one before the first."""
        if number:
            return self.entries[number - 1].link
        return "" if self.seal is None else self.seal.genesis(self.head.id)

    def point(self, number: int | None = None) -> Point:
        """A place in it, sealed; its end unless said."""
        at = len(self.entries) if number is None else number
        found = Point(ledger=self.head.id, number=at, link=self.link_at(at))
        return found if self.seal is None else found.sealed(self.seal)

    def denied_by(self, record: SinkRecord | None) -> str:
        """What a sink's record says against this being its ledger as it knew it, or nothing."""
        point = None if record is None else record.reached
        if point is None or point.ledger in {loss.ledger for loss in self.head.losses}:
            return ""
        if point.ledger != self.head.id:
            return "it is another ledger than the one the sink's last release was remembered in"
        if self.seal is not None and not point.holds(self.seal):
            return "the sink's record of its ledger was changed: its seal is broken"
        if point.number > len(self.entries):
            return (
                f"it is older than its sink: the sink's last release was entry {point.number:,}, and it has "
                f"{len(self.entries):,}"
            )
        if point.link != self.link_at(point.number):
            return f"its history is not the one its sink knew: entry {point.number:,} is another"
        return ""


def read_chain(path: Path, key: Mapping[str, str] | None) -> Chain:
    """A ledger with all that is wrong with its entries.

    Parameters
    ----------
    path : Path
        Its folder, known to be private.

    Raises
    ------
    DataError
        Its head is missing or was changed, or it is of another version.
    UsageError
        It was begun with another key, or without one.
    """
    return chain_under(path, *Head.read(_head_bytes(path), key))


def chain_under(path: Path, head: Head, seal: Seal) -> Chain:
    """The entries of a ledger with this head, with all that is wrong with them."""
    entries, problems = _entries(path / head.id, seal)
    pending, torn = _pending(path / head.id, seal)
    chain = Chain(path=path, head=head, seal=seal, entries=tuple(entries), pending=tuple(pending), torn=tuple(torn))
    problems += _breaks(chain)
    problems += [f"{place.name} is torn or was changed" for place in torn]
    return Chain(**{**chain.__dict__, "problems": tuple(problems)})


def read_unsealed(path: Path) -> Chain:
    """A ledger as it states about itself, with nothing proved.

    Raises
    ------
    DataError
    """
    head, _ = Head.unsealed(_head_bytes(path))
    entries = [Entry.read(place, None) for place in _numbered(path / head.id)]
    pending = [Entry.read(place, None) for place in sorted((path / head.id).glob(f"{NEXT}*{SUFFIX}"))]
    return Chain(path=path, head=head, entries=tuple(entries), pending=tuple(pending))


def _head_bytes(path: Path) -> bytes:
    if not (path / HEAD).exists():
        if any(path.glob("[0-9]*-*.parquet")):
            raise DataError(OLD)
        raise DataError(f"the ledger has lost its {HEAD}, though entries are there")
    return read_bytes(path / HEAD)


def read_bytes(path: Path) -> bytes:
    """A file of a ledger or next to one.

    Raises
    ------
    SinkError
        It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SinkError(f"the ledger cannot be read: {error.strerror}") from None


def _numbered(home: Path) -> list[Path]:
    return sorted(place for place in home.glob(f"*{SUFFIX}") if not place.name.startswith(NEXT))


def _entries(home: Path, seal: Seal) -> tuple[list[Entry], list[str]]:
    entries, problems = [], []
    for place in _numbered(home):
        try:
            entry = Entry.read(place, seal)
        except DataError as error:
            problems.append(str(error))
            continue
        if place.name != name_of(entry):
            problems.append(f"{place.name} holds entry {entry.number:,} of run {entry.run_id}")
        entries.append(entry)
    return sorted(entries, key=lambda entry: (entry.number, entry.path.name)), problems


def _pending(home: Path, seal: Seal) -> tuple[list[Entry], list[Path]]:
    pending, torn = [], []
    for place in sorted(home.glob(f"{NEXT}*{SUFFIX}")):
        try:
            pending.append(Entry.read(place, seal))
        except DataError:
            torn.append(place)
    return pending, torn


def name_of(entry: Entry) -> str:
    """The file name of an entry that counts."""
    return f"{entry.number:05}-{entry.run_id}{SUFFIX}"


def _breaks(chain: Chain) -> list[str]:
    """Where entries do not follow one another, and what the head misses."""
    problems = []
    for at, entry in enumerate(chain.entries, 1):
        if entry.number != at:
            problems.append(
                f"entry {at:,} is missing" if entry.number > at else f"entry {entry.number:,} is there twice"
            )
            break
        if entry.previous != chain.link_at(at - 1):
            problems.append(f"entry {at:,} does not follow on entry {at - 1:,}")
            break
    else:
        if chain.head.number > len(chain.entries):
            problems.append(f"{HEAD} names {chain.head.number:,} entries, and {len(chain.entries):,} are there")
        elif chain.head.link and chain.head.link != chain.link_at(chain.head.number):
            problems.append(f"{HEAD} names another entry {chain.head.number:,} than the one that is there")
    return problems

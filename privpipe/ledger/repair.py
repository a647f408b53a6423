"""Examine a ledger, and repair it as far as its entries prove themselves; a loss must be declared first."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from privpipe.blocks.release_history import ReleaseRows
from privpipe.errors import DataError, SinkError, UsageError
from privpipe.ledger.chain import (
    Chain,
    Head,
    Loss,
    chain_under,
    is_first_version,
    now,
    read_bytes,
    read_chain,
    read_unsealed,
)
from privpipe.ledger.entry import SUFFIX, Entry, Seal, rows_of_table
from privpipe.ledger.folder import HEAD, LOCK, found_in, private_folder, require_ours, write
from privpipe.ledger.ledger import FOREIGN_FOLDER, Ledger
from privpipe.ledger.sink import SinkRecord, Witness, counts, current_of, place_of, recalled, remember
from privpipe.private_files import locked

__all__ = [
    "Examined",
    "OldEntry",
    "SinkView",
    "entry_rows",
    "examined",
    "held",
    "old_entries",
    "old_files",
    "old_head",
    "repair",
    "sink_views",
]


BY_KEY = (
    "the ledger's key: without it no one can have changed, added or taken out an entry; that the ledger as a whole is "
    "not an older one, its sinks alone show"
)
BY_SALT = (
    "a secret that is next to the entries: damage and loss show, but anyone who can write the folder can make all of "
    "it again, and only the records of its sinks would then differ"
)


@dataclass(frozen=True, kw_only=True)
class SinkView:
    """What a sink knows of the ledger.

    Parameters
    ----------
    sink : str
    entry : int or None
        Number of the entry its last release was remembered in; None: it knows nothing.
    wrong : str
        What it says against the ledger, or nothing.
    """

    sink: str
    entry: int | None
    wrong: str


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A ledger as it was found.

    Parameters
    ----------
    chain : Chain
    sinks : tuple of SinkView
    """

    chain: Chain
    sinks: tuple[SinkView, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """All that is wrong."""
        said = (f"sink {view.sink}: {view.wrong}" for view in self.sinks if view.wrong)
        return (*self.chain.problems, *said)

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        chain = self.chain
        return {
            "ledger": str(chain.path),
            "sound": not self.problems,
            "problems": list(self.problems),
            "entries": len(chain.entries),
            "pending": len(chain.pending),
            "follows": "persons" if chain.head.persons else "combinations",
            "normalise": list(chain.head.normalise),
            "begun": chain.head.begun,
            "proved_by": BY_KEY if chain.head.persons else BY_SALT,
            "losses": [{"time": loss.time, "kept": loss.kept} for loss in chain.head.losses],
            "sinks": [asdict(view) for view in self.sinks],
        }


@contextmanager
def held(path: Path) -> Iterator[None]:
    """A ledger that exists and that no run is using meanwhile.

    Raises
    ------
    DataError
        Nothing of a ledger is there, or it is not the user's own.
    """
    found = found_in(path)
    if found != "ledger":
        raise DataError(FOREIGN_FOLDER if found == "strangers" else f"there is no ledger at {str(path)!r}")
    lock = locked(path / LOCK, "the ledger")
    try:
        require_ours(path)
        yield
    except OSError as error:
        raise SinkError(f"the ledger cannot be read: {error.strerror}") from None
    finally:
        os.close(lock)


def examined(path: Path, key: Mapping[str, str] | None, place: tuple[str, Witness] | None = None) -> Examined:
    """A ledger and its sinks, examined while no run is using it.

    Parameters
    ----------
    place : (str, Target), optional
        Name of the policy's sink, and the sink, in addition to those that the entries name.
    """
    with held(path):
        chain = read_chain(path, key)
        return Examined(chain=chain, sinks=sink_views(chain, place))


def sink_views(chain: Chain, place: tuple[str, Witness] | None = None) -> tuple[SinkView, ...]:
    """What each sink that still exists on this machine says, pending entries that count included."""
    came = [entry for entry in chain.pending if counts(current_of(entry.target), entry.run_id, entry.before)]
    settled = Chain(**{**chain.__dict__, "entries": (*chain.entries, *came)})
    sinks: dict[str, Witness] = {} if place is None else {place[0]: place[1]}
    for target in sorted({entry.target for entry in settled.entries} - set(sinks)):
        local = place_of(target)
        if local is not None:
            sinks[target] = local
    return tuple(_view(settled, name, sink, own=place is not None and name == place[0]) for name, sink in sinks.items())


def _view(chain: Chain, name: str, sink: Witness, *, own: bool) -> SinkView:
    try:
        record = recalled(sink)
    except DataError as error:
        return SinkView(sink=name, entry=None, wrong=str(error))
    if record is None or record.reached is None:
        return SinkView(sink=name, entry=None, wrong="")
    elsewhere = record.reached.ledger != chain.head.id
    wrong = "" if elsewhere and not own else chain.denied_by(record)
    return SinkView(sink=name, entry=None if elsewhere else record.reached.number, wrong=wrong)


def entry_rows(path: Path, key: Mapping[str, str] | None, *, proved: bool) -> tuple[Chain, list[dict[str, Any]]]:
    """A ledger's entries as people may see them: no hash and no key.

    Raises
    ------
    DataError
        They do not read; where `proved`, also when the chain is broken.
    """
    with held(path):
        chain = read_chain(path, key) if proved else read_unsealed(path)
    return chain, [
        {
            "number": entry.number,
            "run_id": entry.run_id,
            "time": str(entry.header["time"]),
            "sink": entry.target,
            "records": int(entry.header["records"]),
            "persons" if chain.head.persons else "combinations": int(entry.header["units"]),
        }
        for entry in chain.entries
    ]


NAME = re.compile(r"(\d+)-(.+)\.parquet")


@dataclass(frozen=True)
class OldEntry:
    """A release that a ledger of version 1 remembers; no rows: its file does not read."""

    number: int
    run_id: str
    target: str
    rows: ReleaseRows | None


def old_head(path: Path, key: Mapping[str, str] | None) -> Head:
    """The head of such a ledger, as this version writes it.

    Raises
    ------
    DataError
        It cannot be read.
    UsageError
        It was begun with another key, or without one.
    """
    try:
        found = json.loads(read_bytes(path / HEAD))
        salt, persons, commitment = str(found["salt"]), bool(found["persons"]), str(found["commitment"])
        head = Head.new(persons=persons, normalise=(), salt=salt)
        bytes.fromhex(salt)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{HEAD} is not one of ours") from None
    head.require_key(key)
    if Seal.of(key, salt).commitment() != commitment:
        raise UsageError("the ledger was begun with another key")
    return head


def old_files(path: Path) -> list[Path]:
    """The files of its entries."""
    return sorted((*path.glob("[0-9]*-*.parquet"), *path.glob("pending-*.parquet")))


def old_entries(path: Path) -> list[OldEntry]:
    """Its entries in order, then pending ones that count; torn pending ones never did."""
    found = []
    for place in sorted(path.glob("[0-9]*-*.parquet")):
        named = NAME.fullmatch(place.name)
        if named:
            rows, told = _read(place)
            found.append(OldEntry(int(named[1]), named[2], str(told.get("target", "")), rows))
    for place in sorted(path.glob("pending-*.parquet")):
        rows, told = _read(place)
        run_id, target, before = (told.get(name) for name in ("run_id", "target", "before"))
        known = isinstance(run_id, str) and isinstance(target, str) and isinstance(before, str | None)
        if rows is not None and known and counts(current_of(str(target)), str(run_id), before):
            number = 1 + max((each.number for each in found), default=0)
            found.append(OldEntry(number, str(run_id), str(target), rows))
    return found


def _read(path: Path) -> tuple[ReleaseRows | None, dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        told = json.loads((table.schema.metadata or {}).get(b"privpipe", b"{}"))
        return rows_of_table(table), told if isinstance(told, dict) else {}
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException):
        return None, {}


WAY_ON = (
    "Put the ledger back from a backup that is not older; or go on with --accept-loss, which keeps every entry that "
    "still proves itself, and is noted in every later verdict"
)
KEPT = "version-1"
KEPT_FIELDS = ("run_id", "target", "before", "time", "unit")
ID = re.compile("[0-9a-f]{32}")


@dataclass
class _Repair:
    """A ledger under repair, and what was done to it."""

    path: Path
    key: Mapping[str, str] | None
    normalise: tuple[str, ...]
    place: tuple[str, Witness] | None
    accept_loss: bool
    done: list[str] = field(default_factory=list)


def repair(
    path: Path,
    key: Mapping[str, str] | None,
    *,
    normalise: tuple[str, ...] = (),
    place: tuple[str, Witness] | None = None,
    accept_loss: bool = False,
) -> list[str]:
    """Mend a ledger.

    Pending entries are settled and torn ones dropped, a ledger of version 1 is sealed, a lost head is rebuilt from
    the entries, and a damaged record of the sink from the ledger. What is lost cannot be mended: with `accept_loss` a
    new ledger begins with every entry that still proves itself.

    Parameters
    ----------
    place : (str, Target), optional
        The policy's sink, held by this process.

    Returns
    -------
    list of str
        What was done, a sentence each; empty: nothing was wrong.

    Raises
    ------
    DataError
        It cannot be mended soundly; states what the way on is.
    UsageError
        A loss is accepted where nothing is lost.
    """
    work = _Repair(path, key, tuple(normalise), place, accept_loss)
    found = found_in(path)
    if found == "strangers":
        raise DataError(FOREIGN_FOLDER)
    if found == "nothing" and not _remembered_at(work):
        raise DataError(f"there is no ledger at {str(path)!r}, and no sink remembers one: nothing is to be mended")
    private_folder(path)
    lock = locked(path / LOCK, "the ledger")
    try:
        require_ours(path)
        _repair(work)
    except OSError as error:
        raise SinkError(f"the ledger cannot be written: {error.strerror}") from None
    finally:
        os.close(lock)
    return work.done


def _repair(work: _Repair) -> None:
    if found_in(work.path) == "nothing":
        _require_accepted(work, "the ledger is missing, and nothing else holds what it remembered")
        _begin_again(work, None, [])
        return
    if _is_first_version(work.path):
        _seal_first_version(work)
        return
    chain = _chain_of(work)
    if chain is None:
        return
    chain = _without_torn(work, chain)
    if chain.problems:
        _require_accepted(work, chain.problems[0])
        _begin_again(work, chain, _provable(chain))
        return
    _agree_with_sinks(work, chain)


def _is_first_version(path: Path) -> bool:
    if (path / HEAD).exists():
        return is_first_version(read_bytes(path / HEAD))
    return not _homes(path) and bool(old_files(path))


def _seal_first_version(work: _Repair) -> None:
    """Every entry of a version 1 ledger into the chain of a new one; nothing proves that none was lost before."""
    if not (work.path / HEAD).exists():
        _require_accepted(work, f"{HEAD} is lost, and with it what the entries of version 1 were hashed under")
        _begin_again(work, None, [])
        _put_away(work)
        return
    head = old_head(work.path, work.key)
    found = old_entries(work.path)
    whole = [each for each in found if each.rows is not None]
    if len(whole) < len(found) or [each.number for each in found] != list(range(1, len(found) + 1)):
        _require_accepted(work, "entries of version 1 are missing or do not read")
        head = replace(head, losses=(Loss(ledger="", time=now(), kept=len(whole)),))
    for left in _homes(work.path):  # of a repair that was killed
        shutil.rmtree(left)
    headers = [{"run_id": each.run_id, "target": each.target, "before": None, "time": ""} for each in whole]
    _write_anew(work, head, [(each.rows, header) for each, header in zip(whole, headers, strict=True) if each.rows])
    _put_away(work)
    work.done.append(
        f"{len(whole):,} entries of version 1 were sealed; the old files are in {KEPT!r}, to be deleted when you wish"
    )


def _put_away(work: _Repair) -> None:
    private_folder(work.path / KEPT)
    for place in old_files(work.path):
        os.replace(place, work.path / KEPT / place.name)


def _chain_of(work: _Repair) -> Chain | None:
    """The chain under its head, or under a rebuilt one; None: a new ledger was begun instead."""
    try:
        return read_chain(work.path, work.key)
    except DataError as error:
        wrong = str(error)
    homes = _homes(work.path)
    for home in homes if len(homes) == 1 else ():
        head = _head_of(home, work.key)
        if head is None:
            continue
        chain = chain_under(work.path, head, Seal.of(work.key, head.salt))
        if not chain.problems:
            head = head.at(len(chain.entries), chain.tip)
            write(work.path / HEAD, head.to_bytes(Seal.of(work.key, head.salt)))
            work.done.append(f"{HEAD} was made again from {len(chain.entries):,} entries")
            if not sink_views(chain, work.place):
                work.done.append("no sink exists that could show that no later entry is missing")
            return replace(chain, head=head)
        _require_accepted(work, chain.problems[0])
        _begin_again(work, chain, _provable(chain))
        return None
    _require_accepted(work, f"{wrong.split('.')[0]}; no entry shows what it was")
    _begin_again(work, None, [])
    return None


def _head_of(home: Path, key: Mapping[str, str] | None) -> Head | None:
    """The ledger's identity by its last entry that proves itself."""
    for place in sorted(home.glob(f"*{SUFFIX}"), reverse=True):
        try:
            head = Head.from_document(Entry.read(place, None).header["identity"])
            head.require_key(key)
            entry = Entry.read(place, Seal.of(key, head.salt))
            if entry.header["identity"]["id"] == home.name:
                return head
        except DataError:
            continue
    return None


def _homes(path: Path) -> list[Path]:
    return sorted(place for place in path.iterdir() if ID.fullmatch(place.name) and place.is_dir())


def _without_torn(work: _Repair, chain: Chain) -> Chain:
    """Pending entries that do not read never counted, unless a sink says so."""
    if chain.torn:
        for place in chain.torn:
            place.unlink()
        work.done.append(f"{len(chain.torn):,} torn pending entries were dropped")
        return read_chain(work.path, work.key)
    return chain


def _provable(chain: Chain) -> list[Entry]:
    """Entries that are proved to be of this ledger, each once, whatever is missing between them."""
    return list({entry.link: entry for entry in chain.entries}.values())


def _agree_with_sinks(work: _Repair, chain: Chain) -> None:
    """Settle what is pending; the sinks must agree with what is there then."""
    record = None
    try:
        record = None if work.place is None else recalled(work.place[1])
    except DataError as error:
        _rewrite_record(work, chain, str(error))
    views = [view for view in sink_views(chain, work.place) if view.wrong]
    if not views:
        if chain.pending:
            _settle(work)
            work.done.append(f"{len(chain.pending):,} pending entries were settled")
        if work.accept_loss and not work.done:
            raise UsageError("nothing is lost: the ledger is whole, and its sinks agree with it")
        return
    _require_accepted(work, f"sink {views[0].sink}: {views[0].wrong}")
    other = None if record is None or record.reached is None else record.reached.ledger
    if other is not None and other != chain.head.id:
        loss = Loss(ledger=other, time=now(), kept=len(chain.entries))
        head = replace(chain.head, losses=(*chain.head.losses, loss))
        write(work.path / HEAD, head.to_bytes(Seal.of(work.key, head.salt)))
        work.done.append(
            "the sink goes on with this ledger; that its own history is lost will be noted in every verdict"
        )
        return
    _begin_again(work, chain, list(chain.entries))


def _settle(work: _Repair) -> None:
    chain = Ledger(work.path, work.key, work.normalise, None if work.place is None else work.place[1])
    chain.settle_locked()


def _rewrite_record(work: _Repair, chain: Chain, wrong: str) -> None:
    """The sink's record from the ledger, where the release that is there is one that the ledger remembers."""
    if work.place is None:
        return
    now_at = work.place[1].current()
    run_id = None if now_at is None else now_at.rsplit("/", 1)[-1]
    if run_id is None or run_id in {entry.run_id for entry in (*chain.entries, *chain.pending)}:
        if chain.pending:
            _refuse(f"{wrong}, while an entry is pending")
        remember(work.place[1], SinkRecord(reached=chain.point()))
        work.done.append(
            "the sink's record was made again from the ledger, which remembers the release that is published there"
        )
        return
    _require_accepted(work, f"{wrong}, and the ledger does not remember the release that is published at the sink")
    remember(work.place[1], SinkRecord(reached=chain.point()))
    _begin_again(work, chain, list(chain.entries))


def _remembered_at(work: _Repair) -> bool:
    record = None if work.place is None else recalled(work.place[1])
    return record is not None and record.reached is not None


def _require_accepted(work: _Repair, wrong: str) -> None:
    if not work.accept_loss:
        _refuse(wrong)


def _refuse(wrong: str) -> NoReturn:
    raise DataError(f"this cannot be mended: {wrong}. {WAY_ON}")


def _begin_again(work: _Repair, chain: Chain | None, kept: list[Entry]) -> None:
    """A new ledger with what is left of the old one, whose loss every later verdict notes."""
    old = chain.head if chain is not None else None
    record = None if work.place is None else recalled(work.place[1])
    lost = {old.id} if old is not None else {home.name for home in _homes(work.path)}
    if record is not None and record.reached is not None:
        lost.add(record.reached.ledger)
    head = Head.new(
        persons=work.key is not None,
        normalise=work.normalise if old is None else old.normalise,
        salt=None if old is None else old.salt,
    )
    losses = tuple(Loss(ledger=each, time=now(), kept=len(kept)) for each in sorted(lost) or [""])
    head = replace(head, losses=(*(() if old is None else old.losses), *losses))
    homes = _homes(work.path)
    entries: list[tuple[ReleaseRows, dict[str, Any]]] = [
        (entry.rows(Seal.of(work.key, head.salt)), {name: entry.header.get(name) for name in KEPT_FIELDS})
        for entry in kept
    ]
    _write_anew(work, head, entries)
    for home in homes:
        os.replace(home, home.with_name(f"before-{home.name}"))
    work.done.append(
        f"a new ledger was begun with {len(kept):,} entries of the old one; the loss will be noted in every verdict"
    )


def _write_anew(work: _Repair, head: Head, entries: list[tuple[ReleaseRows, dict[str, Any]]]) -> None:
    """Seal entries into the chain of a new ledger; its head is written last, and makes it the ledger."""
    seal = Seal.of(work.key, head.salt)
    home = work.path / head.id
    private_folder(home)
    link = seal.genesis(head.id)
    for number, (rows, header) in enumerate(entries, 1):
        told = {**header, "number": number, "previous": link, "identity": head.identity()}
        path = home / f"{number:05}-{header['run_id']}{SUFFIX}"
        Entry.keep(path, Entry.sealed(rows, told, seal))
        link = Entry.read(path, seal).link
    write(work.path / HEAD, head.at(len(entries), link).to_bytes(seal))

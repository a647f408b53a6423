"""An open ledger.

Its entries, the persons that several releases share, and how a new entry takes effect in the step that publishes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.blocks.release_history import ReleaseHistory, ReleaseRows
from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import DataError, SinkError, UsageError
from privpipe.judging.release_memory import places_of
from privpipe.ledger.chain import ADVICE, NEXT, Chain, Head, name_of, now, read_chain
from privpipe.ledger.entry import SUFFIX, Entry, Seal
from privpipe.ledger.folder import HEAD, LOCK, found_in, private_folder, require_ours, write
from privpipe.ledger.sink import (
    SinkRecord,
    Witness,
    counts,
    current_of,
    forget_what_never_was,
    place_of,
    recalled,
    remember,
)
from privpipe.private_files import locked, sync_folder
from privpipe.sinks.target import is_remote

__all__ = ["FOREIGN_FOLDER", "Ledger", "known_share", "recognised"]


def recognised(releases: Sequence[ReleaseRows]) -> tuple[ReleaseRows, ...]:
    """The releases with the id of each person's folded spelling instead of that of the spelling itself.

    A folded spelling that two persons of one release share belongs to neither: they keep their own ids, as do persons
    of releases that were remembered without it, unless a newer release spells them so.

    Examples
    --------
    >>> words = lambda *codes: np.array([[code, code] for code in codes])
    >>> row = lambda unit, fold: ReleaseRows(words(unit), words(7), np.ones(1, dtype=np.int64), folds=words(fold))
    >>> [int(rows.units[0, 0]) for rows in recognised([row(1, 9), row(2, 9), row(3, 8)])]
    [9, 9, 8]
    """
    pairs = [np.unique(np.hstack([rows.units, rows.folds]), axis=0) for rows in releases if rows.folds is not None]
    if not pairs:
        return tuple(releases)
    taken = np.concatenate([_repeated(each[:, 2:]) for each in pairs])
    known = np.unique(np.concatenate(pairs), axis=0)
    if len(taken):
        known = known[places_of(taken, known[:, 2:]) < 0]
    return tuple(_renamed(rows, known) for rows in releases)


def known_share(current: ReleaseRows, earlier: Sequence[ReleaseRows]) -> tuple[int, int]:
    """How many persons of a release one of the earlier releases holds, and how many there are."""
    persons = np.unique(current.units, axis=0)
    known = np.zeros(len(persons), dtype=np.bool_)
    for rows in earlier:
        known |= places_of(rows.units, persons) >= 0
    return int(known.sum()), len(persons)


def _repeated(words: Ints) -> Ints:
    distinct, counts = np.unique(words, axis=0, return_counts=True)
    found: Ints = distinct[counts > 1]
    return found


def _renamed(rows: ReleaseRows, known: Ints) -> ReleaseRows:
    noise = rows.noise
    if noise is not None:
        noise = replace(noise, units=_names(noise.units, known))
    return replace(rows, units=_names(rows.units, known), noise=noise)


def _names(units: Ints, known: Ints) -> Ints:
    places = places_of(known[:, :2], units)
    return np.where((places >= 0)[:, None], known[np.maximum(places, 0), 2:] if len(known) else units, units)


FOREIGN_FOLDER = "the folder named for the ledger holds something else; name one that is empty or does not exist"
FEW_KNOWN = (
    "{known:,} of {persons:,} {unit} are known to the ledger, which remembers earlier releases: does the same key "
    "distinguish persons, in the same spelling (`normalise:`)?"
)
OTHERS = "the ledger remembers {number:,} releases of {kind} too, which were not judged together with this one"


@bordered
@dataclass
class Ledger:
    """An open ledger; a context that keeps other runs out.

    Parameters
    ----------
    path : Path
    key : mapping, optional
        Where the key of persons is kept; None: combinations of original quasi-identifiers are followed.
    normalise : tuple of str
        What is done to the keys of persons.
    place : Target, optional
        The sink of the run.
    reading : bool
        Nothing is begun and nothing changed.

    Raises
    ------
    DataError
        The ledger is missing, cut, changed or exchanged, or older than a sink knows it.
    """

    path: Path
    key: Mapping[str, str] | None = None
    normalise: tuple[str, ...] = ()
    place: Witness | None = None
    reading: bool = False
    _lock: int | None = field(default=None, init=False, repr=False)
    _chain: Chain = field(init=False, repr=False)
    _record: SinkRecord | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        if is_remote(str(self.path)):
            raise UsageError("a ledger is on a local (or mounted) file system")
        try:
            self._enter()
        except DataError as error:
            self._close()
            raise DataError(str(error) if "privpipe ledger" in str(error) else f"{error}. {ADVICE}") from None
        except OSError as error:
            self._close()
            raise SinkError(f"the ledger cannot be written: {error.strerror}") from None
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self._close()
            raise
        return self

    def _enter(self) -> None:
        self._record = None if self.place is None else recalled(self.place)
        found = found_in(self.path)
        if found == "strangers":
            raise DataError(FOREIGN_FOLDER)
        if found == "nothing":
            if self._record is not None and self._record.reached is not None:
                raise DataError("the ledger is missing, and the sink's last release was remembered in it")
            if self.reading:
                self._chain = _fresh(self.path, self.key, self.normalise)
                return
        private_folder(self.path)
        self._lock = locked(self.path / LOCK, "the ledger")
        self._open()

    def _open(self) -> None:
        require_ours(self.path)
        if found_in(self.path) == "nothing":
            self._begin()
        self._chain = read_chain(self.path, self.key)
        self._chain.head.require_normalise(self.normalise)
        if self._chain.problems:
            raise DataError(f"the ledger is damaged: {self._chain.problems[0]}")
        self.settle()
        self._ask_sinks()

    def __exit__(self, *details: object) -> None:
        self._close()

    @property
    def persons(self) -> bool:
        """Whether persons are followed, by a key."""
        return self.key is not None

    @property
    def _unit(self) -> str:
        return "persons" if self.persons else "combinations"

    @property
    def seed(self) -> Seed:
        """What keys the hashes: the key with the ledger's salt, or the salt alone."""
        return self._seal.seed

    @property
    def notes(self) -> tuple[str, ...]:
        """What every verdict next to it must say."""
        return self._chain.head.notes()

    @property
    def _seal(self) -> Seal:
        return Seal.of(self.key, self._chain.head.salt)

    def releases(self) -> tuple[ReleaseRows, ...]:
        """Every release it remembers, in the order of their publication."""
        return tuple(entry.rows(self._seal) for entry in self._chain.entries)

    def history(self, current: ReleaseRows) -> ReleaseHistory:
        """What it remembers, together with a new release."""
        self._require_unit(current)
        releases = recognised([*self.releases(), current])
        earlier, current = [each for each in releases[:-1] if _alike(each, current)], releases[-1]
        known, persons = known_share(current, earlier)
        few = bool(earlier) and 2 * known < persons
        others = len(releases) - 1 - len(earlier)
        kind = "records" if current.tables is not None else "tables"
        return ReleaseHistory(
            current=current,
            earlier=tuple(earlier),
            persons=self.persons,
            notes=(*self.notes, *((OTHERS.format(number=others, kind=kind),) if others else ())),
            source_notes=(FEW_KNOWN.format(known=known, persons=persons, unit=self._unit),) if few else (),
        )

    def _require_unit(self, current: ReleaseRows) -> None:
        """Combinations of other columns match no remembered person, so that every release would pass."""
        last = self._chain.entries[-1].header.get("unit") if self._chain.entries else None
        if not self.persons and last is not None and list(last) != list(current.unit):
            raise UsageError(
                f"the ledger follows combinations of {', '.join(map(repr, last))}, and this policy's are of "
                f"{', '.join(map(repr, current.unit))}; name the same, or follow persons by a key"
            )

    def prepare(self, current: ReleaseRows, run_id: str, target: str, before: str | None) -> None:
        """Note a run that is about to publish, here and at its sink; it counts once `target` points at it."""
        chain = self._chain
        header: dict[str, Any] = {
            "number": len(chain.entries) + 1,
            "previous": chain.tip,
            "run_id": run_id,
            "target": target,
            "before": before,
            "time": now(),
            "unit": list(current.unit),
            "identity": chain.head.identity(),
        }
        path = chain.home / f"{NEXT}{run_id}{SUFFIX}"
        private_folder(chain.home)
        Entry.keep(path, Entry.sealed(current, header, self._seal))
        pending = Entry.read(path, self._seal)
        self._chain = replace(chain, pending=(*chain.pending, pending))
        if self.place is not None:
            after = replace(chain, entries=(*chain.entries, pending)).point()
            reached = None if self._record is None else self._record.reached
            remember(self.place, SinkRecord(reached=reached, next=after, run_id=run_id, before=before))

    def settle_locked(self) -> None:
        """Settle what is pending under a lock that the caller holds."""
        self._chain = read_chain(self.path, self.key)
        self.settle()

    def settle(self) -> None:
        """Keep pending entries whose run was published, throw the others away, and let the sink know."""
        for entry in self._chain.pending:
            if not counts(current_of(entry.target), entry.run_id, entry.before):
                if not self.reading:
                    entry.path.unlink()
                continue
            if (entry.number, entry.previous) != (len(self._chain.entries) + 1, self._chain.tip):
                raise DataError(f"the ledger is damaged: {entry.path.name} does not follow on its last entry")
            self._chain = replace(self._chain, entries=(*self._chain.entries, self._kept(entry)))
        self._chain = replace(self._chain, pending=())
        if self.reading:
            return
        head = self._chain.head.at(len(self._chain.entries), self._chain.tip)
        if head != self._chain.head:
            self._chain = replace(self._chain, head=head)
            write(self.path / HEAD, head.to_bytes(self._seal))
        for left in self._chain.home.glob("*.new"):
            left.unlink()
        if self.place is not None:
            self._record = forget_what_never_was(self.place)

    def _kept(self, entry: Entry) -> Entry:
        if self.reading:
            return entry
        kept = replace(entry, path=entry.path.with_name(name_of(entry)))
        try:
            os.replace(entry.path, kept.path)
            sync_folder(kept.path.parent)
        except OSError as error:
            raise SinkError(f"the ledger cannot be written: {error.strerror}") from None
        return kept

    def _ask_sinks(self) -> None:
        """Every sink it published to is a witness: the run's own must agree, and no other may know it further on."""
        wrong = self._chain.denied_by(self._record)
        if wrong:
            raise DataError(f"the ledger is refused: {wrong}")
        for target in sorted({entry.target for entry in self._chain.entries}):
            other = place_of(target)
            found = None if other is None else recalled(other)
            if found is None or found.reached is None or found.reached.ledger != self._chain.head.id:
                continue  # that sink is gone, or remembered in another ledger by now
            wrong = self._chain.denied_by(found)
            if wrong:
                raise DataError(f"the ledger is refused, by another sink of it: {wrong}")

    def _begin(self) -> None:
        """A ledger that is used for the first time."""
        chain = _fresh(self.path, self.key, self.normalise)
        write(self.path / HEAD, chain.head.to_bytes(Seal.of(self.key, chain.head.salt)))

    def _close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _alike(one: ReleaseRows, other: ReleaseRows) -> bool:
    """Whether both are releases of records, or both of tables."""
    return (one.tables is None) == (other.tables is None)


def _fresh(path: Path, key: Mapping[str, str] | None, normalise: tuple[str, ...]) -> Chain:
    head = Head.new(persons=key is not None, normalise=normalise)
    seal = Seal.of(key, head.salt)
    return Chain(path=path, head=head.at(0, seal.genesis(head.id)), seal=seal)

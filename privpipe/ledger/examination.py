"""Examine a ledger without changing it: its entries, its faults, and what its sinks know."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privpipe.errors import DataError, SinkError
from privpipe.ledger.chain import Chain, read_chain, read_unsealed
from privpipe.ledger.folder import found_in, require_ours
from privpipe.ledger.ledger import FOREIGN_FOLDER, locked
from privpipe.ledger.sink import Witness, counts, current_of, place_of, recalled

__all__ = ["Examined", "SinkView", "entry_rows", "examined", "held", "sink_views"]


BY_KEY = (
    "the ledger's key: without it nobody can have changed, added or taken out an entry; that the ledger as a whole is "
    "not an older one, its sinks alone tell"
)
BY_SALT = (
    "a secret that lies beside the entries: damage and loss show, but whoever can write the folder can make it all "
    "anew, and only the records of its sinks would then differ"
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
    lock = locked(path)
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

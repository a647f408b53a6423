"""What each holder does: count its own table and send shares of it, then add up what it received."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.border import bordered
from privpipe.errors import DataError, SinkError, UsageError, did_you_mean
from privpipe.private_files import locked, private_folder
from privpipe.running.run_context import no_progress
from privpipe.sharing.additive_shares import joined, keystream, noise_part, remainder, require_drawable
from privpipe.sharing.run_document import CONTRIBUTORS, RunDocument
from privpipe.sharing.sealed_files import Letter, SealingKey, deliver, opened, sealed, verified
from privpipe.tables.aggregation import COUNT

if TYPE_CHECKING:
    from privpipe.engines import Engine
    from privpipe.kernels.synthesis.noisy_marginals import Below
    from privpipe.signing import SigningKey

__all__ = ["Budget", "Participant", "partial_sum"]

STATE, LOCK = "kept.bin", "lock"
PUBLIC, PRIVATE = 0o666, 0o600
KEY = 32


@dataclass(frozen=True)
class Budget:
    """What a holder's records may cost over all runs, and where their spends are kept.

    Parameters
    ----------
    ledger : Path
        A local folder, as that of `private_table`; the two share it.
    limit : Fraction
        In epsilon.
    """

    ledger: Path
    limit: Fraction


@bordered
@dataclass(frozen=True, kw_only=True)
class Participant:
    """A holder in a run, with its key and its private folder.

    Parameters
    ----------
    document : RunDocument
    name : str
        As the document has it.
    key : SigningKey
    work : Path
        The holder's private folder. It remembers which nonces served.

    Raises
    ------
    UsageError
        The key is not that of the holder.
    """

    document: RunDocument
    name: str
    key: SigningKey = field(repr=False)
    work: Path

    def __post_init__(self) -> None:
        own = self.document.require(self.name)
        if self.key.public != own.sign or SealingKey.from_private(self.key) != own.seal:
            raise UsageError(f"the key is not that of the holder {self.name!r} in the run document")

    def split(
        self,
        data: Any,
        *,
        engine: str | Engine | None = None,
        budget: Budget | None = None,
        progress: Callable[[str], None] = no_progress,
        below: Below = secrets.randbelow,
    ) -> int:
        """Count the holder's table and send each other holder an encrypted share; how many were sent now.

        What was drawn is kept in `work` before anything is sent. A step that was killed is repeated with the same
        shares.

        Parameters
        ----------
        data : path or frame
            The holder's records; they do not leave it, and neither does a cell.
        budget : Budget, optional
            Needed with epsilon.
        progress : callable
            Called with ``count``, ``keep``, then with the file of each share before it is written.

        Raises
        ------
        UsageError
            The nonce served another run.
        DataError
            Records are outside the declared dimensions, a figure is out of its bounds, or persons are in several cells.
        Refused
            Less of the budget is left than the run costs; nothing was sent.
        """
        document, place = self.document, self._place()
        with os.fdopen(locked(place / LOCK, "this step of the run")):
            stamp = _stamp(data)
            kept = _read(place, document)
            if kept is None:
                self._require_unused()
                progress("count")
                values = _counted(document, data, engine)
                if document.epsilon is not None:
                    values = _noisy(document, values, data, budget, below)
                keys = {name: secrets.token_bytes(KEY) for name in document.holders if name != self.name}
                left = remainder(values, keys.values())
                progress("keep")
                head = {
                    "run": document.digest,
                    "data": stamp,
                    "keys": {name: each.hex() for name, each in keys.items()},
                }
                deliver(place / STATE, json.dumps(head).encode() + b"\n" + left.astype("<u8").tobytes(), PRIVATE)
                kept = keys, left, stamp
            if kept[2] != stamp:
                raise UsageError(
                    "shares of this run were drawn for other data, or data of another time; a nonce serves one run: "
                    "make a new run document"
                )
            sent = 0
            for name, each in kept[0].items():
                letter = _letter(document, "share", self.name, name)
                progress(letter.name)
                sent += self._send(letter, each)
        return sent

    def add_up(self, *, progress: Callable[[str], None] = no_progress) -> bool:
        """Publish the sum of the shares that the holder has of every table; whether it was not there already.

        With guarantees it is encrypted to the writer.

        Raises
        ------
        DataError
            A share is missing, of another run, or was altered: nothing is published.
        UsageError
            The holder has not split its own table.
        """
        document, place = self.document, self._place()
        with os.fdopen(locked(place / LOCK, "this step of the run")):
            kept = _read(place, document)
            if kept is None:
                raise UsageError("this holder's table is not split yet: `privpipe share split` comes first")
            others = {name: _letter(document, "share", name, self.name) for name in kept[0]}
            missing = [name for name, letter in others.items() if not (document.folder / letter.name).exists()]
            if missing:
                raise DataError(
                    f"the shares from {', '.join(map(repr, missing))} are missing: all holders take part, or nothing "
                    "is added"
                )
            parts = [kept[1]]
            for name, letter in others.items():
                body = opened(document.folder / letter.name, letter, document.holders[name].sign, self.key)
                if len(body) != KEY:
                    raise DataError(f"{letter.text} holds no share")
                parts.append(keystream(body, len(kept[1])))
            letter = _letter(document, "sum", self.name, document.writer or "")
            progress(letter.name)
            return self._send(letter, joined(parts).astype("<i8").tobytes())

    def _place(self) -> Path:
        """The private folder of this run."""
        return private_folder(private_folder(self.work) / self.document.nonce)

    def _require_unused(self) -> None:
        """Refuse a run in which the holder took part from another work folder: its shares cannot be drawn again."""
        folder = self.document.folder
        there = [*folder.glob(f"{self.name}-to-*.share"), *folder.glob(f"{self.name}.sum")]
        if there:
            raise UsageError(
                f"{len(there)} files of {self.name!r} are in the exchange folder, and this work folder did not make "
                "them: the nonce served a run already; make a new run document"
            )

    def _send(self, letter: Letter, body: bytes) -> bool:
        """Deliver a file, or hold the one that is there to be of this run and this holder."""
        document = self.document
        seal = document.holders[letter.to].seal if letter.to else None
        try:
            document.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"the exchange folder cannot be made: {error.strerror}") from None
        path = document.folder / letter.name
        if not path.exists() and deliver(path, sealed(letter, body, self.key, seal), PUBLIC):
            return True
        verified(path, letter, self.key.public)
        return False


def partial_sum(document: RunDocument, holder: str, key: SigningKey | None) -> NDArray[np.uint64]:
    """What a holder published: one word for each figure of each cell.

    Raises
    ------
    DataError, UsageError
    """
    letter = _letter(document, "sum", holder, document.writer or "")
    body = opened(document.folder / letter.name, letter, document.holders[holder].sign, key)
    if len(body) != 8 * document.leaves * len(document.figures):
        raise DataError(f"{letter.text} does not hold a figure for each cell")
    return np.frombuffer(body, dtype="<u8").astype(np.uint64)


def _letter(document: RunDocument, kind: str, sender: str, to: str) -> Letter:
    return Letter(nonce=document.nonce, run=document.digest, kind=kind, sender=sender, to=to)


def _read(place: Path, document: RunDocument) -> tuple[dict[str, bytes], NDArray[np.uint64], str] | None:
    """The keys of the shares, what is left to the holder, and the stamp of its data; None before the first split."""
    try:
        head, _, body = (place / STATE).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    try:
        header = json.loads(head)
        run, stamp = header["run"], header["data"]
        keys = {name: bytes.fromhex(each) for name, each in header["keys"].items()}
        left = np.frombuffer(body, dtype="<u8").astype(np.uint64)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise DataError(f"{str(place / STATE)!r} is damaged; this run cannot go on: make a new run document") from None
    if run != document.digest:
        raise UsageError("the nonce served another version of the run document; make one with a new nonce")
    return keys, left, stamp


def _stamp(data: Any) -> str:
    """What shows that data changed between two tries; nothing for a frame."""
    from privpipe.engines import Source
    from privpipe.engines.readers.files import stamps_of

    if not isinstance(data, str | PurePath):
        return ""
    stamps = sorted((name, repr(each)) for name, each in stamps_of(Source(data=str(data))).items())
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


def _counted(document: RunDocument, data: Any, engine: str | Engine | None) -> Ints:
    """Every figure of every cell, one figure after the other, in units."""
    from privpipe.engines import Source
    from privpipe.engines.readers.files import TEXT
    from privpipe.policy import Policy
    from privpipe.running.run_context import OpenedEngine, scanned
    from privpipe.tables.aggregation import aggregated
    from privpipe.tables.dimension_labels import texts_of
    from privpipe.tables.stages import Aggregate

    names = list(document.dimensions)
    sums = {name: each for name, each in document.measures.items() if name != COUNT}
    responses = [COUNT, *({"sum": name, "decimals": each.decimals} for name, each in sums.items())]
    [spec] = Aggregate(by=tuple(names), responses=tuple(responses), nulls="drop").specs().values()
    spec = replace(spec, domain=dict(document.dimensions), largest=1)
    if document.epsilon is not None:
        spec = replace(spec, contribution_bound=document.contribution_bound, bounds=document.clipping)
    nothing = Policy.of_fields(name="frame", columns={}, guarantees=())
    is_path = isinstance(data, str | PurePath)
    with OpenedEngine(engine, str(data) if is_path else data, nothing) as opened_engine:
        source = Source(data=str(data) if is_path else data)
        if source.is_path and source.resolved_format in TEXT:  # files without types, and sums are of numbers
            source = replace(source, types=dict.fromkeys(sums, "decimal"))
        records = scanned(opened_engine, source)
        have = records.schema.names
        for name in [*names, *sums, *([document.person_id] if document.person_id else [])]:
            if name not in have:
                raise DataError(f"column {name!r} is not in the table{did_you_mean(name, have)}")
        for name, labels in document.dimensions.items():
            found = opened_engine.distinct(records, [name])
            counts = found.column("__count").to_pylist()
            outside = sum(n for text, n in zip(texts_of(found.column(name)), counts, strict=True) if text not in labels)
            if outside:
                raise DataError(
                    f"column {name!r}: no value, or one that the run document does not list, in {outside:,} of "
                    f"{sum(counts):,} records; "
                    "give them a label of the run, or all holders a document that lists it"
                )
        table = aggregated(opened_engine, records, spec, person=document.person_id, secret=secrets.token_bytes(KEY))
    if document.epsilon is None and not table.additive:
        raise DataError(
            "persons of this holder are in several cells, and totals would count them several times; give each person "
            "one cell, or count records under a document without `person_id`"
        )
    at = np.ix_(*([each.codes[label] for label in document.dimensions[each.name]] for each in table.cells.dimensions))
    vectors = []
    for name in document.figures:
        figures, counted = table.figures[name.removesuffix(CONTRIBUTORS)], name.endswith(CONTRIBUTORS)
        grid = np.zeros(table.cells.shape, dtype=np.int64)
        grid[tuple(table.cells.codes.T)] = figures.contributors if counted else figures.totals
        cells = grid[at].ravel()
        least, most = document.bounds(name)
        beyond = int(((cells < least) | (cells > most)).sum())
        if beyond:
            raise DataError(
                f"{name!r}: {beyond:,} cells of this holder are outside the bounds that the run document declares"
            )
        vectors.append(cells)
    return np.concatenate(vectors)


def _noisy(document: RunDocument, values: Ints, data: Any, budget: Budget | None, below: Below) -> Ints:
    """The figures with this holder's part of the noise, paid for before it is drawn."""
    from privpipe.tables.private_tables import SpendBook

    if budget is None:
        raise UsageError("a run with epsilon spends a holder's budget: give its ledger and its limit")
    noise, among = document.noise(), len(document.holders) - document.colluding
    scales = [noise.scale(name, Fraction(1, len(document.figures))) for name in document.figures]
    for scale in scales:
        require_drawable(scale, among, document.leaves)
    where = os.path.realpath(data) if isinstance(data, str | PurePath) else "frames"
    SpendBook(budget.ledger).spend(json.dumps([where, document.person_id]), noise.spend, budget.limit)
    drawn = [noise_part(scale, among, below) % 2**64 for scale in scales for _ in range(document.leaves)]
    return joined([values.view(np.uint64), np.array(drawn, dtype=np.uint64)])

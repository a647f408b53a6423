"""The batches of a stream: each is released together with the rows held back before it, and counted exactly once.
::

    .visits.privpipe/stream/      the state of one stream, readable only by its owner
        state.json                what was taken from which query, and the batch whose release is under way
        rows/00000000000000000000/part-00000.parquet     a batch that is held back
        staged/                   a batch that is being written
        lock

Rows are on the disk, and counted as taken, before anything of them is published. The key under which the sink notes
a release names query and batch; so after a crash the sink shows whether the release that was under way is published.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from privpipe.draws import Seed
from privpipe.draws.stream import RunKey
from privpipe.engines import Engine, Source
from privpipe.engines.base.contract import counted_fingerprint
from privpipe.engines.base.logical_types import CARRIED
from privpipe.errors import DataError, NoSolutionError, Refused, SinkError, UsageError
from privpipe.ledger.folder import canonical, read_document
from privpipe.policy import Policy
from privpipe.policy.specs import SourceSpec
from privpipe.private_files import flush_new, locked, private_folder, require_ours, seal_folder, sync_folder
from privpipe.private_files.ownership import keep_private
from privpipe.progress import watched
from privpipe.running.finished_table import of_records
from privpipe.running.places import place_of
from privpipe.running.release_result import ReleaseResult, require_batch
from privpipe.running.run_context import OpenedEngine, without_others
from privpipe.running.run_documents import Chain, chain_of
from privpipe.running.verbs import release
from privpipe.sinks.records import PrivateRecords, seen_by_readers
from privpipe.sinks.target import Target

__all__ = ["STEPS", "BatchOutcome", "StreamBatches", "StreamState"]

log = logging.getLogger("privpipe.release")
STEPS = ("hold", "note", "release", "settle", "clear")
"""What `progress` is called with before each step of a batch; the steps of the release come between."""
Kind = Literal["published", "held back", "empty", "repeated"]
VERSION = 1
STATE, LOCK, ROWS, STAGED = "state.json", "lock", "rows", "staged"
KEYS = "stream:"
"""How the keys of batches of streams begin."""


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """What became of a batch.

    Parameters
    ----------
    batch : int
        Its number in its query.
    kind : {"published", "held back", "empty", "repeated"}
        ``published``: with all rows that were held back. ``repeated``: it was taken before, and nothing was done.
    records : int
        Of the batch.
    held : int
        Records held back now, of this batch and of earlier ones.
    result : ReleaseResult, optional
        Of the published rows.
    refusal : Refused or NoSolutionError, optional
        Why the batch is held back, with the assessment where there is one.
    """

    batch: int
    kind: Kind
    records: int
    held: int
    result: ReleaseResult | None = None
    refusal: Refused | NoSolutionError | None = None


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """What a stream has taken.

    Parameters
    ----------
    sink : str
        What it publishes to.
    query : str
        Whose batches; nothing before the first.
    next : int
        The number of the batch that comes next.
    key : str
        Secret under which the rows of a batch are hashed, in hex.
    policy : str
        Digest of the policy at the last batch.
    records, content : int, str
        Records of the last batch, and the keyed fingerprint of its rows.
    held : mapping of str to int
        Records in each folder of rows; one per batch that is held back.
    trying : str or None
        The folder of the batch whose release is under way.
    columns : list of [str, str]
        Names and types of the columns of the rows that are held back.
    """

    sink: str
    query: str = ""
    next: int = 0
    key: str = field(default_factory=lambda: os.urandom(32).hex(), repr=False)
    policy: str = ""
    records: int = 0
    content: str = ""
    held: Mapping[str, int] = field(default_factory=dict)
    trying: str | None = None
    columns: list[list[str]] = field(default_factory=list)

    @classmethod
    def read(cls, data: bytes, place: str) -> Self:
        """From its file.

        Raises
        ------
        DataError
            It was changed, or is of another version.
        """
        found = read_document(data, f"the state of the stream, {place!r},")
        known = {each.name for each in fields(cls)}
        if found.pop("stream_state", None) != VERSION or set(found) != known:
            raise DataError(f"the state of the stream, {place!r}, is not of this version of privpipe")
        return cls(**found)

    def written(self) -> bytes:
        """As `read` takes it."""
        return canonical({"stream_state": VERSION, **asdict(self)})

    @property
    def waiting(self) -> int:
        """Records that are held back."""
        return sum(self.held.values())


@dataclass
class StreamBatches:
    """The batches of one stream on their way to one sink.

    Parameters
    ----------
    policy : Policy
        Its sink takes `mode: append`. Its source is not read.
    state : str or path, optional
        Private folder of the stream. Default: in the work area of the sink.
    start : str, optional
        ``<query>:<batch>``, a batch that is taken though it does not follow the last one.
    progress : callable, optional
        Called with each of `STEPS`, and those of the release.
    """

    policy: Policy
    state: str | os.PathLike[str] | None = None
    start: str | None = None
    progress: Callable[[str], None] | None = None
    last: BatchOutcome | None = field(default=None, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        self.policy = of_records(self.policy, "release_batches")
        sink = self.policy.sink
        if sink is None or sink.mode != "append":
            raise UsageError(
                "release_batches: batches join those before them, so the policy needs a sink with `mode: append`, a "
                "Delta table (`format: delta`) or an Iceberg table; in `replace` a batch would replace the "
                "released rows, in `replace_partition` late rows that of their partition"
            )
        with self._sink() as place:
            if self.state is None:
                self.folder = PrivateRecords.of(self.policy.replaced(records=None), place).home.parent / "stream"
            else:
                self.folder = Path(os.path.abspath(self.policy.base_dir / self.state))
            self._require_hidden(place)

    @contextmanager
    def _sink(self) -> Iterator[Target]:
        """The sink, looked at and not opened."""
        place = place_of(self.policy, None)
        try:
            yield place
        finally:
            place.close()

    def _require_hidden(self, place: Target) -> None:
        real = Path(os.path.realpath(self.folder))
        for seen in seen_by_readers(place):
            if seen == real or seen in real.parents or real in seen.parents:
                raise UsageError(
                    f"state: {str(self.folder)!r} is where readers of the release look, or above it: name a folder "
                    "apart from the sink"
                )

    def take(self, frame: Any, query: str, batch: int) -> BatchOutcome:
        """Release a batch with the rows held back before, or hold it back too.

        Parameters
        ----------
        frame : frame
        query : str
            What numbers the batches; another one numbers from 0.
        batch : int
            Not negative.

        Raises
        ------
        SinkError
            Another run uses the state folder, or the folder or the sink cannot be written.
        UsageError
            The batch does not follow the last one, or the folder is of another sink.
        DataError
            The batch cannot be read or judged, or its columns are not those of the rows held back. Nothing was taken.
        """
        require_batch(f"{KEYS}{query}:{batch}")
        self._require_own_folder()
        with self._locked(), watched(self.progress) as step, OpenedEngine(None, frame, self.policy) as engine:
            state = self._settled(engine, self._read(), step)
            with self._sink() as place:
                self._require_next(state, chain_of(place), query, batch)
            step("hold")
            columns, records, content = self._stage(engine, frame, state, batch)
            if (query, batch) == (state.query, state.next - 1):
                return self._repeated(state, batch, records, content)
            if records and state.held and columns != state.columns:
                raise DataError(self._other_columns(state, columns, batch))
            self._note_policy(state)
            taken = replace(
                state, query=query, next=batch + 1, policy=self.policy.digest(), records=records, content=content
            )
            step("note")
            if not records:
                self._write(taken)
                return self._ended(BatchOutcome(batch=batch, kind="empty", records=0, held=taken.waiting))
            name = f"{int(max(state.held, default='-1')) + 1:020d}"  # numbers of batches begin again with a query
            with self._faults():
                os.rename(self.folder / STAGED, self.folder / ROWS / name)
                sync_folder(self.folder / ROWS)
            taken = replace(taken, held={**state.held, name: records}, trying=name, columns=columns)
            self._write(taken)
            return self._released(engine, taken, step)[1]

    def _note_policy(self, state: StreamState) -> None:
        if state.held and state.policy != self.policy.digest():
            log.warning(
                "the policy changed since the last batch: the %s records that are held back are judged by the new one",
                f"{state.waiting:,}",
            )

    def _settled(self, engine: Engine, state: StreamState, step: Callable[[str], None]) -> StreamState:
        """The state once a pending release has ended, and uncounted rows are removed."""
        private_folder(self.folder / ROWS)
        with self._faults():
            if (self.folder / STAGED).exists():
                shutil.rmtree(self.folder / STAGED)
            for folder in (self.folder / ROWS).iterdir():
                if folder.name not in state.held:
                    shutil.rmtree(folder)
            missing = sum(not (self.folder / ROWS / name).is_dir() for name in state.held)
        if missing:
            raise SinkError(
                f"the state of the stream, {str(self.folder)!r}, lacks the rows of {missing:,} batches that are held "
                "back; restore the folder"
            )
        return state if state.trying is None else self._released(engine, state, step)[0]

    def _released(
        self, engine: Engine, state: StreamState, step: Callable[[str], None]
    ) -> tuple[StreamState, BatchOutcome]:
        """Release all rows held back, under the key of the last batch, unless the sink has it; the resulting state."""
        batch, refusal, result = state.next - 1, None, None
        source = SourceSpec(path=str(self.folder / ROWS), format="parquet")
        step("release")
        try:
            result = release(
                self.policy.replaced(source=source),
                engine=engine,
                batch=f"{KEYS}{state.query}:{batch}",
                progress=self.progress,
            )
        except (Refused, NoSolutionError) as error:
            refusal = error
        except (DataError, UsageError):  # nothing is published, and the query delivers the batch again
            held = {name: count for name, count in state.held.items() if name != state.trying}
            self._write(replace(state, next=batch, held=held, trying=None, records=0, content=""))
            raise
        step("settle")
        kind: Kind = "published"
        if refusal is None:
            state = replace(state, held={}, columns=[], trying=None)
        else:
            state, kind = replace(state, trying=None), "held back"
        self._write(state)
        step("clear")
        with self._faults():
            for folder in (self.folder / ROWS).iterdir():
                if folder.name not in state.held:
                    shutil.rmtree(folder)
        outcome = BatchOutcome(
            batch=batch, kind=kind, records=state.records, held=state.waiting, result=result, refusal=refusal
        )
        return state, self._ended(outcome)

    def _repeated(self, state: StreamState, batch: int, records: int, content: str) -> BatchOutcome:
        """The last batch, delivered again."""
        if content != state.content:
            raise DataError(
                f"batch {batch} of the query was taken before with {state.records:,} records, and is delivered again "
                f"with {records:,} and other content: a query must repeat the same rows, or some would be "
                "lost; remove steps that draw or read again at each run from the query"
            )
        return self._ended(BatchOutcome(batch=batch, kind="repeated", records=records, held=state.waiting))

    def _ended(self, outcome: BatchOutcome) -> BatchOutcome:
        self.last = outcome
        self.counts[outcome.kind] += 1
        record = getattr(outcome.refusal, "record", "") or getattr(outcome.result, "record", "")
        log.info(
            "batch %d: %s, %s records; %s records are held back%s",
            outcome.batch,
            outcome.kind,
            f"{outcome.records:,}",
            f"{outcome.held:,}",
            f"; private record: {record!r}" if record else "",
        )
        return outcome

    def _stage(self, engine: Engine, frame: Any, state: StreamState, batch: int) -> tuple[list[list[str]], int, str]:
        """Write the rows of a batch; their types by column, their number and the fingerprint of their content."""
        types = {name: kind for name, kind in self.policy.source_types.items() if kind == CARRIED}
        table = without_others(engine, engine.scan(Source(data=frame, types=types)), self.policy)
        names = [name for name, _ in state.columns]
        if sorted(names) == sorted(table.schema.names):  # files of one source have their columns in one order
            table = engine.select(table, names)
        staged = private_folder(self.folder / STAGED)
        keep_private(staged)
        seed = Seed(bytes.fromhex(state.key))
        engine.write(table, str(staged), "parquet", RunKey.of(seed, self.policy.digest(), str(batch)).rows("held back"))
        with self._faults():
            seal_folder(staged)
        written = engine.scan(Source(data=str(staged), format="parquet", types=types))
        records, content = counted_fingerprint(engine, written, seed)
        return [[each.name, str(each.type)] for each in written.schema], records, content

    def _require_next(self, state: StreamState, chain: Chain, query: str, batch: int) -> None:
        """Refuse a batch that is neither the next one, nor the last one again, nor confirmed."""
        last, name = state.next - 1, f"{query}:{batch}"
        if (query, batch) == (state.query, last):
            return
        if query == state.query and batch < last:
            raise UsageError(
                f"batch {batch} of query {query} was taken before, and so were those up to {last}: the checkpoint is "
                "older than the state folder. Restore it, or begin a new one behind the rows that were delivered"
            )
        if (run_id := chain.run_of(KEYS + name)) is not None:
            raise UsageError(
                f"batch {batch} of query {query} was published by run {run_id}, and the state folder "
                f"{str(self.folder)!r} is older than the sink. Restore it, or begin a new checkpoint behind the "
                "published rows"
            )
        if self.start == name or (query, batch) == (state.query, state.next):
            return
        others = sum(str(entry.get("batch") or "").startswith(KEYS) for entry in chain.releases)
        if state.next:
            found = f"after batch {last} of query {state.query} comes batch {batch} of query {query}"
        elif batch:
            found = f"the state folder {str(self.folder)!r} is new, and batch {batch} of query {query} is not the first"
        elif others:
            found = (
                f"the state folder {str(self.folder)!r} is new, and the sink has {others:,} releases of streams already"
            )
        else:
            return
        raise UsageError(
            f"{found}: a checkpoint or a state folder was deleted, or belongs to another stream. Rows that are read "
            "again would be published twice, and those of batches between would be lost: restore what was deleted. If "
            f"no row of this batch was delivered before, and none between is missing, give start={name!r}"
        )

    def _other_columns(self, state: StreamState, columns: list[list[str]], batch: int) -> str:
        before, now = ({each[0]: each[1] for each in found} for found in (state.columns, columns))
        differ = [
            f"{name!r}: {before.get(name, 'missing')} before, {now.get(name, 'missing')} now"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
        ]
        return (
            f"batch {batch} has other columns than the {state.waiting:,} records that are held back, which it would "
            f"join: {'; '.join(differ)}. Deliver the same columns until those are published, or give another state "
            "folder"
        )

    def _require_own_folder(self) -> None:
        """Refuse a folder that holds something else, and make it private."""
        require_ours(self.folder)
        own = {STATE, f"{STATE}.new", LOCK, ROWS, STAGED}
        if self.folder.is_dir() and (strangers := {place.name for place in self.folder.iterdir()} - own):
            raise UsageError(
                f"state: {str(self.folder)!r} holds {len(strangers):,} files that are not of a stream; name a folder "
                "for the stream alone"
            )
        private_folder(self.folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = locked(self.folder / LOCK, f"the state of the stream, {str(self.folder)!r}")
        try:
            yield
        finally:
            shutil.rmtree(self.folder / STAGED, ignore_errors=True)  # rows that were not taken
            os.close(lock)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"the state of the stream, {str(self.folder)!r}, cannot be written: {error.strerror}"
            ) from None

    def _read(self) -> StreamState:
        """The state, made where the folder is new."""
        with self._sink() as place:
            name = place.name
        try:
            data = (self.folder / STATE).read_bytes()
        except FileNotFoundError:
            if (self.folder / ROWS).is_dir() and any((self.folder / ROWS).iterdir()):
                raise SinkError(
                    f"{str(self.folder)!r} holds rows of a stream and no {STATE}, which counts them; restore it, or "
                    "move the rows away"
                ) from None
            state = StreamState(sink=name)
            self._write(state)
            return state
        state = StreamState.read(data, str(self.folder / STATE))
        if state.sink != name:
            raise UsageError(
                f"state: {str(self.folder)!r} is of a stream into {state.sink!r}; its {state.waiting:,} records that "
                f"are held back would be published into {name!r}. Give another state folder"
            )
        return state

    def _write(self, state: StreamState) -> None:
        with self._faults():
            flush_new(self.folder / STATE, state.written())

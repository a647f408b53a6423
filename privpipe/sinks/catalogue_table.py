"""Publishing to a table of a catalogue: a view of the published name over a table for each release."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from privpipe.blocks.table_name import TableName, backquoted
from privpipe.engines.base.contract import Catalogue
from privpipe.errors import EngineError, PrivpipeError, SinkError
from privpipe.private_files import flush_new, private_folder
from privpipe.sinks.target import METADATA, WholeReleases, public_properties, sink_faults

__all__ = ["TableTarget"]


log = logging.getLogger("privpipe.release")
MARK = "privpipe.sink"
RELEASED = re.compile(r"__(?P<run>\d{8}t\d{6}z_[0-9a-f]{8})(?P<documents>__documents)?")


class TableTarget(WholeReleases):
    """A name in a catalogue.

    Parameters
    ----------
    catalogue : Catalogue
    name : TableName
        Nothing has it, or a view that an earlier run made.
    home : Path
        The folder in which the work area is.

    Raises
    ------
    SinkError
        Something else has the name, a step fails, or another run holds the lock.
    DataError, UnsupportedError
        See `Catalogue.whole`.
    """

    def __init__(self, catalogue: Catalogue, name: TableName, home: Path) -> None:
        self.catalogue = catalogue
        self.table = catalogue.whole(name)
        self.name = str(self.table)
        self.area = Path(os.path.abspath(home)) / f".{self.name}.privpipe"
        staged = f"_privpipe_{self._tag}{secrets.token_hex(8)}"  # no one can guess it
        self._rows, self._texts = self._within(staged), self._within(f"{staged}__documents")
        self._made = [self._rows, self._texts]
        self._before: str | None = None
        self._held: int | None = None
        self._locked = False

    def __enter__(self) -> Self:
        try:
            with self._told():
                self._take_lock()
                self._require_ours()
                self._clean()
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            shutil.rmtree(self.area / "staging", ignore_errors=True)
            left = [*self._made, *([self._beside("__lock")] if self._locked else [])]
            self._made, self._locked = [], False
            for table in left:
                self._let_go(table)
        finally:
            if self._held is not None:
                os.close(self._held)
                self._held = None

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """The work area."""
        return (("the work area of the sink", self.area),)

    @property
    def marks(self) -> Mapping[str, str]:
        """The property that marks our tables."""
        return {MARK: self.name}

    def stage(self, run_id: str) -> Path:
        """An empty private folder for the public documents of this run."""
        return private_folder(self.area / "staging" / run_id)

    def rows(self, run_id: str) -> TableName:
        """The table in which the rows of this run are staged."""
        return self._rows

    def landed(self, run_id: str) -> TableName:
        """That table."""
        return self._rows

    def require_free(self) -> None:
        """Nothing that can be known without a session's lock."""

    def released(self, run_id: str) -> TableName:
        """The table of a release."""
        return self._beside(f"__{run_id.replace('-', '_').lower()}")

    def described(self, run_id: str) -> Mapping[str, str]:
        """The table of a release."""
        return {"table": str(self.released(run_id))}

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` undoes the completed steps."""
        released, home = self.released(run_id), self.stage(run_id) / METADATA
        with self._told():
            texts = {path.stem: path.read_text(encoding="utf-8") for path in home.glob("*.json")}
            self.catalogue.write_texts(texts, self._texts, self.marks)
            said = public_properties(self.stage(run_id), run_id)
            told = {f"privpipe.{key}": word for key, word in said.items()}
            self.catalogue.publish(self._texts, self._documents(run_id), told)
            self.catalogue.publish(self._rows, released, told)
            self._before, query = self._query(), self._reading(released)
            if self._before is None:
                self.catalogue.make_view(self.table, query, self.marks)
            else:
                self.catalogue.switch_view(self.table, query)
        return self.name

    def published(self, run_id: str) -> TableName:
        """What a reader of the sink reads."""
        return self.table

    def withdraw(self, run_id: str) -> None:
        with self._told("the release could not be withdrawn; drop the view by hand"):
            now = self._query()
            if now is not None and self._run_of(now) == run_id:
                if self._before is None:
                    self.catalogue.drop(self.table)
                else:
                    self.catalogue.switch_view(self.table, self._before)
        self._made += [self.released(run_id), self._documents(run_id)]

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self.area / "staging" / run_id, ignore_errors=True)
        self._let_go(self._rows)

    def current(self) -> str | None:
        with self._told():
            query = self._query()
        return None if query is None else f"{self.name}/{self._run_of(query)}"

    def document(self, name: str) -> bytes | None:
        with self._told():
            query = self._query()
            run_id = None if query is None else self._run_of(query)
            texts = {} if run_id is None else self.catalogue.texts(self._documents(run_id))
        return texts[name].encode() if name in texts else None

    def recall(self) -> bytes | None:
        """Nothing: a ledger and a table do not go together."""
        return None

    def remember(self, data: bytes) -> None:
        raise SinkError("a table keeps no record of a ledger")

    @contextmanager
    def _told(self, outcome: str = "nothing was published") -> Iterator[None]:
        try:
            with sink_faults(self.name, outcome):
                yield
        except SinkError:
            raise
        except EngineError as error:
            raise SinkError(f"the sink {self.name!r} cannot be written: {error}; {outcome}") from None

    def _let_go(self, table: TableName) -> None:
        try:
            self.catalogue.drop(table)
        except PrivpipeError as problem:  # the run's own error is reported first; the next run tries again
            log.warning("%s could not be dropped (%s); drop it, or let the next run do it", table, problem)

    @property
    def _tag(self) -> str:
        """Distinguishes the staged tables of different sinks of one database."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:8]

    def _within(self, last: str) -> TableName:
        return TableName((*self.table.parts[:-1], last))

    def _beside(self, ending: str) -> TableName:
        return self._within(self.table.parts[-1] + ending)

    def _documents(self, run_id: str) -> TableName:
        return self._within(f"{self.released(run_id).parts[-1]}__documents")

    def _reading(self, released: TableName) -> str:
        """The query of the view that reads a release; its columns are named, so that it never shows another."""
        found = self.catalogue.find(released)
        return f"SELECT {', '.join(map(backquoted, found.columns if found else ()))} FROM {released.sql}"

    def _query(self) -> str | None:
        """The query of the published view, which is one of ours; None where nothing is published."""
        found = self.catalogue.find(self.table)
        return None if found is None else found.text

    def _run_of(self, query: str) -> str | None:
        """The run whose release a query of ours reads."""
        start = f" FROM {self.table.sql[:-1]}"
        at = query.rfind(start)
        found = RELEASED.fullmatch(query[at + len(start) : -1]) if at >= 0 and query.endswith("`") else None
        if found is None or found["documents"]:
            return None
        day, _, word = found["run"].partition("_")
        return f"{day.upper()}-{word}"

    def _require_ours(self) -> None:
        found = self.catalogue.find(self.table)
        if found is None:
            return
        if found.kind != "view":
            raise SinkError(
                f"the sink {self.name!r} is a table that privpipe did not publish: a release is a view over a table of "
                "its own; rename or drop the table, or give the sink another name"
            )
        run_id = self._run_of(found.text)
        ours = found.properties.get(MARK) == self.name and run_id is not None
        if not ours or found.text != self._reading(self.released(run_id or "")):
            raise SinkError(
                f"the sink {self.name!r} is a view that privpipe did not make, or that was changed; drop it, or "
                "give the sink another name"
            )

    def _clean(self) -> None:
        """Drop tables staged by killed runs, and releases that the view does not name."""
        query = self._query()
        current = None if query is None else self._run_of(query)
        kept = () if current is None else (self.released(current), self._documents(current))
        start, staged = self.table.parts[-1], f"_privpipe_{self._tag}"
        for table in map(self._within, self.catalogue.names(self.table)):
            last = table.parts[-1]
            released = last.startswith(start) and RELEASED.fullmatch(last, len(start))
            if table in kept or not (released or last.startswith(staged)):
                continue
            listed = self.catalogue.find(table)
            if listed is not None and listed.properties.get(MARK) == self.name:
                self.catalogue.drop(table)

    def _take_lock(self) -> None:
        """A lock of this machine that ends with its process, and a view that other machines see."""
        private_folder(self.area)
        self._held = os.open(self.area / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise self._busy() from None
        lock, holder = self._beside("__lock"), self.area / "holder"
        found = self.catalogue.find(lock)
        if found is not None and holder.is_file() and found.text == _locking(holder.read_text("utf-8")):
            self.catalogue.drop(lock)  # a run that was killed here
        elif found is not None:
            raise self._busy(f" (or was killed while it did, started elsewhere: then DROP VIEW {lock.sql})")
        token = secrets.token_hex(16)
        flush_new(holder, token.encode())
        try:
            self.catalogue.make_view(lock, _locking(token), self.marks)
        except EngineError:
            if self.catalogue.find(lock) is None:
                raise
            raise self._busy() from None
        self._locked = True

    def _busy(self, else_: str = "; this one did nothing. Try again when it is done") -> SinkError:
        return SinkError(f"another run is writing the sink {self.name!r}{else_}")


def _locking(token: str) -> str:
    return f"SELECT '{token}' AS run"

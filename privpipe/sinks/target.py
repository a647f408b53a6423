"""Where a release is published: the interface of a place, the local file system, and texts escaped or refused.

On a local file system a release is staged next to the target and switched by one rename.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from privpipe.blocks import Facts, RowBlock
from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.engines.databases import Database
from privpipe.engines.readers.text_forms import formula_cells
from privpipe.errors import DataError, SinkError
from privpipe.private_files import flush_new, make_public, private_folder, public_modes, require_ours, sync_folder

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "MEMORY",
    "METADATA",
    "OTHER_PARTITIONS",
    "LocalTarget",
    "Rows",
    "Target",
    "WholeReleases",
    "escapes_formulas",
    "flush_below",
    "formula_notes",
    "is_remote",
    "public_properties",
    "sink_faults",
]


OTHER_PARTITIONS = (
    "the rows join those of other partitions in one table: who is in several of them has several rows there, and "
    "unless a ledger follows persons nothing judges what these reveal together"
)

Rows = Path | TableName | Database | Source
"""Where rows of a release are read: a folder, a table of a catalogue or of a database, or any other source."""


def is_remote(path: str) -> bool:
    """Whether a sink path names an fsspec file system.

    Examples
    --------
    >>> is_remote("s3://lake/adult"), is_remote("published/adult")
    (True, False)
    """
    return "://" in path


class Target(Protocol):
    """A place a release can be published to."""

    @property
    def name(self) -> str:
        """Its name: a path, a URL, a table."""

    @property
    def area(self) -> Path | None:
        """A folder on this machine for what readers must not see; None: there is none."""

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """What a run writes on this machine, as far as known in advance: its name for people, and its place."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def stage(self, run_id: str) -> Path:
        """An empty local folder for this run's files."""

    @property
    def publishes_files(self) -> bool:
        """Whether readers read the staged files, byte for byte."""

    @property
    def marks(self) -> Mapping[str, str]:
        """Properties by which a run recognises the tables of this sink."""

    def rows(self, run_id: str) -> Path | TableName:
        """Where the rows of this run are written: that folder, one below it, or a table."""

    def landed(self, run_id: str) -> Rows:
        """What is judged and published: the written rows in their final form, or a table that they are loaded into."""

    def fits(self, schema: pa.Schema) -> None:
        """Refuse rows of a schema that cannot be published here, before they are written."""

    def kept(self, rows: Rows) -> Source | None:
        """Current rows that stay next to those that a release stages at `rows`; None: there are none."""

    def completed(self, run_id: str) -> None:
        """Put the rows that stay next to the staged files, once both were judged, if readers read one folder."""

    def whole(self, run_id: str) -> Source | None:
        """All rows that readers see since this run published, where some were kept."""

    def notes(self) -> Sequence[str]:
        """What a verdict must state about releases here."""

    def described(self, run_id: str) -> Mapping[str, Any]:
        """What the public manifest states about the place of this run's rows."""

    def require_free(self) -> None:
        """Refuse a place that could not be published to now, as far as can be checked."""

    def close(self) -> None:
        """Close what was opened to inspect a place that was never entered."""

    def publish(self, run_id: str) -> str:
        """Make the staged files the published release, in one step; returns where it is read."""

    def published(self, run_id: str) -> Rows:
        """This run's rows as a reader of the target would read them now: a local folder, or a table."""

    def withdraw(self, run_id: str) -> None:
        """Restore the release before this run."""

    def refuse(self, run_id: str) -> None:
        """Delete the files of a refused run."""

    def current(self) -> str | None:
        """What names the published release (its run id is part of it); None: nothing is published."""

    def document(self, name: str) -> bytes | None:
        """A public document of the published release, as stored; None: there is none."""

    def recall(self) -> bytes | None:
        """What the target keeps in addition to the data readers see; None: nothing."""

    def remember(self, data: bytes) -> None:
        """Keep this instead, whole or not at all."""


class WholeReleases:
    """The defaults of targets where a release replaces the previous one, whatever its columns."""

    @property
    def publishes_files(self) -> bool:
        """Tables hold rows."""
        return False

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """Nothing known in advance."""
        return ()

    def fits(self, schema: pa.Schema) -> None:
        """Any schema."""

    def kept(self, rows: Rows) -> Source | None:
        """Nothing."""
        return None

    def completed(self, run_id: str) -> None:
        """Nothing stays."""

    def whole(self, run_id: str) -> Source | None:
        """Nothing more than the release."""
        return None

    def notes(self) -> Sequence[str]:
        """Nothing."""
        return ()

    def described(self, run_id: str) -> Mapping[str, Any]:
        """Nothing more than the files."""
        return {}

    def require_free(self) -> None:
        """Known when it is opened."""

    def close(self) -> None:
        """Nothing is open."""


WHAT = "begin with =, +, -, @ or a tab, which spreadsheet programs run as formulas"


@dataclass(frozen=True)
class CountFormulas:
    """Cells of each column that a spreadsheet treats as formulas."""

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> Mapping[str, int]:
        return {name: formula_cells(block.column(name)).true_count for name in self.columns}

    def merge(self, left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
        return {name: left[name] + right[name] for name in self.columns}


def escapes_formulas(policy: Policy) -> bool:
    """Whether the sink puts an apostrophe before such texts."""
    return policy.sink is not None and policy.sink.escapes_formulas


def formula_notes(engine: Engine, policy: Policy, table: Any) -> tuple[str, ...]:
    """What the verdict states about such cells and column names in a CSV release; empty if there are none.

    Raises
    ------
    DataError
        There are some, and the sink has `formula_cells: refuse`.
    """
    sink = policy.sink
    if sink is None or sink.format != "csv":
        return ()
    found = [*_in_cells(engine, table), *_in_names(table.schema.names)]
    if not found:
        return ()
    listed = ", ".join(found)
    if sink.formula_cells == "refuse":
        raise DataError(
            f"{listed} {WHAT}, and the sink has `formula_cells: refuse`; change the labels, or write `escape`"
        )
    if sink.formula_cells == "escape":
        return (f"{listed} {WHAT}: they are written behind an apostrophe",)
    return (f"{listed} {WHAT}; `formula_cells: escape` or `refuse` in the sink keeps them from it",)


def _in_cells(engine: Engine, table: Any) -> list[str]:
    texts = tuple(field.name for field in table.schema if pa.types.is_string(field.type))
    counted = (engine.reduce_rows(table, texts, CountFormulas(texts), Facts()) or {}) if texts else {}
    return [f"{count:,} cell{'s' if count != 1 else ''} of column {name!r}" for name, count in counted.items() if count]


def _in_names(names: Sequence[str]) -> list[str]:
    formulas = formula_cells(pa.array(names)).to_pylist()
    return [f"the name of column {name!r}" for name, formula in zip(names, formulas, strict=True) if formula]


MEMORY = "ledger.json"
METADATA = "_privpipe"
"""Folder inside a release for its public documents; data tools skip names with a leading underscore."""


class LocalTarget(WholeReleases):
    """A folder on a local (or mounted) file system.

    Parameters
    ----------
    path : Path
        The published path. It may be absent, an empty folder, or a link that an earlier run made.

    Raises
    ------
    SinkError
        Something else is at the path, the work area belongs to another user or holds links, the place cannot be
        written, or another run holds the lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self.state = self.path.parent / f".{self.path.name}.privpipe"
        self._lock: int | None = None
        self._before: str | None = None

    def __enter__(self) -> Self:
        with sink_faults(self.path):
            self._open()
        try:
            fcntl.flock(self._lock or -1, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._unlock()
            raise SinkError(
                f"another run is writing the sink {str(self.path)!r}; this one did nothing. Try again when it is done"
            ) from None
        try:
            with sink_faults(self.path):
                self._require_ours()
                self._clean()
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self._unlock()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for folder in (self.state / "staging").glob("*"):  # written by a run that ended early, and never judged
                shutil.rmtree(folder, ignore_errors=True)
            for pointer in self.state.glob("pointer-*"):
                with suppress(OSError):  # the next run tries to remove it again
                    pointer.unlink()
        finally:
            self._unlock()

    def require_free(self) -> None:
        """Refuse a path that could not be published to now, without making or locking anything.

        Raises
        ------
        SinkError
        """
        with sink_faults(self.path):
            if self.path.parent.is_dir():
                self._require_ours()

    def private(self, name: str) -> Path:
        """A folder of the work area that only its owner can read, made if it is not there.

        Raises
        ------
        SinkError
            It is a link, or belongs to another user.
        """
        return private_folder(self.state / name)

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """The path, and the work area next to it."""
        return (("the sink", self.path), ("the work area of the sink", self.state))

    @property
    def publishes_files(self) -> bool:
        """They are moved."""
        return True

    def stage(self, run_id: str) -> Path:
        return private_folder(self.state / "staging" / run_id)

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def area(self) -> Path | None:
        """The work area."""
        return self.state

    @property
    def marks(self) -> Mapping[str, str]:
        """None: files are known by where they are."""
        return {}

    def rows(self, run_id: str) -> Path:
        """The staged folder."""
        return self.state / "staging" / run_id

    def landed(self, run_id: str) -> Path:
        """The staged folder."""
        return self.rows(run_id)

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` undoes the completed steps."""
        staged, home = self.state / "staging" / run_id, self.state / "releases" / run_id
        with sink_faults(self.path):
            make_public(staged, public_modes(self.state / "releases"))
            flush_below(staged)
            self._before = self.current()
            if self._before is not None:  # made while there is room, so that going back takes none
                self._link(self._before, self._pointer_back(run_id))
            os.rename(staged, home)
            sync_folder(home.parent)
            if self.path.is_dir() and not self.path.is_symlink():
                self.path.rmdir()
            pointer = self.state / f"pointer-{run_id}"
            # The link's own text is relative to where it will be; a rename moves it there in one step.
            self._link(os.path.relpath(home, self.path.parent), pointer)
            os.replace(pointer, self.path)
            sync_folder(self.path.parent)
        return str(self.path)

    def published(self, run_id: str) -> Rows:
        return Path(os.path.realpath(self.path))

    def withdraw(self, run_id: str) -> None:
        home = self.state / "releases" / run_id
        with sink_faults(self.path, "the release could not be withdrawn; remove the link by hand"):
            if self.path.is_symlink() and os.path.realpath(self.path) == os.path.realpath(home):
                if self._before is None:
                    self.path.unlink()
                else:
                    os.replace(self._pointer_back(run_id), self.path)
                sync_folder(self.path.parent)
        shutil.rmtree(home, ignore_errors=True)

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self.state / "staging" / run_id, ignore_errors=True)

    def current(self) -> str | None:
        return os.readlink(self.path) if self.path.is_symlink() else None

    def document(self, name: str) -> bytes | None:
        try:
            return (self.path / METADATA / f"{name}.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SinkError(f"the {name} at {str(self.path)!r} cannot be read: {error.strerror}") from None

    def recall(self) -> bytes | None:
        try:
            with os.fdopen(os.open(self.state / MEMORY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SinkError(f"the state of the sink {str(self.path)!r} cannot be read: {error.strerror}") from None

    def remember(self, data: bytes) -> None:
        with sink_faults(self.path):
            flush_new(self.state / MEMORY, data)

    def _open(self) -> None:
        """The work area's folders, and the file that is locked during a run."""
        if not self.path.parent.is_dir():
            self.path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.state, self.state / "releases"):
            require_ours(folder)
            folder.mkdir(exist_ok=True)
            require_ours(folder)  # another process may have made it in between
        self.private("staging")
        for folder in (self.state, self.state / "staging", self.state / "releases"):
            for entry in folder.iterdir():
                if entry.is_symlink() and not entry.name.startswith("pointer-"):
                    raise SinkError(
                        f"the work area holds a link, {str(entry)!r}, which privpipe did not make; remove it"
                    )
        self._lock = os.open(self.state / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def _pointer_back(self, run_id: str) -> Path:
        return self.state / f"pointer-back-{run_id}"

    def _link(self, destination: str, pointer: Path) -> None:
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(destination)

    def _require_ours(self) -> None:
        if self.path.is_symlink():
            if Path(os.path.realpath(self.path)).parent != (self.state / "releases").resolve():
                raise SinkError(f"the sink {str(self.path)!r} is a link that privpipe did not make; move it away")
        elif self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise SinkError(f"the sink {str(self.path)!r} holds something privpipe did not publish; move it away")
        if not os.access(self.path.parent, os.W_OK):
            raise SinkError(f"the sink {str(self.path)!r} cannot be written: its folder is read-only")

    def _clean(self) -> None:
        """Remove the remains of a killed run: staged files, releases without a pointer, pointers not yet in place."""
        current = Path(os.path.realpath(self.path)) if self.path.is_symlink() else None
        for folder in (self.state / "staging").iterdir():
            shutil.rmtree(folder)
        for folder in (self.state / "releases").iterdir():
            if folder.resolve() == current:
                continue
            if folder.is_dir():
                shutil.rmtree(folder)
            else:
                folder.unlink()
        for pointer in self.state.glob("pointer-*"):
            pointer.unlink()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def sink_faults(sink: Path | str, outcome: str = "nothing was published") -> Iterator[None]:
    """An error of the file system at a step of publishing, as an error of the sink.

    Raises
    ------
    SinkError
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SinkError(f"the sink {str(sink)!r} cannot be written: {reason}; {outcome}") from None


def flush_below(folder: Path) -> None:
    """Flush everything below to disk before readers are pointed at it."""
    for root, _, files in os.walk(folder):
        for name in files:
            handle = os.open(Path(root, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(root))


def public_properties(staged: Path, run_id: str) -> dict[str, str]:
    """``run_id``, ``verdict`` (``passed`` or ``refused``), ``policy_hash`` and ``batch`` of a staged release."""
    verdict, manifest = (
        json.loads((staged / METADATA / f"{name}.json").read_text(encoding="utf-8")) for name in ("verdict", "manifest")
    )
    word = "passed" if verdict["passed"] is True else "refused"
    batch = {} if manifest.get("batch") is None else {"batch": str(manifest["batch"])}
    return {"run_id": run_id, "verdict": word, "policy_hash": str(verdict["policy_hash"]), **batch}

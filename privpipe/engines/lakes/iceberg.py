"""Iceberg tables by name, which pyiceberg finds in a catalogue and whose files it reads."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from privpipe.engines.lakes.lake_table import LakeTable
from privpipe.errors import DataError, EngineError, PrivpipeError, UnsupportedError, UsageError

__all__ = [
    "IcebergName",
    "IcebergPiece",
    "iceberg_catalogue",
    "iceberg_files",
    "iceberg_said",
    "iceberg_table",
    "pinned_name",
]


OWN = ("write.", "read.", "commit.", "history.", "schema.", "format-version", "gc.", "owner", "created-at", "privpipe.")
"""What properties that the format knows begin with."""


@dataclass(frozen=True, kw_only=True)
class IcebergName:
    """An Iceberg table in a catalogue of pyiceberg's own configuration.

    Parameters
    ----------
    name : str
        With its namespace: ``db.visits``.
    catalog : str
        Name of the catalogue.
    snapshot : int, optional
        Number of a snapshot.
    branch, tag : str, optional
        Instead of `snapshot`. Default: the table as it is now.

    Examples
    --------
    >>> str(IcebergName(name="db.visits", tag="audited"))
    'db.visits'
    """

    name: str
    catalog: str = "default"
    snapshot: int | None = None
    branch: str | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        if "." not in self.name.strip("."):
            raise UsageError(f"an Iceberg table is named with its namespace, as in db.visits, not {self.name!r}")
        if sum(each is not None for each in (self.snapshot, self.branch, self.tag)) > 1:
            raise UsageError("`snapshot`, `branch` and `tag` exclude one another; leave all but one out")

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class IcebergPiece:
    """A data file of an Iceberg table, with what deletes rows of it."""

    metadata: Any
    io: Any
    projection: Any
    task: Any
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The live rows of the file, by pyiceberg."""
        with _reported("a file of the Iceberg table"):
            from pyiceberg.expressions import AlwaysTrue
            from pyiceberg.io.pyarrow import ArrowScan

            scan = ArrowScan(self.metadata, self.io, self.projection, AlwaysTrue())
            for batch in scan.to_record_batches([self.task]):
                yield batch.select(self.schema.names).cast(self.schema)


def pinned_name(name: IcebergName) -> IcebergName:
    """The name with the snapshot that it means now; a table without one has no rows. Raises as `iceberg_table`."""
    with _loaded(name) as table:
        found = _snapshot(table, name)
    return name if found is None else replace(name, snapshot=found, branch=None, tag=None)


def iceberg_table(name: IcebergName) -> LakeTable:
    """An Iceberg table at a snapshot.

    Raises
    ------
    UsageError
        pyiceberg is not installed, or its configuration has no such catalogue.
    DataError
        There is no such table, snapshot, branch or tag.
    UnsupportedError
        The table has deletes that pyiceberg does not read (by equality), or needs a newer reader.
    EngineError
        The catalogue or a file cannot be reached.
    """
    with _loaded(name) as table, _reported(f"the Iceberg table {name.name!r}"):
        snapshot = _snapshot(table, name)
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        scan = table.scan(snapshot_id=snapshot)
        projection = scan.projection()
        schema = schema_to_pyarrow(projection, include_field_ids=False)
        tasks = [] if snapshot is None else list(scan.plan_files())
    return LakeTable(schema, tuple(IcebergPiece(table.metadata, table.io, projection, task, schema) for task in tasks))


def iceberg_said(name: IcebergName) -> list[str]:
    """Keys of the table's properties and columns that are not the format's own; never values. As `iceberg_table`."""
    with _loaded(name) as table, _reported(f"the properties of the Iceberg table {name.name!r}"):
        found = [key for key in table.properties if not key.startswith(OWN)]
        return found + [f"{each.name}: doc" for each in table.schema().fields if each.doc]


def iceberg_files(name: IcebergName) -> tuple[str, list[str], list[str], int]:
    """Where a table lies, its data files, those of all its snapshots, and how many hold rows that were deleted.

    Raises as `iceberg_table`.
    """
    with _loaded(name) as table, _reported(f"the files of the Iceberg table {name.name!r}"):
        snapshot = _snapshot(table, name)
        tasks = [] if snapshot is None else list(table.scan(snapshot_id=snapshot).plan_files())
        named = {
            str(task.file.file_path)
            for each in table.snapshots()
            for task in table.scan(snapshot_id=each.snapshot_id).plan_files()
        }
        deleted = sum(bool(task.delete_files) for task in tasks)
        return str(table.location()), [str(task.file.file_path) for task in tasks], sorted(named), deleted


def iceberg_catalogue(name: str) -> Any:
    """A catalogue of pyiceberg's configuration.

    Raises
    ------
    UsageError
        pyiceberg is not installed, or the catalogue does not open.
    """
    try:
        catalogues = importlib.import_module("pyiceberg.catalog")
    except ImportError:
        raise UsageError("an Iceberg table needs pyiceberg: pip install 'privpipe[iceberg]'") from None
    try:
        return catalogues.load_catalog(name)
    except Exception as error:  # noqa: BLE001 its text may quote an address with a password
        raise UsageError(
            f"the Iceberg catalogue {name!r} does not open ({type(error).__name__}); describe it in "
            ".pyiceberg.yaml or in the environment (PYICEBERG_CATALOG__...), and see `privpipe explain iceberg`"
        ) from None


@contextmanager
def _loaded(name: IcebergName) -> Iterator[Any]:
    """The table, by a catalogue that is closed at the end: its files are read without it."""
    catalogue = iceberg_catalogue(name.catalog)
    try:
        with _reported(f"the Iceberg table {name.name!r}"):
            table = _found(catalogue, name)
        yield table
    finally:
        with suppress(Exception):  # the table was read; texts of its errors may hold credentials
            catalogue.close()


def _found(catalogue: Any, name: IcebergName) -> Any:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return catalogue.load_table(name.name)
    except NoSuchTableError:
        problem = DataError(f"there is no Iceberg table {name.name!r} in the catalogue {name.catalog!r}")
    raise problem


def _snapshot(table: Any, name: IcebergName) -> int | None:
    """Number of the snapshot that is meant; None for a table without any."""
    if name.snapshot is not None:
        known = {each.snapshot_id for each in table.snapshots()}
        if name.snapshot not in known:
            raise DataError(f"the Iceberg table {name.name!r} has no snapshot {name.snapshot}")
        return name.snapshot
    wanted = name.branch or name.tag
    if wanted is None:
        now = table.current_snapshot()
        return None if now is None else int(now.snapshot_id)
    kind = "branch" if name.branch else "tag"
    ref = table.refs().get(wanted)
    if ref is None or ref.snapshot_ref_type.value != kind:
        raise DataError(f"the Iceberg table {name.name!r} has no {kind} {wanted!r}")
    return int(ref.snapshot_id)


class _reported:  # noqa: N801 used as a function
    """What pyiceberg says comes out as ours: by kind alone, since its text may quote values or credentials."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, PrivpipeError):
            return
        if isinstance(error, ImportError):
            raise UsageError("an Iceberg table needs pyiceberg where it is read: pip install 'privpipe[iceberg]'")
        if isinstance(error, ValueError | NotImplementedError | TypeError):
            reason = "equality deletes" if "equality delete" in str(error) else type(error).__name__
            raise UnsupportedError(
                f"{self.what} is not read by pyiceberg ({reason}); compact it, or hand it over as a frame that its own "
                "engine read (Spark's `table(...)`)"
            ) from None
        raise EngineError(f"{self.what} cannot be read: {type(error).__name__}") from None

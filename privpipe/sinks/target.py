"""The interface of a place to which a release can be published, and texts that it escapes or refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["OTHER_PARTITIONS", "Rows", "Target", "WholeReleases", "escapes_formulas", "formula_notes", "is_remote"]


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
        """What names it: a path, a URL, a table."""

    @property
    def area(self) -> Path | None:
        """A folder of this machine for what readers must not see; None: there is none."""

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """What a run writes on this machine, as far as it is known before: its name for people, and where it is."""

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
        """Properties by which a run knows the tables of this sink."""

    def rows(self, run_id: str) -> Path | TableName:
        """Where the rows of this run are written: that folder, one below it, or a table."""

    def landed(self, run_id: str) -> Rows:
        """What is judged and published: the written rows in their final form, or a table that they are loaded into."""

    def fits(self, schema: pa.Schema) -> None:
        """Refuse rows of a schema that cannot be published here, before they are written."""

    def kept(self, rows: Rows) -> Source | None:
        """Rows that stay next to those that a release stages at `rows`, as they are now; None: there are none."""

    def completed(self, run_id: str) -> None:
        """Put what stays next to the staged files, once both were judged, where readers read one folder."""

    def whole(self, run_id: str) -> Source | None:
        """All rows that readers see since this run published, where some were kept."""

    def notes(self) -> Sequence[str]:
        """What a verdict must say of releases here."""

    def described(self, run_id: str) -> Mapping[str, Any]:
        """What the public manifest states about the place of this run's rows."""

    def require_free(self) -> None:
        """Refuse a place that could not be published to now, as far as looking shows."""

    def close(self) -> None:
        """Close what was opened to look at a place that was never entered."""

    def publish(self, run_id: str) -> str:
        """Make what is staged the published release, in one step; returns where it is read."""

    def published(self, run_id: str) -> Rows:
        """This run's rows as a reader of the target would read them now: a local folder, or a table."""

    def withdraw(self, run_id: str) -> None:
        """Put back what was published before this run."""

    def refuse(self, run_id: str) -> None:
        """Throw the files of a refused run away."""

    def current(self) -> str | None:
        """What names the published release (its run id is part of it); None: nothing is published."""

    def document(self, name: str) -> bytes | None:
        """A public document of the published release, as it is there; None: there is none."""

    def recall(self) -> bytes | None:
        """What the target keeps, in addition to what readers see; None: nothing."""

    def remember(self, data: bytes) -> None:
        """Keep this instead, whole or not at all."""


class WholeReleases:
    """What is true of places where a release takes the place of the one before, whatever its columns."""

    @property
    def publishes_files(self) -> bool:
        """Tables hold rows."""
        return False

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """Nothing that is known before."""
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
    """Cells of each column that a spreadsheet takes for formulas."""

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> Mapping[str, int]:
        return {name: formula_cells(block.column(name)).true_count for name in self.columns}

    def merge(self, left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
        return {name: left[name] + right[name] for name in self.columns}


def escapes_formulas(policy: Policy) -> bool:
    """Whether the sink puts an apostrophe before such texts."""
    return policy.sink is not None and policy.sink.escapes_formulas


def formula_notes(engine: Engine, policy: Policy, table: Any) -> tuple[str, ...]:
    """What the verdict states about such cells and names of columns in a CSV release; nothing where there are none.

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

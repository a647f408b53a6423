"""The sections of a policy as frozen values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privpipe.blocks.table_name import TableName
from privpipe.engines.base import Format, Source, format_of
from privpipe.engines.databases import Database
from privpipe.engines.lakes import IcebergName
from privpipe.engines.readers.text_forms import TextForm
from privpipe.engines.readers.unpacking import MOST_BYTES
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging.column_loss import ColumnLossRule
from privpipe.roles import ColumnType, Role, Roles

if TYPE_CHECKING:
    from privpipe.reporting.officer.languages import Language
    from privpipe.transforms.base import Transformer

__all__ = [
    "KEEPS_KEYS",
    "ColumnSpec",
    "DriftSpec",
    "FailingSpec",
    "FormulaRule",
    "FrameSpec",
    "PlanSpec",
    "PublishMode",
    "ReportSpec",
    "RetentionSpec",
    "SchemaRule",
    "SinkSpec",
    "SourceSpec",
    "Utility",
    "drawing_stage",
    "located",
    "require_one_table",
    "roles_of",
    "suppresses",
]

FormulaRule = Literal["keep", "escape", "refuse"]
PublishMode = Literal["replace", "append", "replace_partition"]
SchemaRule = Literal["same", "evolve"]


def located(path: str, base_dir: Path) -> str:
    """A path of a policy for the running program: relative ones start at the policy's folder.

    Examples
    --------
    >>> located("data/adult.csv", Path("/policies")), located("s3://lake/adult", Path("/policies"))
    ('/policies/data/adult.csv', 's3://lake/adult')
    """
    if "://" in path:
        return path
    return os.path.normpath(base_dir / path)


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """A table named in a policy; the keys are those of `privpipe.engines.Source` and of its `form`.

    `table`, `database` or `iceberg` replaces `path`. `generalized` (of a population): the release's
    generalization is applied already.
    """

    path: str = ""
    table: TableName | None = None
    database: Database | None = None
    iceberg: IcebergName | None = None
    format: Format | None = None
    version: int | None = None
    timestamp: str | None = None
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ("",)
    max_bytes: int = MOST_BYTES
    form: TextForm = field(default_factory=TextForm)
    sheet: str | None = None
    partitions: tuple[str, ...] = ()
    generalized: bool = False

    @property
    def resolved_format(self) -> Format:
        """The format asked for, else that of the path's ending; UsageError when neither gives it."""
        return self.format or format_of(self.path)

    def to_source(self, types: Mapping[str, str], base_dir: Path) -> Source:
        """What an engine scans.

        Examples
        --------
        >>> SourceSpec(path="adult.csv").to_source({"age": "integer"}, Path("/policies")).types
        {'age': 'integer'}
        """
        if self.database is not None:
            return Source(data=self.database.within(base_dir), types=dict(types))
        if self.table is not None:
            return Source(data=self.table, types=dict(types))
        if self.iceberg is not None:
            return Source(data=self.iceberg, types=dict(types))
        return Source(
            data=located(self.path, base_dir),
            format=self.format,
            delimiter=self.delimiter,
            header=self.header,
            columns=self.columns,
            null_values=self.null_values,
            max_bytes=self.max_bytes,
            form=self.form,
            sheet=self.sheet,
            partitions=self.partitions,
            version=self.version,
            timestamp=self.timestamp,
            types=dict(types),
        )


@dataclass(frozen=True, kw_only=True)
class FrameSpec(SourceSpec):
    """A frame used instead of a table that a policy names."""

    path: str = "a data frame"
    frame: Any = field(repr=False, compare=False)

    def to_source(self, types: Mapping[str, str], base_dir: Path) -> Source:
        return Source(data=self.frame, types=dict(types))


@dataclass(frozen=True, kw_only=True)
class SinkSpec:
    """Where a release is published: a folder of files, a table of a table format, or one of a catalogue or database.

    `mode` states whether a release replaces the ones before it, joins them or replaces its own partitions of them;
    `partition` names the released columns whose values make a partition. `schema` is of tables of a table format:
    whether a release may bring columns that the table lacks.
    """

    path: str = ""
    table: TableName | None = None
    iceberg: IcebergName | None = None
    database: Database | None = None
    format: Format = "parquet"
    mode: PublishMode = "replace"
    partition: tuple[str, ...] = ()
    schema: SchemaRule = "same"
    formula_cells: FormulaRule = "keep"

    @property
    def file_format(self) -> Format:
        """Format of the files that are written."""
        return "parquet" if self.format == "delta" else self.format

    @property
    def escapes_formulas(self) -> bool:
        """Whether texts that would be formulas are written behind an apostrophe."""
        return self.formula_cells == "escape"

    @property
    def keeps_rows(self) -> bool:
        """Whether rows of earlier releases stay next to those of a release.

        Examples
        --------
        >>> SinkSpec(path="published", mode="append").keeps_rows, SinkSpec(path="published").keeps_rows
        (True, False)
        """
        return self.mode != "replace"

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, here or on an object store.

        Examples
        --------
        >>> SinkSpec(path="published").is_folder, SinkSpec(table=TableName(("visits",))).is_folder
        (True, False)
        """
        return bool(self.path)

    def target(self, base_dir: Path) -> str:
        """The folder, as a path for the running program."""
        return located(self.path, base_dir)


@dataclass(frozen=True, kw_only=True)
class DriftSpec:
    """What a run does if the columns of its source differ from those of the previous run.

    `new` left out: what `columns: {"*": ...}` states about every column that the policy does not name.
    """

    new: Literal["refuse", "drop"] | None = None
    missing: Literal["refuse"] = "refuse"
    widened: Literal["accept", "refuse"] = "accept"


@dataclass(frozen=True, kw_only=True)
class FailingSpec:
    """Where the records of failing classes that a run leaves out are kept."""

    path: str


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """A plan that a release follows unchanged."""

    file: str

    def target(self, base_dir: Path) -> str:
        """The file, as a path for the running program."""
        return located(self.file, base_dir)


USUAL_LOSS = ColumnLossRule()


@dataclass(frozen=True, kw_only=True)
class Utility:
    """What a release will be used for."""

    column_loss: ColumnLossRule = USUAL_LOSS


@dataclass(frozen=True, kw_only=True)
class ReportSpec:
    """The report that each run writes.

    Parameters
    ----------
    write : bool
    threshold : int or None
        Records that a figure must be based on to be shown; None: the largest k asked of k-anonymity, at least 5.
    lang : {"en", "de", "fr", "es"}
    """

    write: bool = True
    threshold: int | None = None
    lang: Language = "en"


@dataclass(frozen=True, kw_only=True)
class RetentionSpec:
    """Which private records of a sink's runs are kept.

    Parameters
    ----------
    keep : int or None
        The newest so many.
    days : int or None
        Those that are not older.

    Raises
    ------
    UsageError
        Neither, both, or less than 1.
    """

    keep: int | None = None
    days: int | None = None

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.days is None):
            raise UsageError("needs exactly one of `keep` and `days`: how long records are kept")
        if (self.keep or self.days or 0) < 1:
            raise UsageError(f"keeps at least 1, got {self.keep if self.days is None else self.days}")


@dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    """What a policy states about one column; `reason` is for those responsible for the release, and never public."""

    role: Role
    type: ColumnType | None = None
    nulls: Literal["own_value", "refuse"] = "own_value"
    hierarchy: HierarchySpec | None = None
    reason: str = ""


def roles_of(columns: Mapping[str, ColumnSpec]) -> Roles:
    """The role of every column of a policy.

    Raises
    ------
    RolesError
        Two names that differ only in case.

    Examples
    --------
    >>> roles_of({"age": ColumnSpec(role="quasi_identifier")}).quasi_identifiers
    ('age',)
    """
    names: dict[str, list[str]] = {}
    for name, column in columns.items():
        names.setdefault(column.role, []).append(name)
    return Roles(
        quasi_identifiers=names.get("quasi_identifier", ()),
        sensitive=names.get("sensitive", ()),
        identifiers=names.get("identifier", ()),
        insensitive=names.get("insensitive", ()),
        dropped=names.get("drop", ()),
        carried=names.get("carried", ()),
    )


def drawing_stage(stages: Iterable[Transformer], columns: Mapping[str, ColumnSpec]) -> Transformer | None:
    """The stage that replaces all rows by new ones; None if every row is one of the source.

    Examples
    --------
    >>> from privpipe.transforms import Synthesize
    >>> columns = {"age": ColumnSpec(role="quasi_identifier"), "name": ColumnSpec(role="identifier")}
    >>> drawing_stage([Synthesize()], columns), drawing_stage([], columns)
    (Synthesize(), None)
    """
    made = tuple(stages)
    kept = {name for stage in made if stage.taxon == "identifiers" for name in stage.masked_columns()}
    released = [
        name for name, each in columns.items() if each.role != "drop" and (each.role != "identifier" or name in kept)
    ]
    for stage in made:
        if stage.draws_records(released):
            return stage
        released += stage.made_columns()
    return None


KEEPS_KEYS = ("suppress_records", "sample", "drop_identifiers", "pseudonymise")
"""Stages that leave quasi-identifiers unchanged."""


def suppresses(stage: Transformer) -> bool:
    """Whether a stage suppresses with the parameters it has."""
    from privpipe.transforms.recoding.generalize import Generalize

    if isinstance(stage, Generalize):
        return stage.limit is not None
    return stage.suppresses


def require_one_table(policy: Any, verb: str) -> None:
    """Refuse a policy about related tables where only one table is supported.

    Raises
    ------
    UsageError
    """
    if policy.related is not None:
        raise UsageError(
            f"{verb}: policy {policy.name!r} is about related tables, and {verb} serves one; use `assess` for the "
            "sources as they are, `release` (with `dry_run` to publish nothing), or `validate` for finished tables"
        )

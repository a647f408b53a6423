"""What a ledger keeps of releases about the same persons: hashes of who was in which class, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks.entry import Entry
from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.marks import FilePath, Stricter
from privpipe.blocks.parameters import require_choice
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import HISTORY
from privpipe.draws.stream import require_key_place
from privpipe.errors import UsageError
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import HierarchySpec

__all__ = [
    "NORMALISATIONS",
    "EarlierTables",
    "FollowsPersons",
    "HistoryMeasure",
    "NoiseRows",
    "ReleaseHistory",
    "ReleaseRows",
    "TableRows",
]

NORMALISATIONS = ("trim", "casefold", "nfc")
"""What may be done to the keys of persons before they are compared."""


@dataclass(frozen=True)
class NoiseRows:
    """What one release shows of persons' numbers under noise: which draw of which stage hides which value.

    Parameters
    ----------
    stages : tuple of (str, str)
        Column and keyed id of the stage key, for each column that noise was added to.
    units : ndarray of int64, shape (n, 2)
        Keyed hash of the person.
    stage : ndarray of int64, shape (n,)
        Index into `stages`.
    draws : ndarray of int64, shape (n, 2)
        Keyed hash of stage key, record and value: equal where the noise is the same draw.
    values : ndarray of int64, shape (n, 2)
        Keyed hash of person and value as it entered the stage.
    ratios : ndarray of float64, shape (n,)
        Variance of the noise in variances of the column; 0 where nothing was added.
    bare : tuple of str
        Numeric columns that were released unchanged.
    """

    stages: tuple[tuple[str, str], ...]
    units: NDArray[Any] = field(repr=False)
    stage: NDArray[Any] = field(repr=False)
    draws: NDArray[Any] = field(repr=False)
    values: NDArray[Any] = field(repr=False)
    ratios: NDArray[Any] = field(repr=False)
    bare: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ratios)


@dataclass(frozen=True)
class TableRows:
    """What one release of tables showed, and which cells its persons were in; as secret as the original.

    Parameters
    ----------
    definitions : tuple of mapping
        Of each table: name, dimensions with their trees, `only`, responses, decimals and status of each measure.
    cells : tuple of mapping of str to ndarray of int64, shape (cells,)
        Of each table, by ``measure:what``: `shown`, `low`, `high`, `hidden`, `total` and `contributors`.
    persons : ndarray of int64, shape (n,)
        Index into `units` of the release.
    leaves : ndarray of int64, shape (n, tables)
        Leaf cell of each table that the records are in; -1 where the table leaves them out.
    columns : tuple of str
        Columns that are added up.
    values : ndarray of int64, shape (n, columns)
        Contributions, in the unit of the measure; a row for each record then, else for each person and cell.
    present : ndarray of int64, shape (n, columns)
        0 where every value is missing, else 1; 2 of contributions whose protection is waived.
    """

    definitions: tuple[Mapping[str, Any], ...]
    cells: tuple[Mapping[str, NDArray[Any]], ...] = field(repr=False)
    persons: NDArray[Any] = field(repr=False)
    leaves: NDArray[Any] = field(repr=False)
    columns: tuple[str, ...]
    values: NDArray[Any] = field(repr=False)
    present: NDArray[Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.persons)


@dataclass(frozen=True)
class ReleaseRows:
    """Who was in which class of one release; as secret as the original.

    Parameters
    ----------
    units : ndarray of int64, shape (n, 2)
        Keyed hash of the person, or of the original's quasi-identifiers where persons have no key.
    classes : ndarray of int64, shape (n, 2)
        Keyed hash of the released quasi-identifiers.
    records : ndarray of int64, shape (n,)
        Records of the unit in the class, at least 1.
    values : ndarray of int64, shape (n, 2), optional
        Keyed hash of the released sensitive value; a unit has a row for each value then.
    sensitive : str, optional
        Column of these values.
    noise : NoiseRows, optional
        None: nothing is known of noise.
    unit : tuple of str
        Columns of the original that distinguish the units.
    folds : ndarray of int64, shape (n, 2), optional
        Keyed hash of the person's key without case, surrounding spaces and Unicode form.
    tables : TableRows, optional
        Of a release of tables, whose persons are in no class.
    """

    units: NDArray[Any] = field(repr=False)
    classes: NDArray[Any] = field(repr=False)
    records: NDArray[Any] = field(repr=False)
    values: NDArray[Any] | None = field(default=None, repr=False)
    sensitive: str | None = None
    noise: NoiseRows | None = field(default=None, repr=False)
    unit: tuple[str, ...] = ()
    folds: NDArray[Any] | None = field(default=None, repr=False)
    tables: TableRows | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, kw_only=True)
class ReleaseHistory:
    """Earlier releases and the one to be judged.

    Parameters
    ----------
    current : ReleaseRows
    earlier : tuple of ReleaseRows
        In the order of their publication.
    persons : bool
        Units are persons; else combinations of original quasi-identifiers, each of several records.
    notes : tuple of str
        What a verdict must report about the ledger.
    source_notes : tuple of str
        What it must report about persons of the source, in private records only.
    """

    current: ReleaseRows
    earlier: tuple[ReleaseRows, ...] = ()
    persons: bool = True
    notes: tuple[str, ...] = ()
    source_notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EarlierTables:
    """Released tables alone, as anyone has them: distinct rows with their number in ``__count``.

    Parameters
    ----------
    current : pyarrow.Table
    earlier : tuple of pyarrow.Table
    keys : tuple of str
        Quasi-identifiers; one that a table lacks may be anything there.
    joined : tuple of str
        Other columns, released as they were collected, by which rows may be recognised as the same.
    hierarchies : mapping of column to HierarchySpec
        Declared ones, to read labels by.
    """

    current: pa.Table = field(repr=False)
    earlier: tuple[pa.Table, ...] = field(repr=False)
    keys: tuple[str, ...]
    joined: tuple[str, ...] = ()
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class FollowsPersons(Entry):
    """What compares a release with earlier ones person by person, by a ledger of keyed hashes.

    Raises
    ------
    UsageError
        The key or the normalisation cannot be used.
    """

    ledger: Annotated[
        str | None,
        FilePath(),
        Stricter("equal"),
        Doc("folder that records which persons each release described, as keyed hashes; secret"),
    ] = None
    key: Annotated[
        dict[str, str] | None,
        Stricter("equal"),
        Doc("{from_env: NAME} or {from_file: PATH}, the same for all releases: persons are followed by it"),
    ] = None
    normalise: Annotated[
        tuple[str, ...],
        Stricter("equal"),
        Doc("what is done to a person's key before it is hashed: trim, casefold, nfc; nothing unless given"),
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if isinstance(self.normalise, str):
            raise UsageError(f"{name}: normalise must be a list")
        object.__setattr__(self, "normalise", tuple(self.normalise))
        if self.key is not None:
            require_key_place(name, self.key)
        for step in self.normalise:
            require_choice(name, "normalise", step, NORMALISATIONS)
        if len(set(self.normalise)) < len(self.normalise):
            raise UsageError(f"{name}: normalise names a step twice")
        if self.normalise and self.key is None:
            raise UsageError(f"{name}: normalise is for persons, who are followed by a key")


@dataclass(frozen=True, kw_only=True, repr=False)
class HistoryMeasure(FollowsPersons, Guarantee):
    """A measure of a release compared with the releases before it.

    Subclasses give `judge_history` (by a ledger) and `judge_tables` (by released tables alone). One that
    `forms_classes` reports over which columns, and of which values, the ledger remembers them.
    """

    way = HISTORY
    forms_classes: ClassVar[bool] = True

    def compared_columns(self, roles: Roles) -> tuple[str, ...] | None:
        asks = self.forms_classes and self.quasi_identifiers is None
        return tuple(roles.quasi_identifiers) if asks else None

    def earlier_tables(self) -> tuple[str, ...]:
        """Paths of earlier releases as published, where no ledger remembers them."""
        return ()

    def judge_history(self, history: ReleaseHistory) -> Verdict:
        """The verdict by what the ledger remembers."""
        raise TypeError(f"{type(self).__name__} judges no ledger")

    def judge_tables(self, tables: EarlierTables) -> Verdict:
        """The verdict by released tables alone."""
        raise TypeError(f"{type(self).__name__} judges no released tables")

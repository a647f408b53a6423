"""What measures of an original and a release compare: paired columns, positions, combinations, whole tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.facts import Facts
from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.marks import Columns, FilePath, KeyColumns, Stricter
from privpipe.blocks.primitives import PairBlock, RowBlock, one_batch
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.blocks.way import FILES, JOINED_CLASSES, POSITIONS, RECODED_TABLES, WHOLE_TABLES
from privpipe.errors import DataError
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks.class_block import ClassBlock
    from privpipe.blocks.primitives import Reduction
    from privpipe.draws import Stream
    from privpipe.hierarchies import HierarchySpec

__all__ = [
    "DistinctPair",
    "DistinctPairMeasure",
    "FilePair",
    "FilePairMeasure",
    "GatheredPairs",
    "JoinedClassMeasure",
    "JoinedTables",
    "PositionMeasure",
    "RowPositions",
    "Side",
    "TableFiles",
    "TableMeasure",
]


@dataclass(frozen=True, kw_only=True)
class RowPositions:
    """Records of both tables; never published.

    Parameters
    ----------
    classes : ndarray of int64, shape (n,)
        Rows that are released identically have the same number.
    released, original : ndarray of int64, shape (n,)
        Positions, all different on each side.
    proved : bool
        The order of the files was compared with the keyed one and is that.
    ordered : bool
        The released rows are in the order of their own values.
    """

    classes: NDArray[Any] = field(repr=False)
    released: NDArray[Any] = field(repr=False)
    original: NDArray[Any] = field(repr=False)
    proved: bool = False
    ordered: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionMeasure(Guarantee):
    """A measure of what the order of released rows discloses. Subclasses give `judge_positions`."""

    way = POSITIONS

    def judge_positions(self, positions: RowPositions | str) -> Verdict:
        """The verdict; a text shows why there are no positions."""
        raise TypeError(f"{type(self).__name__} judges no positions")


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """Tables on the driver, each in a keyed order of its contents. Never published, never logged.

    Parameters
    ----------
    original, released : pyarrow.Table
        The columns asked for, under the same names; a released one may have become text (labels).
    holdout : pyarrow.Table, optional
        Records of the same population that the release was not made from.
    reference : pyarrow.Table, optional
        More of them, none of which is in the original or the holdout.
    hierarchies : mapping of column to HierarchySpec
    order : Stream, optional
        Keyed order for draws of records.
    """

    original: pa.Table = field(repr=False)
    released: pa.Table = field(repr=False)
    holdout: pa.Table | None = field(default=None, repr=False)
    reference: pa.Table | None = field(default=None, repr=False)
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    order: Stream | None = field(default=None, repr=False)

    def unpaired(self, original: pa.Table | None = None, released: pa.Table | None = None) -> FilePair:
        """Two tables, or others in their place; row i of one has nothing to do with row i of the other."""
        first = self.original if original is None else original
        second = self.released if released is None else released
        return FilePair(
            original=one_batch(first),
            released=one_batch(second),
            ids=np.zeros((0, 2), dtype=np.int64),
            records=first.num_rows,
            released_records=second.num_rows,
            hierarchies=self.hierarchies,
        )

    def with_others(self, *others: pa.Table | None) -> FilePair:
        """The original with other tables of its columns behind it on one side, the release on the other."""
        import pyarrow as pa

        schema, known = self.original.schema, [each for each in others if each is not None]
        return self.unpaired(pa.concat_tables([self.original, *(each.cast(schema) for each in known)]))


@dataclass(frozen=True, kw_only=True, repr=False)
class TableMeasure(Guarantee):
    """A measure of whole tables that pairs no records, hence also of synthetic ones. Subclasses give `judge_tables`."""

    way = WHOLE_TABLES

    holdout: Annotated[
        str | None,
        FilePath(),
        Stricter("equal"),
        Doc("table of records of the same population that the release was not made from"),
    ] = None

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        """Those it names, else all quasi-identifiers."""
        return self.own_columns() or tuple(roles.quasi_identifiers)

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        """Columns of all tables it looks at; default: those by which it compares records."""
        return self.compared_columns(roles)

    @property
    def reads_values(self) -> bool:
        """Whether it compares values with labels, so that it must know which values a label stands for."""
        return True

    def table_of_reference(self) -> str | None:
        """Path of a third table, of records in neither the original nor the holdout."""
        return None

    def judge_tables(self, files: TableFiles) -> Verdict:
        """The verdict over the tables."""
        raise TypeError(f"{type(self).__name__} judges no tables")


@dataclass(frozen=True, kw_only=True)
class DistinctPair:
    """Both tables as combinations with counts, on the driver; held in memory only, never published, never logged.

    Parameters
    ----------
    keys : tuple of str
        Quasi-identifiers.
    released : pyarrow.Table
        Distinct combinations of the columns asked for, their count in `__count`; suppressed records left out.
    original : pyarrow.Table, optional
        The same of the original; records need no ids.
    marked : int
        Suppressed records that are in the release as rows of the mark.
    records : int, optional
        Records that entered the suppressing stage, where a run says so.
    hierarchies : mapping of column to HierarchySpec
        Declared ones.
    stages : sequence of mapping
        The release's own plan: of each stage ``name``, ``parameters`` and ``detail``.
    blanks : tuple of str or None
        Released cells that may stand for any value: the mark, and under `nulls: wildcard` missing ones.
    """

    keys: tuple[str, ...]
    released: pa.Table = field(repr=False)
    original: pa.Table | None = field(default=None, repr=False)
    marked: int = 0
    records: int | None = None
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    stages: Sequence[Mapping[str, Any]] = ()
    blanks: tuple[str | None, ...] = ("*",)

    def unpaired(self) -> FilePair | None:
        """The combinations of the keys as rows of two files, each of several records; None without an original."""
        if self.original is None:
            return None
        counts = tuple(each["__count"].to_numpy().astype(np.int64) for each in (self.original, self.released))
        return FilePair(
            original=one_batch(self.original.select(list(self.keys))),
            released=one_batch(self.released.select(list(self.keys))),
            ids=np.zeros((0, 2), dtype=np.int64),
            records=int(counts[0].sum()),
            released_records=int(counts[1].sum()),
            hierarchies=self.hierarchies,
            counts=(counts[0], counts[1]),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class DistinctPairMeasure(Guarantee):
    """A measure of the distinct combinations of the release, and of the original where there is one."""

    way = RECODED_TABLES
    threshold_field: ClassVar[str | None] = "at_most"

    def columns_read(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Columns whose combinations it looks at, the quasi-identifiers first."""
        return keys

    def judge_tables(self, pair: DistinctPair) -> Verdict:
        """The verdict over the two tables."""
        raise TypeError(f"{type(self).__name__} judges no tables")


Side = Literal["original", "released"]


@dataclass(frozen=True, kw_only=True)
class FilePair:
    """Original and release as an attack sees them; row i of both is the same record. Never published, never logged.

    The rows are in the order of the record ids, which are keyed, so that nothing depends on the engine, on
    partitions or on the order of either file.

    Parameters
    ----------
    original, released : pyarrow.RecordBatch
        Equally long; the columns asked for, under the same names. A released column may have become text (labels).
    ids : ndarray of int64, shape (n', 2)
        Record ids.
    records : int
        n: records of the whole original, those that were suppressed included.
    released_records : int
        Records of the whole release; more than n' where some have no original.
    original_facts : Facts
        Moments and histograms of the whole original, as the entries asked for.
    stages : sequence of mapping
        The release's own plan: of each stage ``name``, ``parameters`` and ``detail``.
    hierarchies : mapping of column to HierarchySpec
        Declared ones, to read labels by.
    order : Stream, optional
        Keyed order for samples of attacked records.
    models : sequence of Guarantee
        What the release must meet, as a search that is attacked worked for it.
    rerun : callable, optional
        The stages of the run once more, with other values in a column of the paired records: a fingerprint of the
        quasi-identifiers that come out.
    beside : pyarrow.Table, optional
        The table that the entry names in addition to the two files.
    counts : pair of ndarray of int64, shapes (n',) and (rows of `released`,), optional
        Records that each row of the two files is; left out: one each.
    """

    original: pa.RecordBatch = field(repr=False)
    released: pa.RecordBatch = field(repr=False)
    ids: Ints = field(repr=False)
    records: int
    released_records: int
    original_facts: Facts = field(default_factory=Facts, repr=False)
    stages: Sequence[Mapping[str, Any]] = ()
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    order: Stream | None = field(default=None, repr=False)
    models: Sequence[Guarantee] = ()
    rerun: Callable[[FilePair, str, Sequence[Any]], str] | None = field(default=None, repr=False)
    beside: pa.Table | None = field(default=None, repr=False)
    counts: tuple[Ints, Ints] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return int(self.original.num_rows)

    def original_counts(self) -> Ints | None:
        """Records that each row of the original is; None: one each."""
        return None if self.counts is None else self.counts[0]

    def by_record(self, side: Side, values: Floats) -> Floats:
        """A column of one side with the value of each row once for each of its records."""
        return values if self.counts is None else np.repeat(values, self.counts[side == "released"])

    def numbers(self, side: Side, column: str) -> Floats | None:
        """A column of one side as float64, NaN where there is no value (dates: days); None where it is not a number."""
        import pyarrow as pa

        batch = self.original if side == "original" else self.released
        kind = batch.schema.field(column).type
        measurable = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (measurable or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return None
        return RowBlock(batch)[column]

    def finite_numbers(self, column: str, owner: str) -> tuple[Floats, Floats] | None:
        """A column of both sides as numbers that have distances; None where it is not a number in one of them.

        Raises
        ------
        DataError
            An infinite value: no mean, deviation or distance is one, and a gate over them would pass unseen.
        """
        before, after = self.numbers("original", column), self.numbers("released", column)
        if before is None or after is None:
            return None
        if np.isinf(before).any() or np.isinf(after).any():
            raise DataError(
                f"{owner}: column {column!r} holds infinite values, which have no distance; code them first, or leave "
                "it out of columns"
            )
        return before, after

    def stages_named(self, *names: str) -> list[Mapping[str, Any]]:
        """The plan's stages of these names, in order."""
        return [stage for stage in self.stages if stage["name"] in names]

    def sample(self, size: int | None) -> Ints:
        """Places of the records to attack: the `size` of smallest keyed order, in that order; None: all of them.

        Fixed by the seed, not by partitions or positions.
        """
        if size is None or size >= len(self) or self.order is None:
            return np.arange(len(self), dtype=np.int64)
        words = self.order.order(self.ids)
        order: Ints = np.lexsort((self.ids[:, 1], self.ids[:, 0], words))[:size].astype(np.int64)
        return order


@dataclass(frozen=True, kw_only=True, repr=False)
class FilePairMeasure(Guarantee):
    """A measure of the original together with the release, as whole files on the driver.

    Subclasses give `judge_files`. With neither alignment nor original the outcome is an error, never a pass.
    """

    way = FILES
    threshold_field: ClassVar[str | None] = "at_most"

    columns: Annotated[tuple[str, ...] | None, Columns()] = None

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        """Its `columns`, else all quasi-identifiers."""
        return self.columns or self.quasi_identifiers or tuple(roles.quasi_identifiers)

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        """Columns of both files it looks at; default: those by which it compares records."""
        return self.compared_columns(roles)

    @property
    def reads_values(self) -> bool:
        """Whether it compares values with labels, so that it must know which values a label stands for."""
        return True

    def original_moments(self, roles: Roles) -> tuple[str, ...]:
        """Number columns whose exact moments over the whole original it wants."""
        return ()

    def table_beside(self) -> str | None:
        """Path of a table with its columns that it needs in addition to the two files."""
        return None

    def judge_files(self, files: FilePair) -> Verdict:
        """The verdict over the two files."""
        raise TypeError(f"{type(self).__name__} judges no files")


@dataclass(frozen=True)
class GatheredPairs:
    """A reduction that brings aligned records to the driver: a list of blocks, sorted and joined by `joined`."""

    def measure(self, block: PairBlock, facts: Facts) -> list[tuple[Any, Any]]:
        """The block's two sides, ids with the first."""
        return [(block.original.to_batch(), block.released.batch)]

    def merge(self, left: list[tuple[Any, Any]], right: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Both, in any order."""
        return left + right

    def judge(self, observed: Any, facts: Facts) -> Verdict:
        """Judges nothing: the files are handed on."""
        raise TypeError("gathered pairs are judged by the measures that asked for them")

    @staticmethod
    def joined(blocks: list[tuple[Any, Any]]) -> tuple[pa.RecordBatch, pa.RecordBatch, Ints]:
        """Original, released and ids, in the order of the ids."""
        import pyarrow as pa

        first = pa.Table.from_batches([original for original, _ in blocks]).combine_chunks()
        second = pa.Table.from_batches([released for _, released in blocks]).combine_chunks()
        rows = RowBlock(one_batch(first))
        ids = rows.record_ids
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        return rows.take(order).batch, RowBlock(one_batch(second)).take(order).batch, ids[order]


@dataclass(frozen=True, kw_only=True)
class JoinedTables:
    """What was counted over the joined classes; in memory only, never published, never logged.

    Parameters
    ----------
    counts : object
        Of the original with the release, as the entry's reduction counts.
    records, released : int
        Records of the original; rows of the release.
    secrets : ndarray of int64, shape (values,)
        Records of the original with each value of the secret column; values in the order of their text, null last.
    holdout : object, optional
        Of the holdout with the release.
    holdout_records : int
    compared : tuple of Comparison
        Rows of the release with a value that the original has, in the key column with the fewest.
    """

    counts: Any = field(repr=False)
    records: int
    released: int
    secrets: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    holdout: Any = field(default=None, repr=False)
    holdout_records: int = 0
    compared: tuple[Comparison, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class JoinedClassMeasure(Guarantee):
    """A measure of two class tables joined by exact keys: of any size, without pairs, hence also of synthetic tables.

    The original is recoded as the release was before keys are compared. Subclasses give `reduction`, over blocks with
    cells of one column that distinguish the sides and the secret, and `judge_joined`.
    """

    way = JOINED_CLASSES
    threshold_field: ClassVar[str | None] = "at_most"

    compares_numbers: ClassVar[bool] = True
    """Whether numbers that are not in the original leave a row unjudged; False: they show that it is not a copy."""

    columns: Annotated[tuple[str, ...] | None, Columns()] = None

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        """Columns of the key; default: its `columns`, else all quasi-identifiers."""
        return self.columns or tuple(roles.quasi_identifiers)

    def secret(self) -> str | None:
        """Column whose values are counted within the keys; None: records alone are."""
        return None

    def table_beside(self) -> str | None:
        """Path of a holdout that is joined with the release as the original is."""
        return None

    def reduction(self, secrets: Ints) -> Reduction[ClassBlock, Any]:
        """What counts a block: code s * values + v for the secret v in the original (s = 0) or the release (s = 1)."""
        raise TypeError(f"{type(self).__name__} joins no classes")

    def judge_joined(self, tables: JoinedTables) -> Verdict:
        """The verdict over the counts."""
        raise TypeError(f"{type(self).__name__} joins no classes")

"""Parquet files of one source: one reading of their schema, a reader that keeps to it, and Hive partitions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.engines.base.batches import in_order
from privpipe.engines.base.conversion import holds_values, widened, widest_type
from privpipe.engines.base.logical_types import check_names, inexact_error
from privpipe.engines.readers.files import local_path
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.unpacking import reading
from privpipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = [
    "ParquetFiles",
    "parquet_files",
    "parquet_head",
    "parquet_table",
    "partition_values",
    "partitioned_dataset",
    "partitioned_schema",
    "read_groups",
    "refuse_finer_instants",
    "refuse_other_columns",
    "with_partitions",
]


LAST_MILLISECOND = (2**63 - 1) // 1000
FOOTERS_AT_ONCE = 8
"""Footers are small, so what takes time is to reach them."""


@dataclass(frozen=True)
class ParquetFiles:
    """What the footers of a source's files say.

    Parameters
    ----------
    groups : mapping of path to tuple of int
        Records of each row group.
    schema : pyarrow.Schema
        What `read_groups` gives: of each column the type of all files, or the widest.
    mixed : frozenset of str
        Columns that not all files hold in one Arrow type.
    written_alike : bool
        Whether all files write each column in the same way, whatever Arrow type it came from. Else an engine that reads
        the files itself would take them all for the first.
    int96 : frozenset of str
        Columns of the old timestamps of Impala and Spark, which reach further and are finer than ours.
    instants_fit : bool
        Whether statistics prove that no timestamp overflows in microseconds. Engines that read Parquet themselves break
        down on one that does, in the middle of a query.
    """

    groups: Mapping[str, tuple[int, ...]] = field(repr=False)
    schema: pa.Schema
    mixed: frozenset[str] = frozenset()
    written_alike: bool = True
    int96: frozenset[str] = frozenset()
    instants_fit: bool = True

    @property
    def files(self) -> list[str]:
        return list(self.groups)

    @property
    def native(self) -> bool:
        """Whether an engine that takes the types of the first file for those of all gets every value right."""
        return self.written_alike and self.instants_fit

    @property
    def records(self) -> int:
        return sum(map(sum, self.groups.values()))


def parquet_files(files: Sequence[str]) -> ParquetFiles:
    """Read the footers of a source's files, some at a time.

    Raises
    ------
    DataError
        A file is unreadable (truncated, say), has other columns than the first, or holds one in a type whose values and
        those of another file no type holds exactly.
    """
    layouts: list[_Layout] = []
    groups: dict[str, tuple[int, ...]] = {}
    fit = True
    for name, head in zip(files, in_order(parquet_head, files, FOOTERS_AT_ONCE), strict=True):
        arrow = _arrow_schema(name, head)
        groups[name] = tuple(head.row_group(at).num_rows for at in range(head.num_row_groups))
        layout = next((each for each in layouts if each.holds(head.schema, arrow)), None)
        if layout is None:
            layout = _Layout(head.schema, arrow)
            layouts.append(layout)
            refuse_other_columns(layout.arrow, name, layouts[0].arrow, files[0])
        layout.files.append(name)
        fit = fit and all(_fits(head, column) for column in layout.coarse)
    if not layouts:
        raise DataError("no Parquet file")
    first = layouts[0].arrow
    mixed = {name for name in first.names if len({layout.kinds[name] for layout in layouts}) > 1}
    if len(layouts) > 1:
        check_names(first.names)  # each is looked up by its name from here on
        first = pa.schema(
            pa.field(name, _type_of(name, layouts) if name in mixed else first.field(name).type) for name in first.names
        )
    int96 = {name for layout in layouts for name in layout.int96}
    alike = all(_is_written_alike(name, layouts) for name in mixed)
    return ParquetFiles(groups, first, frozenset(mixed), alike, frozenset(int96), fit)


def parquet_head(name: str) -> pq.FileMetaData:
    """The footer of a file; raises as `parquet_files` does."""
    with reading(name, "Parquet"):
        return pq.read_metadata(name)


def _arrow_schema(name: str, head: pq.FileMetaData) -> pa.Schema:
    with reading(name, "Parquet"):
        return head.schema.to_arrow_schema().remove_metadata()


class _Layout:
    """The columns of files that are written in the same types."""

    def __init__(self, parquet: Any, arrow: pa.Schema) -> None:
        self.files: list[str] = []
        self._parquet, self._arrow = parquet, arrow
        leaves: dict[str, list[tuple[str, str, str]]] = {}
        self.int96 = set[str]()
        for at in range(len(parquet)):
            leaf = parquet.column(at)
            top = leaf.path
            while top not in arrow.names and "." in top:  # a name may hold points itself
                top = top.rpartition(".")[0]
            leaves.setdefault(top, []).append((leaf.path, leaf.physical_type, str(leaf.logical_type)))
            if leaf.physical_type == "INT96" and top == leaf.path:
                self.int96.add(top)
        self.arrow = pa.schema([_of_int96(each) if each.name in self.int96 else each for each in arrow])
        self.kinds = {each.name: (each.type, tuple(leaves[each.name])) for each in self.arrow}
        self.coarse = {
            each.name
            for each in self.arrow
            if pt.is_timestamp(each.type) and each.type.unit in ("s", "ms") and each.name not in self.int96
        }

    def holds(self, parquet: Any, arrow: pa.Schema) -> bool:
        """Whether a file with these schemas has this layout."""
        return bool(self._parquet.equals(parquet) and self._arrow.equals(arrow))


def _is_written_alike(column: str, layouts: Sequence[_Layout]) -> bool:
    leaves = {layout.kinds[column][1] for layout in layouts}
    (first, *_), *others = leaves
    return not others and first[0] == column  # what is nested has other leaves


def _of_int96(column: pa.Field) -> pa.Field:
    """Such a column as `read_groups` reads it: its values reach beyond what nanoseconds hold."""
    return column.with_type(pa.timestamp("us", getattr(column.type, "tz", None)))


def refuse_other_columns(found: pa.Schema, name: str, first: pa.Schema, other: str) -> None:
    if found.names == first.names:
        return
    lacking = [column for column in first.names if column not in found.names]
    added = [column for column in found.names if column not in first.names]
    if lacking:
        differs = f"column {lacking[0]!r} is missing, which {Path(other).name} has"
    elif added:
        differs = f"column {added[0]!r} is not in {Path(other).name}"
    else:
        differs = f"its columns are not in the order of {Path(other).name}"
    raise DataError(f"{Path(name).name}: {differs}; the files of a source must have the same columns in the same order")


def _type_of(column: str, layouts: Sequence[_Layout]) -> pa.DataType:
    """The type of a column that files hold in several; those in which it has no value do not count."""
    places: dict[pa.DataType, str] = {}
    for layout in layouts:
        found = layout.arrow.field(column).type
        if found in places or pt.is_null(found):
            continue
        with_values = in_order(partial(_holds_values, column=column), layout.files, FOOTERS_AT_ONCE)
        place = next((name for name, holds in zip(layout.files, with_values, strict=True) if holds), None)
        if place is not None:
            places[found] = Path(place).name
    return widest_type(column, places)


def _holds_values(name: str, column: str) -> bool:
    """Whether a file has a value in a column: by its statistics, else by what it holds."""
    head = parquet_head(name)
    known = [_known(head.row_group(at), column) for at in range(head.num_row_groups)]
    if all(each is False for each in known):
        return False
    if True in known:
        return True
    with reading(name, "Parquet"), pq.ParquetFile(name, coerce_int96_timestamp_unit="us") as file:
        return any(holds_values(batch.column(column)) for batch in file.iter_batches(columns=[column]))


def _known(group: Any, column: str) -> bool | None:
    """Whether a row group has a value in a column; None where its statistics do not say (NaN is none)."""
    if not group.num_rows:
        return False
    for chunk in map(group.column, range(group.num_columns)):
        if chunk.path_in_schema == column:
            known = chunk.statistics
            if known is None or not known.has_null_count:
                return None
            if known.null_count == chunk.num_values:
                return False
            return None if chunk.physical_type in ("FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY") else True
    return None


def _fits(head: pq.FileMetaData, column: str) -> bool:
    for group in map(head.row_group, range(head.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema == column and not _fits_microseconds(chunk):
                return False
    return True


def _fits_microseconds(chunk: Any) -> bool:
    known = chunk.statistics
    if known is None or not known.has_min_max:
        return bool(chunk.num_values == 0 or (known is not None and known.null_count == chunk.num_values))
    return bool(known.min_raw >= -LAST_MILLISECOND and known.max_raw <= LAST_MILLISECOND)


def read_groups(path: str, groups: Sequence[int], schema: pa.Schema, texts: Sequence[str] = ()) -> pa.Table:
    """Row groups of a file in the types of its source.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns that are wanted, as `ParquetFiles.schema` has them.
    texts : sequence of str
        Columns that come as the dictionaries that files hold.

    Raises
    ------
    DataError
        A damaged file; values that the type of the source does not hold exactly (file, column, both types).
    """
    # Parallel over files already: threads inside a read would only contend.
    with (
        reading(path, "Parquet"),
        pq.ParquetFile(path, read_dictionary=list(texts), coerce_int96_timestamp_unit="us") as file,
    ):
        found = file.read_row_groups(list(groups), columns=schema.names, use_threads=False)
        old = [name for name in schema.names if name in _int96_of(file.schema)]
    if old:
        _refuse_finer(path, groups, found.select(old))
    place = Path(path).name
    columns = [
        found.column(each.name) if each.name in texts else _of_source(found.column(each.name), each, place)
        for each in schema
    ]
    return pa.table(columns, names=schema.names)


def _of_source(column: pa.ChunkedArray, wanted: pa.Field, place: str) -> pa.ChunkedArray | pa.Array:
    return column if column.type == wanted.type else widened(column, wanted.type, wanted.name, place)


def parquet_table(files: Sequence[str]) -> pa.Table:
    """All rows of Parquet files in the order of the files; raises as `parquet_files` and `read_groups`."""
    found = parquet_files(files)
    return pa.concat_tables(
        read_groups(name, range(len(groups)), found.schema) for name, groups in found.groups.items()
    )


def refuse_finer_instants(found: ParquetFiles, threads: int) -> None:
    """Refuse old timestamps that are finer than a microsecond, which databases cut off without a word.

    Raises
    ------
    DataError
        File, column and both types.
    """
    pieces = [(name, at) for name, groups in found.groups.items() for at in range(len(groups))]
    wanted = pa.schema([each for each in found.schema if each.name in found.int96])

    def read(piece: tuple[str, int]) -> None:
        read_groups(piece[0], [piece[1]], wanted)

    for _ in in_order(read, pieces if wanted else (), threads):
        pass


def _int96_of(schema: Any) -> set[str]:
    leaves = map(schema.column, range(len(schema)))
    return {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}


def _refuse_finer(path: str, groups: Sequence[int], coarse: pa.Table) -> None:
    """Compare microseconds with nanoseconds, both modulo 2^64: they differ by what microseconds leave out."""
    with reading(path, "Parquet"), pq.ParquetFile(path) as file:
        fine = file.read_row_groups(list(groups), columns=coarse.column_names, use_threads=False)
    for name in coarse.column_names:
        whole = pc.multiply(coarse.column(name).cast(pa.int64()), 1000)
        if not whole.equals(fine.column(name).cast(pa.timestamp("ns", fine.column(name).type.tz)).cast(pa.int64())):
            finer = inexact_error(name, pa.timestamp("ns", fine.column(name).type.tz))
            raise DataError(f"{os.path.basename(path)}: {finer}")


MISSING: Final = "__HIVE_DEFAULT_PARTITION__"
"""What writers put instead of a missing value."""


def partition_values(source: Source, files: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """By file, the value of each partition column, as text.

    Raises
    ------
    DataError
        A file is below other folders than those that the source names, in their order.
    """
    top = local_path(source)
    found, strange = {}, 0
    for name in files:
        parts = [part.partition("=") for part in os.path.dirname(os.path.relpath(name, top)).split(os.sep)]
        names = tuple(unquote(key) for key, sign, _ in parts if sign)
        strange += names != tuple(source.partitions)
        found[name] = {unquote(key): None if value == MISSING else unquote(value) for key, sign, value in parts if sign}
    if strange:
        folders = "/".join(f"{key}=..." for key in source.partitions)
        raise DataError(
            f"{strange:,} of {len(files):,} files are not below folders `{folders}`; `partitions:` of the "
            "source names the columns of the folders in their order"
        )
    return found


def partitioned_schema(source: Source, found: ParquetFiles) -> pa.Schema:
    """The schema of the files with the partition columns behind, which are text until typed.

    Raises
    ------
    DataError
        As `partition_values`; a partition column is also in the files.
    """
    schema = found.schema
    if source.partitions:
        partition_values(source, found.files)
    for name in source.partitions:
        if name in schema.names:
            raise DataError(f"the partition column {name!r} is also a column of the files; write it once")
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def with_partitions(batch: pa.RecordBatch, values: Mapping[str, str | None]) -> pa.RecordBatch:
    """Rows of a file with its partition columns behind.

    Examples
    --------
    >>> with_partitions(pa.record_batch({"n": [1, 2]}), {"year": "2024"}).to_pylist()
    [{'n': 1, 'year': '2024'}, {'n': 2, 'year': '2024'}]
    """
    added = [pa.array([value] * batch.num_rows, pa.string()) for value in values.values()]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, *values])


def partitioned_dataset(source: Source, found: ParquetFiles) -> ds.Dataset:
    """The rows of a partitioned folder, whose files have one type for each column, read when they are scanned."""
    import pyarrow.dataset as ds

    schema = partitioned_schema(source, found)
    keys = pa.schema([schema.field(name) for name in source.partitions])
    partitioning = ds.partitioning(keys, flavor="hive")
    return ds.dataset(
        found.files, schema=schema, format="parquet", partitioning=partitioning, partition_base_dir=local_path(source)
    )

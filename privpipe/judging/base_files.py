"""The distribution of a sensitive column that lies in a file or a table of a catalogue, or is given in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FactsRequest, Guarantee, Histogram
from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.engines.base.databases import Database
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.models.attribute.base_distribution import BaseDatabase, BaseFile, BaseNamed, BaseTable, GivenBase
from privpipe.roles import column_type_of

__all__ = ["bases_from_files", "histogram_of_file"]

MOST = 1 << 62
UNITS = 10**17
NO_VERSIONS: Mapping[str, int] = {}
DELIMITERS = (",", ";", "\t", "|")


def histogram_of_file(
    engine: Engine, base: GivenBase, column: str, kind: Any, versions: Mapping[str, int] = NO_VERSIONS
) -> Histogram:
    """Values of a column with their counts.

    The file is a table. Its values stand under the name of the column, else under ``value``; beside them ``count``
    (whole numbers) or ``share`` (numbers, of whatever sum), one line a value. Without either, each line is a record.

    Parameters
    ----------
    engine : Engine
    base : BaseFile, BaseDatabase, BaseNamed or BaseTable
    column : str
        The sensitive column.
    kind : pyarrow.DataType
        Its type in the judged table.
    versions : mapping of path to int
        Of Delta tables, as a run pinned them.

    Raises
    ------
    DataError
        The file cannot be read, lacks the columns, names a value twice or holds no counts.
    """
    try:
        return _histogram(engine, _source(base, versions), column, kind)
    except (DataError, UsageError) as error:
        name = f", {PurePath(base.file).name}" if isinstance(base, BaseFile | BaseDatabase) else ""
        error.args = (f"base distribution of {column!r}{name}: {error}",)
        raise


def bases_from_files(
    engine: Engine, table: Any, guarantees: Sequence[Guarantee], versions: Mapping[str, int] = NO_VERSIONS
) -> dict[str, Histogram]:
    """By column the distribution of a file, for a stage that works for all guarantees at once.

    Raises
    ------
    UnsupportedError
        Guarantees that compare one column with several distributions: classes are counted by one of them.
    """
    asked: dict[str, set[Any]] = {}
    for entry in guarantees:
        for column in entry.sensitive_columns() if entry.needs_base else ():
            asked.setdefault(column, set()).add(entry.base_distribution())
    found = {}
    for column, bases in asked.items():
        files = [base for base in bases if not isinstance(base, str)]
        if files and len(bases) > 1:
            raise UnsupportedError(
                f"a stage that suppresses serves one base distribution a column, and the guarantees compare {column!r} "
                f"with {len(bases)}; give them the same `base:`, or generalize by given `levels:` without "
                "suppress_at_most and let the release be judged"
            )
        for base in files:
            found[column] = histogram_of_file(engine, base, column, table.schema.field(column).type, versions)
    return found


def _histogram(engine: Engine, source: Source, column: str, kind: Any) -> Histogram:
    value, names, delimiter = _value_column(engine, source, column)
    weight = next((name for name in ("count", "share") if name in names and name != value), None)
    types = {value: column_type_of(kind)}
    if weight is not None:
        types[weight] = "integer" if weight == "count" else "number"
    table = engine.scan(replace(source, delimiter=delimiter, types=types))
    if weight is None:
        found = engine.facts(table, FactsRequest(histograms=(value,))).histograms[value]
        if not len(found):
            raise DataError("it has no records")
        return found
    rows = engine.distinct(table, [value, weight])
    values = rows[value].combine_chunks()
    if len(values.unique()) < len(values) or (rows["__count"].to_numpy() > 1).any():
        raise DataError("it names a value twice; a distribution has one line a value")
    if rows[weight].null_count:
        raise DataError(f"{rows[weight].null_count:,} values have no {weight}")
    counts = _whole(rows[weight].to_pylist(), weight)
    import pyarrow as pa

    kept = counts > 0
    if not kept.any():
        raise DataError(f"no value has a {weight} above 0")
    return Histogram(values.filter(pa.array(kept)), counts[kept])


def _source(base: GivenBase, versions: Mapping[str, int]) -> Source:
    if isinstance(base, BaseNamed):
        return Source(data=TableName.parse(base.table))
    if isinstance(base, BaseDatabase):
        return Source(data=Database(at=base.file, table=TableName.parse(base.table)))
    if isinstance(base, BaseTable):
        return Source(data=base.frame())
    return Source(data=base.file, version=versions.get(base.file))


def _value_column(engine: Engine, source: Source, column: str) -> tuple[str, list[str], str]:
    """Name of the column of values, all names, and the delimiter (of a CSV file) under which they are found."""
    found: list[str] = []
    delimiters = DELIMITERS if source.is_path and source.resolved_format == "csv" else DELIMITERS[:1]
    for delimiter in delimiters:
        names = list(engine.scan(replace(source, delimiter=delimiter)).schema.names)
        for value in (column, "value"):
            if value in names:
                return value, names, delimiter
        found = found or names
    raise DataError(f"it has neither a column {column!r} nor one named 'value'{did_you_mean(column, found)}")


def _whole(weights: list[Any], name: str) -> NDArray[np.int64]:
    """Counts in proportion to the weights: exact where 62 bits hold them, else to 17 digits."""
    exact = [Decimal(repr(weight)) for weight in weights]
    if any(not each.is_finite() or each < 0 for each in exact):
        raise DataError(f"{name} must be numbers of at least 0")
    places = max((-int(each.as_tuple().exponent) for each in exact), default=0)
    scaled = [int(each.scaleb(max(places, 0))) for each in exact]
    total = sum(scaled)
    if total >= MOST:
        # A value that has a share keeps one, however small.
        scaled = [-(-each * UNITS // total) for each in scaled]
    return np.array(scaled, dtype=np.int64)

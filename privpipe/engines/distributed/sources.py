"""Names, dialect and digits of a source that is read in pieces, whichever process reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.conversion import decimal_scale, normalised
from privpipe.engines.base.logical_types import check_declared, check_names, logical_type
from privpipe.engines.readers.files import csv_columns, wrong_delimiter_hint
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_records import CsvDialect

__all__ = ["csv_dialect", "json_names", "larger_scales", "scales_in", "text_decimals", "text_schema"]


def csv_dialect(source: Source, files: list[str]) -> CsvDialect:
    """How CSV files are read, and the names of their columns.

    Raises
    ------
    DataError
        Names or headers that differ, a declared column that is missing.
    """
    names = csv_columns(source, files)
    check_names(names)
    check_declared(names, source.types, hint=wrong_delimiter_hint(names, source.delimiter))
    return CsvDialect.of(names, source)


def json_names(found: Iterable[Iterable[str]], source: Source) -> list[str]:
    """The columns of JSON files, from the names of each in their order.

    Raises
    ------
    DataError
        Bad names, a declared column that is missing.
    """
    names = list(dict.fromkeys(name for one in found for name in one))
    check_names(names)
    check_declared(names, source.types)
    return names


def text_schema(names: Sequence[str]) -> pa.Schema:
    """Columns of text."""
    return pa.schema([(name, pa.string()) for name in names])


def text_decimals(schema: pa.Schema, types: Mapping[str, str]) -> list[str]:
    """Text columns declared decimal: how many digits they need is known from their cells alone."""
    wanted = [name for name, kind in types.items() if kind == "decimal" and name in schema.names]
    return [name for name in wanted if pt.is_string(logical_type(schema.field(name).type, name))]


def scales_in(batches: Iterable[pa.RecordBatch | pa.Table], columns: Iterable[str]) -> dict[str, int]:
    """Digits after the point that the decimals of text columns need.

    Examples
    --------
    >>> scales_in([pa.record_batch({"pay": ["1.5", "2.25"]})], ["pay"])
    {'pay': 2}
    """
    found = dict.fromkeys(columns, 0)
    for batch in batches:
        for name in found:
            found[name] = max(found[name], decimal_scale(normalised(batch.column(name), name)))
    return found


def larger_scales(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    """The larger scale of each column."""
    return {name: max(scale, right[name]) for name, scale in left.items()}

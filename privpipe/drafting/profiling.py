"""Look at a table for `init`: its format, and a profile of each column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from privpipe.blocks import FactsRequest, Histogram
from privpipe.drafting.database_sources import database_source
from privpipe.drafting.guessing import CODE, MISSING, guess_type
from privpipe.drafting.naming import scale_of
from privpipe.drafting.numbers import NumberShape, number_shape
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.relating import Relations, relate
from privpipe.drafting.sniffing import made_up_names, sniffed
from privpipe.drafting.written_values import written_values
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.base.files import elsewhere, list_files
from privpipe.errors import DataError, UsageError
from privpipe.reporting.safe_harbor import kinds_in_column
from privpipe.roles import ColumnType, column_type_of

__all__ = ["ProfiledTable", "profile_table"]

MOST_COUNTS = 10_000
MOST_WORDS = 30
ORDERED_CODE = re.compile(r"([A-Za-z]*[(\[<]?)(\d+)(?!\d)")


@dataclass(frozen=True)
class ProfiledTable:
    """A table as a source describes it, and what was seen of its columns.

    Parameters
    ----------
    source : Source
    profiles : tuple of Profile
    unsure : tuple of str
        Columns of dates that would also be dates with the month first.
    relations : Relations
        Between columns.
    """

    source: Source
    profiles: tuple[Profile, ...]
    unsure: tuple[str, ...] = ()
    relations: Relations = field(default_factory=Relations)


def profile_table(
    data: Any, delimiter: str | None = None, table_name: str | None = None, columns: Sequence[str] = ()
) -> ProfiledTable:
    """The table as a source, and what was seen of its columns, by the embedded engine.

    Parameters
    ----------
    data : str or frame
    delimiter : str, optional
        Of a CSV file.
    columns : sequence of str
        Names for a CSV file without a header.

    Raises
    ------
    UsageError
        There is no such file, or it has names of its own, or another number of columns than there are names.
    DataError
        It has no records, or cannot be read as what it seems to be.
    """
    path = isinstance(data, str)
    if path and not Path(data).exists() and not elsewhere(data):
        raise UsageError(f"{data!r} does not exist")
    source = (database_source(data, table_name) if path else None) or Source(data=data)
    form = source.resolved_format if source.is_path else "frame"
    if form == "csv":
        source = _csv_source(data, delimiter, columns)
    elif columns:
        raise UsageError("names of columns are given for a CSV file without a header only; this table has its own")
    with open_engine("embedded") as engine:
        table = engine.scan(source)
        records = engine.count(table)
        if not records:
            named = repr(data) if path else "the frame"
            raise DataError(f"{named} has no records: there is nothing to guess from")
        untyped = form in ("csv", "json", "excel")
        histograms = {name: _histogram(engine, table, name) for name in table.schema.names}
        profiles = {
            name: _profile(name, histogram, table.schema.field(name).type, records, untyped=untyped)
            for name, histogram in histograms.items()
        }
        if form != "csv":
            seen = tuple(profiles.values())
            return ProfiledTable(source, seen, relations=relate(engine, table, seen))
        texts = {name: found.values.drop_null().to_pylist() for name, found in histograms.items()}
        written = written_values(texts, source.form)
        source = replace(source, form=written.form)
        if written.types:
            typed = engine.scan(replace(source, types=written.types, null_values=MISSING))
            for name in written.types:
                found = _profile(
                    name, _histogram(engine, typed, name), typed.schema.field(name).type, records, untyped=False
                )
                profiles[name] = replace(found, null_values=tuple(each for each in MISSING if each in texts[name]))
        seen = tuple(profiles.values())
        return ProfiledTable(source, seen, written.unsure, relate(engine, table, seen))


def _histogram(engine: Engine, table: Any, name: str) -> Histogram:
    return engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]


def _csv_source(data: str, delimiter: str | None, columns: Sequence[str]) -> Source:
    """The source as the bytes of its first file tell; numbers and dates are told by its columns."""
    found = sniffed(list_files(Source(data=data, format="csv"))[0], delimiter)
    given: dict[str, Any] = {"data": data, "format": "csv", "delimiter": found.delimiter, "form": found.form}
    if found.header:
        if columns:
            raise UsageError(f"the first line of {data!r} names its columns; names are for a file without a header")
        return Source(**given)
    if columns and (len(columns) != found.fields or len(set(columns)) != found.fields):
        raise UsageError(
            f"{data!r} has {found.fields} fields a line and needs as many names, each another; {len(columns)} are given"
        )
    return Source(**given, header=False, columns=tuple(columns) or made_up_names(found.fields))


def _profile(name: str, histogram: Histogram, arrow_type: Any, records: int, *, untyped: bool) -> Profile:
    import pyarrow as pa

    values = histogram.values.drop_null()
    found: ColumnType = column_type_of(arrow_type)
    null_values: tuple[str, ...] = ()
    texts: list[str] = values.to_pylist() if pa.types.is_string(arrow_type) else []
    if texts and untyped:
        found, null_values = guess_type(texts)
    missing = histogram.nulls + sum(
        int(count) for value, count in zip(texts, histogram.counts, strict=False) if value in null_values
    )
    present = [text for text in texts if text not in null_values]
    shape = _shape(values, present, histogram, null_values) if found in NUMBERS and len(values) else NumberShape()
    return Profile(
        name=name,
        type=found,
        records=records,
        missing=missing,
        distinct=len(values) - len(null_values),
        null_values=null_values,
        code_length=_code_length(present) if found == "text" else 0,
        separation=_separation(histogram),
        counts=tuple(histogram.counts.tolist()) if len(histogram) <= MOST_COUNTS else (),
        words=sum(len(text.split()) for text in present) / len(present) if present and found == "text" else 0.0,
        findings=tuple(kinds_in_column(name, histogram)),
        scale=scale_of(present) if found == "text" and len(present) <= MOST_WORDS else (),
        by_text=_is_by_text(present) if found == "text" and len(present) <= MOST_WORDS else False,
        **vars(shape),
    )


def _shape(values: Any, texts: list[str], histogram: Histogram, null_values: tuple[str, ...]) -> NumberShape:
    """Of numbers, or of the texts that stand for them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = histogram.counts[: len(values)]
    if not texts:
        return number_shape(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False), counts)
    kept = [count for text, count in zip(values.to_pylist(), counts, strict=True) if text not in null_values]
    return number_shape(np.array([float(text) for text in texts]), np.array(kept))


def _is_by_text(texts: list[str]) -> bool:
    """Whether texts are codes whose order is that of their text: a bracket or nothing, then digits of one length."""
    starts = [ORDERED_CODE.match(text) for text in texts]
    if len(texts) < 2 or not all(starts):
        return False
    heads = {(found[1], len(found[2])) for found in starts if found}
    digits = {found[2] for found in starts if found}
    return len(heads) == 1 and len(digits) == len(texts)


def _code_length(texts: list[str]) -> int:
    """The length of texts that are all codes of one length, else 0."""
    lengths = {len(text) for text in texts}
    code = len(lengths) == 1 and all(CODE.fullmatch(text) and any(map(str.isdigit, text)) for text in texts)
    return lengths.pop() if code else 0


def _separation(histogram: Histogram) -> float:
    records = histogram.total
    alike = sum(count * (count - 1) for count in histogram.counts.tolist())
    return 1 - alike / (records * (records - 1)) if records > 1 else 0.0

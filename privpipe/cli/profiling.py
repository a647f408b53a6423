"""Look at a table for `init`: its format, and a profile of each column."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

from privpipe.blocks import FactsRequest, Histogram
from privpipe.cli.guessing import CODE, MISSING, Profile, guess_type
from privpipe.engines import Source, open_engine
from privpipe.engines.base.files import elsewhere, list_files
from privpipe.errors import DataError, UsageError
from privpipe.report.safe_harbor import kinds_in_column
from privpipe.roles import ColumnType, column_type_of

__all__ = ["profile_table", "seen_delimiter"]

DELIMITERS = (",", ";", "\t", "|")
MOST_COUNTS = 10_000


def profile_table(data: str, delimiter: str | None = None) -> tuple[Source, list[Profile]]:
    """The table as a source, and what was seen of its columns, by the embedded engine.

    Raises
    ------
    UsageError
        There is no such file.
    DataError
        It has no records, or cannot be read as what it seems to be.
    """
    if not Path(data).exists() and not elsewhere(data):
        raise UsageError(f"{data!r} does not exist")
    source = Source(data=data)
    if source.resolved_format == "csv":
        source = _csv_source(data, delimiter)
    with open_engine("embedded") as engine:
        table = engine.scan(source)
        records = engine.count(table)
        if not records:
            raise DataError(f"{data!r} has no records: there is nothing to guess from")
        profiles = []
        for name in table.schema.names:
            histogram = engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]
            untyped = source.resolved_format in ("csv", "json")
            profiles.append(_profile(name, histogram, table.schema.field(name).type, records, untyped=untyped))
    return source, profiles


def _csv_source(data: str, delimiter: str | None) -> Source:
    first = _first_lines(data)
    chosen = delimiter or seen_delimiter(first)
    header = next(csv.reader(first[:1], delimiter=chosen), [])
    if _is_header(header):
        return Source(data=data, format="csv", delimiter=chosen)
    names = tuple(f"column_{at}" for at in range(1, len(header) + 1))
    return Source(data=data, format="csv", delimiter=chosen, header=False, columns=names)


def _first_lines(data: str) -> list[str]:
    """The first lines of the first file."""
    place = Path(list_files(Source(data=data, format="csv"))[0])
    try:
        with place.open(encoding="utf-8-sig", newline="") as handle:
            return [line.rstrip("\r\n") for line, _ in zip(handle, range(20), strict=False)]
    except UnicodeDecodeError:
        raise DataError(f"{data!r} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"cannot read {data!r}: {error.strerror}; give a plain file to `init`") from None


def seen_delimiter(lines: list[str]) -> str:
    """The delimiter that splits every line into the same, largest number of fields.

    Examples
    --------
    >>> seen_delimiter(["age;zip", "39;081,02"])
    ';'
    """
    best, most = ",", 1
    for delimiter in DELIMITERS:
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
        if len(counts) == 1 and (fields := next(iter(counts))) > most:
            best, most = delimiter, fields
    return best


def _is_header(fields: list[str]) -> bool:
    """Whether a first line names columns: distinct texts, none a number or empty."""
    stripped = [field.strip() for field in fields]
    names = all(field and field not in MISSING and guess_type([field])[0] == "text" for field in stripped)
    return names and len(set(stripped)) == len(stripped)


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
    return Profile(
        name=name,
        type=found,
        records=records,
        missing=missing,
        distinct=len(values) - len(null_values),
        null_values=null_values,
        spread=_spread(values, present) if found in ("integer", "number", "decimal") and len(values) else 0.0,
        code_length=_code_length(present) if found == "text" else 0,
        separation=_separation(histogram),
        counts=tuple(histogram.counts.tolist()) if len(histogram) <= MOST_COUNTS else (),
        findings=tuple(kinds_in_column(name, histogram)),
    )


def _spread(values: Any, texts: list[str]) -> float:
    """Largest less least of some numbers, or of the texts that stand for them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.min_max(pa.array([float(text) for text in texts]) if texts else pc.cast(values, pa.float64()))
    return float(ends["max"].as_py() or 0.0) - float(ends["min"].as_py() or 0.0)


def _code_length(texts: list[str]) -> int:
    """The length of texts that are all codes of one length, else 0."""
    lengths = {len(text) for text in texts}
    code = len(lengths) == 1 and all(CODE.fullmatch(text) and any(map(str.isdigit, text)) for text in texts)
    return lengths.pop() if code else 0


def _separation(histogram: Histogram) -> float:
    records = histogram.total
    alike = sum(count * (count - 1) for count in histogram.counts.tolist())
    return 1 - alike / (records * (records - 1)) if records > 1 else 0.0

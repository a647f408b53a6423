"""Profiles of the columns of a table for `init`.

How values are written, distributions of numbers, and a guess for each column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks import FactsRequest, Histogram
from privpipe.blocks.arrays import Floats, Ints
from privpipe.drafting.disclosures import disclosing
from privpipe.drafting.guesses import CODE, LEADING_ZERO, MISSING, guess_type, scale_of
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.relations import Relations, relate
from privpipe.drafting.source_formats import database_source, made_up_names, sniffed
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.base.conversion import from_text
from privpipe.engines.base.frames import arrow_of, is_local_frame
from privpipe.engines.readers.files import elsewhere, list_files
from privpipe.engines.readers.text_forms import TextForm, plain_cells
from privpipe.errors import DataError, UsageError
from privpipe.reporting.safe_harbor import kinds_in_column
from privpipe.roles import ColumnType, column_type_of

__all__ = [
    "NoRecords",
    "NumberShape",
    "ProfiledTable",
    "WrittenValues",
    "number_shape",
    "profile_table",
    "written_values",
]


RARE = 0.005
"""Share of records in a tail that is coded as one group."""
SKEWED = 3.0
"""How much farther the upper tenth of a skewed distribution reaches from its middle than the lower one."""
DECIMALS = 100
MOST_WHOLE = 2.0**53
"""Whole numbers below it are exact as floats."""
MIDDLE = 0.8
"""Share of its range that the middle eight tenths of an even distribution take."""


@dataclass(frozen=True)
class NumberShape:
    """See `Profile`, whose fields of the same names these are."""

    spread: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    tail: float = 0.0
    skewed: bool = False
    whole: bool = True
    fractions: bool = False
    even: bool = False


def number_shape(values: Floats, counts: Ints) -> NumberShape:
    """Of distinct finite numbers and the records of each.

    Examples
    --------
    >>> shape = number_shape(np.array([1.0, 2, 3, 4, 9]), np.array([300, 300, 300, 97, 3]))
    >>> shape.bottom, shape.top, shape.tail, shape.whole
    (1.0, 9.0, 4.0, True)
    """
    finite = np.isfinite(values)
    values, counts = values[finite], counts[finite]
    if not len(values):
        return NumberShape()
    order = np.argsort(values)
    values, upto = values[order], np.cumsum(counts[order])
    total = upto[-1]
    low, middle, high = (float(values[np.searchsorted(upto, share * total)]) for share in (0.1, 0.5, 0.9))
    tail = float(values[min(np.searchsorted(upto, (1 - RARE) * total), len(values) - 1)])
    scaled = values * DECIMALS
    uneven = np.abs(scaled - np.round(scaled)) > 1e-6
    held = (high - low) / max(float(values[-1] - values[0]), 1e-300)
    far = values[-1] - middle > SKEWED * max(middle - values[0], 0.0)
    return NumberShape(
        spread=float(values[-1] - values[0]),
        bottom=float(values[0]),
        top=float(values[-1]),
        tail=tail if tail < values[-1] else 0.0,
        skewed=bool(values[0] >= 0 and far and high - middle > middle - low),
        whole=bool((values == np.round(values)).all()),
        fractions=bool(uneven.mean() > 0.5),
        even=bool(abs(held - MIDDLE) < 0.1 and abs((high + low) / 2 - middle) < 0.1 * (high - low)),
    )


NUMBER_FORMS = ((".", None), (",", None), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"), (",", "'"))
DAYS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y"),
    *("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
)
CLOCKS = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")
FIRST = 50


@dataclass(frozen=True)
class WrittenValues:
    """What columns of text hold.

    Parameters
    ----------
    form : TextForm
        With decimal sign, thousands and date formats.
    types : mapping of column to ColumnType
        Of columns that `guess_type` takes for text and these signs make numbers or dates.
    unsure : tuple of str
        Columns of dates that would also be dates with the month first.
    """

    form: TextForm
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    unsure: tuple[str, ...] = ()


def written_values(texts: Mapping[str, Sequence[str]], form: TextForm) -> WrittenValues:
    """Guess the decimal sign of a file and the format of each column of dates.

    The signs are those under which most columns are numbers, the plain ones among equals; a format must fit every
    cell of its column.

    Parameters
    ----------
    texts : mapping of column to sequence of str
        Distinct texts.
    form : TextForm
        What is known.

    Examples
    --------
    >>> found = written_values({"pay": ["1,5", "1.200"], "born": ["31/12/1999", ""]}, TextForm())
    >>> found.form.decimal, found.form.thousands, found.form.date_format, dict(found.types)
    (',', '.', {'born': '%d/%m/%Y'}, {'pay': 'number', 'born': 'date'})
    """
    columns = {name: pa.array(_present(values), pa.string()) for name, values in texts.items() if _present(values)}
    best, types = form, {}
    plain = {name for name, values in texts.items() if guess_type(values)[0] in ("integer", "number")}
    most = (len(plain), 0)
    for decimal, thousands in NUMBER_FORMS[1:]:
        tried = replace(form, decimal=decimal, thousands=thousands)
        found = {name: kind for name, cells in columns.items() if (kind := _number(cells, tried))}
        if len(found) > most[0]:
            best, types, most = tried, found, (len(found), 0)
    formats: dict[str, str] = {}
    unsure: list[str] = []
    for name, cells in columns.items():
        if name in types or name in plain or guess_type(texts[name])[0] != "text":
            continue
        fitting = _formats(cells)
        if fitting:
            formats[name] = fitting[0]
            types = {**types, name: "timestamp" if "%M" in fitting[0] else "date"}
            unsure += [name] if len(fitting) > 1 else []
    formats, unsure = _agreed(formats, unsure, columns)
    return WrittenValues(replace(best, date_format=formats), types, tuple(unsure))


def _present(values: Sequence[str]) -> list[str]:
    return [value for value in values if value.strip() and value not in MISSING]


def _number(cells: pa.Array, form: TextForm) -> ColumnType | None:
    """What the cells are under these signs; codes with a leading zero are texts."""
    head = cells.slice(0, FIRST)
    if not _fits(head, "number", form) or any(LEADING_ZERO.fullmatch(text.strip()) for text in head.to_pylist()):
        return None
    if any(LEADING_ZERO.fullmatch(text.strip()) for text in cells.to_pylist()):
        return None
    for kind in ("integer", "number"):
        if _fits(cells, kind, form):
            return kind
    return None


def _fits(cells: pa.Array, kind: str, form: TextForm) -> bool:
    return from_text(plain_cells(cells, "c", form, {"c": kind}), kind)[1] == 0


def _formats(cells: pa.Array) -> list[str]:
    """Every format that fits all cells, day first before month first."""
    found = []
    for day, clock in product(DAYS, CLOCKS):
        form = TextForm(date_format=day + clock)
        if _fits(cells.slice(0, FIRST), "timestamp", form) and _fits(cells, "timestamp", form):
            found.append(day + clock)
    return found[:1] if found and "%m" not in found[0] else found


def _agreed(
    formats: dict[str, str], unsure: list[str], columns: Mapping[str, pa.Array]
) -> tuple[dict[str, str], list[str]]:
    """What one column shows of month and day holds for those that fit either."""
    sure = [text for name, text in formats.items() if name not in unsure]
    still = []
    for name in unsure:
        fitting = _formats(columns[name])
        kin = [text for text in fitting if any(text[:8] == other[:8] for other in sure)]
        if kin:
            formats[name] = kin[0]
        else:
            still.append(name)
    return formats, still


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


class NoRecords(DataError):
    """A table without records, of which nothing can be guessed."""


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
        There is no such file, or it has its own names, or another number of columns than there are names.
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
            raise NoRecords(f"{named} has no records: there is nothing to guess from")
        untyped = form in ("csv", "json", "excel")
        histograms = {name: _histogram(engine, table, name) for name in table.schema.names}
        orders = _declared_orders(data) if form == "frame" else {}
        profiles = {
            name: _profile(
                name, histogram, table.schema.field(name).type, records, untyped=untyped, order=orders.get(name, ())
            )
            for name, histogram in histograms.items()
        }
        if form != "csv":
            seen = tuple(profiles.values())
            return ProfiledTable(source, seen, relations=_related(engine, table, seen))
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
        typed = engine.scan(replace(source, types={each.name: each.type for each in seen}, null_values=MISSING))
        return ProfiledTable(source, seen, written.unsure, _related(engine, table, seen, typed))


def _related(engine: Engine, table: Any, profiles: Sequence[Profile], typed: Any = None) -> Relations:
    """What columns are to each other, and what follows for those that would give back what others generalize."""
    return disclosing(engine, table if typed is None else typed, profiles, relate(engine, table, profiles))


def _histogram(engine: Engine, table: Any, name: str) -> Histogram:
    return engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]


def _csv_source(data: str, delimiter: str | None, columns: Sequence[str]) -> Source:
    """The source as the bytes of its first file show; numbers and dates are recognised by its columns."""
    found = sniffed(list_files(Source(data=data, format="csv"))[0], delimiter)
    given: dict[str, Any] = {"data": data, "format": "csv", "delimiter": found.delimiter, "form": found.form}
    if found.names and not columns:
        return Source(**given, header=False, columns=found.names)
    if found.header:
        if columns:
            raise UsageError(f"the first line of {data!r} names its columns; names are for a file without a header")
        return Source(**given)
    if columns and (len(columns) != found.fields or len(set(columns)) != found.fields):
        raise UsageError(
            f"{data!r} has {found.fields} fields a line and needs as many names, each another; {len(columns)} are given"
        )
    return Source(**given, header=False, columns=tuple(columns) or made_up_names(found.fields))


def _declared_orders(data: Any) -> dict[str, tuple[str, ...]]:
    """Texts of the ordered categories of a frame in memory, by column, in their order."""
    import pyarrow as pa

    table = arrow_of(data) if is_local_frame(data) else None
    if not isinstance(table, pa.Table):
        return {}
    orders = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type) and column.type.ordered and column.num_chunks:
            words = column.unify_dictionaries().chunk(0).dictionary
            if pa.types.is_string(words.type) or pa.types.is_large_string(words.type):
                orders[name] = tuple(words.to_pylist())
    return orders


def _profile(
    name: str, histogram: Histogram, arrow_type: Any, records: int, *, untyped: bool, order: Sequence[str] = ()
) -> Profile:
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
    # Frames hold whole numbers as floats where some are missing.
    if found == "number" and not texts and len(values) and shape.whole and max(-shape.bottom, shape.top) < MOST_WHOLE:
        found = "integer"
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
        scale=_scale(present, order) if found == "text" and max(len(present), len(order)) <= MOST_WORDS else (),
        by_text=_is_by_text(present) if found == "text" and len(present) <= MOST_WORDS else False,
        **vars(shape),
    )


def _scale(present: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    return tuple(order) if set(present) <= set(order) else scale_of(present)


def _shape(values: Any, texts: list[str], histogram: Histogram, null_values: tuple[str, ...]) -> NumberShape:
    """Of numbers, or of the texts that represent them."""
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

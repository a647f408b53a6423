"""How numbers and dates are written, guessed from the distinct texts of whole columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import pyarrow as pa

from privpipe.drafting.guessing import LEADING_ZERO, MISSING, guess_type
from privpipe.engines.base.cell_forms import plain_cells
from privpipe.engines.base.text import from_text
from privpipe.engines.base.text_form import TextForm
from privpipe.roles import ColumnType

__all__ = ["WrittenValues", "written_values"]

NUMBERS = ((".", None), (",", None), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"), (",", "'"))
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
    for decimal, thousands in NUMBERS[1:]:
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

"""Cells as a file writes them, to the plain texts that `from_text` converts; the same function on every engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from privpipe.engines.base.cell_dates import iso_dates
from privpipe.engines.base.text_form import TextForm
from privpipe.hierarchies.literals import NUMERIC

__all__ = ["plain_cells", "trimmed_cells"]

UNREAD: Final = "#"
"""Stands for a cell that is not of its form; no type but text takes it, so that it is counted where it converts."""
_DATES: Final = ("date", "timestamp")
_SPACES: Final = " \u00a0\u202f"


def trimmed_cells(array: pa.Array, null_values: Sequence[str]) -> pa.Array:
    """Texts without white space around them; those that then mean "no value" are null.

    Examples
    --------
    >>> trimmed_cells(pa.array([" a ", "  ", " NA"]), ["", "NA"]).to_pylist()
    ['a', None, None]
    """
    found = pc.utf8_trim_whitespace(array)
    none = pc.is_in(found, value_set=pa.array(list(null_values), pa.string()))
    return pc.if_else(none, pa.scalar(None, pa.string()), found)


def plain_cells(array: pa.Array, column: str, form: TextForm, types: Mapping[str, str]) -> pa.Array:
    """Cells of a column as plain numbers and ISO dates; those of other columns as they are.

    A cell that is not of the form converts to nothing: under a decimal comma ``1.5`` is no number.

    Examples
    --------
    >>> form = TextForm(decimal=",", thousands=".")
    >>> plain_cells(pa.array(["1.234,5", "1.5", "-7", ""]), "x", form, {"x": "number"}).to_pylist()
    ['1234.5', '#', '-7', '']
    >>> plain_cells(pa.array(["31/12/1999", "1999-12-31"]), "d", TextForm(date_format="%d/%m/%Y"), {"d": "date"})[1]
    <pyarrow.StringScalar: '#'>
    """
    kind = types.get(column)
    if kind in NUMERIC and (form.decimal != "." or form.thousands is not None):
        return _read(array, _plain_numbers(array, form.decimal, form.thousands))
    written = form.date_format_of(column) if kind in _DATES else None
    return array if written is None else _read(array, iso_dates(array, written))


def _read(array: pa.Array, found: pa.Array) -> pa.Array:
    """What was found; a blank cell stays blank, and one that is not of the form is marked."""
    blank = pc.equal(pc.utf8_trim_whitespace(array), "")
    return pc.if_else(pc.or_(pc.is_null(array), blank), array, pc.coalesce(found, pa.scalar(UNREAD)))


def _plain_numbers(array: pa.Array, decimal: str, thousands: str | None) -> pa.Array:
    point = re.escape(decimal)
    grouped = ""
    if thousands is not None:
        between = f"[{_SPACES}]" if thousands == " " else re.escape(thousands)
        grouped = f"[0-9]{{1,3}}(?:{between}[0-9]{{3}})+|"
    whole = rf"^\s*[+-]?(?:{grouped}[0-9]+)?(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?\s*$"
    other = r"^\s*[+-]?(?i:nan|inf|infinity)\s*$"
    fits = pc.match_substring_regex(array, f"{whole}|{other}")
    found = array
    if thousands is not None:
        found = pc.replace_substring_regex(found, between, "")
    if decimal != ".":
        found = pc.replace_substring(found, decimal, ".")
    return pc.if_else(fits, found, pa.scalar(None, pa.string()))

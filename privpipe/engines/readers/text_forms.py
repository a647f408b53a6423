"""How a file writes text: the form of a CSV source, dates and numbers as plain texts, formulas escaped."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from privpipe.engines.readers.unpacking import Compression, packing_of
from privpipe.errors import UsageError
from privpipe.hierarchies.canonical import NUMERIC

__all__ = [
    "FORM_KEYS",
    "NO_QUOTE",
    "Encoding",
    "TextForm",
    "date_format_fault",
    "escaped_cells",
    "form_faults",
    "formula_cells",
    "iso_dates",
    "plain_cells",
    "restored_cells",
    "trimmed_cells",
]


MONTHS: Final = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_GROUPS: Final = {
    "Y": r"(?P<Y>[0-9]{4})",
    "y": r"(?P<y>[0-9]{2})",
    "m": r"(?P<m>[0-9]{1,2})",
    "b": r"(?P<b>[A-Za-z]{3,4})",
    "B": r"(?P<b>[A-Za-z]{3,9})",
    "d": r"(?P<d>[0-9]{1,2})",
    "H": r"(?P<H>[0-9]{1,2})",
    "I": r"(?P<I>[0-9]{1,2})",
    "M": r"(?P<M>[0-9]{2})",
    "S": r"(?P<S>[0-9]{2})",
    "f": r"(?P<f>[0-9]{1,6})",
    "p": r"(?P<p>[AaPp]\.?[Mm]\.?)",
}
_CENTURY_TURNS: Final = "69"
"""The first two-digit year of the 1900s, as POSIX has it."""


def date_format_fault(text: str) -> str:
    """What is wrong with a format, or nothing.

    Examples
    --------
    >>> date_format_fault("%d/%m/%Y"), date_format_fault("%d/%m")
    ('', 'needs a year: %Y or %y')
    """
    signs = re.findall("%(.?)", text)
    known = "".join(_GROUPS)
    strange = next((sign for sign in signs if sign not in _GROUPS and sign != "%"), None)
    if strange is not None:
        return f"%{strange} is not known; known are {', '.join('%' + sign for sign in known)} and %%"
    if len(set(signs) - {"%"}) < len([sign for sign in signs if sign != "%"]):
        return "names a part twice"
    for part, name in (("Yy", "year"), ("mbB", "month"), ("d", "day")):
        found = [sign for sign in signs if sign in part]
        if len(found) != 1:
            wanted = " or ".join(f"%{sign}" for sign in part)
            return f"needs a{'' if not found else ' single'} {name}: {wanted}"
    if ("I" in signs) != ("p" in signs) or ("I" in signs and "H" in signs):
        return "an hour is %H, or %I with %p"
    if any(sign in signs for sign in "MSf") and not ({"H", "I"} & set(signs)):
        return "minutes need an hour: %H, or %I with %p"
    if ("S" in signs and "M" not in signs) or ("f" in signs and "S" not in signs):
        return "seconds need minutes, and fractions need seconds"
    return ""


def iso_dates(array: pa.Array, text: str) -> pa.Array:
    """Dates of a sound format as ISO 8601; null where a cell is not of it. No calendar is asked here.

    Examples
    --------
    >>> iso_dates(pa.array(["31/12/1999", "1.2.99", None]), "%d/%m/%Y").to_pylist()
    ['1999-12-31', None, None]
    >>> iso_dates(pa.array(["Dec 31, 99 11:05 PM"]), "%b %d, %y %I:%M %p").to_pylist()
    ['1999-12-31 23:05']
    """
    parts = pc.extract_regex(array, _pattern(text))
    found = {field.name: parts.field(at) for at, field in enumerate(parts.type)}
    # The children of a struct do not know which of its rows are missing.
    found = {name: pc.if_else(pc.is_valid(parts), part, pa.scalar(None, pa.string())) for name, part in found.items()}
    date = pc.binary_join_element_wise(_year(found), _month(found), _two(found["d"]), "-")
    if not ({"H", "I"} & found.keys()):
        return date
    time = [_hour(found), found["M"] if "M" in found else pa.scalar("00")]
    if "S" in found:
        time.append(found["S"])
    clock = pc.binary_join_element_wise(*time, ":")
    if "f" in found:
        clock = pc.binary_join_element_wise(clock, found["f"], ".")
    return pc.binary_join_element_wise(date, clock, " ")


def _pattern(text: str) -> str:
    found = []
    for literal, sign in re.findall(r"([^%]+)|%(.)", text):
        if literal:
            found.append("".join(r"\s+" if each.isspace() else re.escape(each) for each in literal))
        else:
            found.append("%" if sign == "%" else _GROUPS[sign])
    return rf"^\s*{''.join(found)}\s*$"


def _two(digits: pa.Array) -> pa.Array:
    return pc.utf8_lpad(digits, 2, "0")


def _year(found: dict[str, pa.Array]) -> pa.Array:
    if "Y" in found:
        return found["Y"]
    century = pc.if_else(pc.less(found["y"], _CENTURY_TURNS), "20", "19")
    return pc.binary_join_element_wise(century, found["y"], "")


def _month(found: dict[str, pa.Array]) -> pa.Array:
    if "m" in found:
        return _two(found["m"])
    given = pc.utf8_lower(found["b"])
    short = pa.array([name[:3] for name in MONTHS])
    at = pc.coalesce(pc.index_in(given, short), pc.index_in(given, pa.array(MONTHS)))
    at = pc.if_else(pc.equal(given, "sept"), pa.scalar(8, pa.int32()), at)
    return _two(pc.add(at, 1).cast(pa.string()))


def _hour(found: dict[str, pa.Array]) -> pa.Array:
    if "H" in found:
        return _two(found["H"])
    hour = found["I"].cast(pa.int32())
    none = pa.scalar(None, pa.int32())
    hour = pc.if_else(pc.and_(pc.greater_equal(hour, 1), pc.less_equal(hour, 12)), hour, none)
    hour = pc.if_else(pc.equal(hour, 12), pa.scalar(0, pa.int32()), hour)
    after = pc.match_substring(found["p"], "p", ignore_case=True)
    return _two(pc.if_else(after, pc.add(hour, 12), hour).cast(pa.string()))


Encoding = Literal["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "windows-1252"]
NO_QUOTE = "none"
_SINGLE = ("quote", "escape", "comment", "decimal", "thousands")
_BREAKS = "\r\n"


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """How CSV files are written.

    Parameters
    ----------
    encoding : {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "windows-1252"}
        Of the text. A byte order mark at the beginning is not part of it; utf-16 needs one.
    compression : {"none", "gz", "zst", "bz2", "xz", "zip"}, optional
        Default: by the file name's ending. A zip holds one file.
    skip_rows : int
        Lines above the header (above the first record where there is none), whatever they hold.
    footer : int
        Records at the end of each file that are none, such as a row of totals; empty lines do not count.
    quote : str
        Sign around fields; ``none`` where quotes are text.
    escape : str, optional
        Sign before a sign that is to be taken literally.
    comment : str, optional
        Sign at the beginning of lines that are left out.
    trim : bool
        Whether white space around fields and column names is not part of them.
    decimal : str
        Sign before the fraction of integer, number and decimal columns.
    thousands : str, optional
        Sign between groups of three digits of these columns; a space also stands for no-break spaces.
    date_format : str or mapping of column to str
        How dates and timestamps are written, in the signs of ``strptime``; a text speaks of all such columns.

    Raises
    ------
    UsageError
        A sign that is none, or means two things.

    Examples
    --------
    >>> TextForm(encoding="latin-1", decimal=",", thousands=".").is_plain
    False
    >>> TextForm(decimal=";", thousands=";")
    Traceback (most recent call last):
    privpipe.errors.UsageError: thousands: ';' is the decimal sign already
    """

    encoding: Encoding = "utf-8"
    compression: Compression | None = None
    skip_rows: int = 0
    footer: int = 0
    quote: str = '"'
    escape: str | None = None
    comment: str | None = None
    trim: bool = False
    decimal: str = "."
    thousands: str | None = None
    date_format: str | Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, fault in form_faults(vars(self)):
            raise UsageError(f"{name}: {fault}")

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said that plain UTF-8 files do not have."""
        return self == TextForm(compression=self.compression)

    @property
    def codec(self) -> str:
        """Python's name of the encoding.

        Examples
        --------
        >>> TextForm(encoding="windows-1252").codec
        'cp1252'
        """
        return codecs.lookup(self.encoding).name

    @property
    def keeps_ascii(self) -> bool:
        """Whether every byte below 128 is an ASCII character, so that files can be cut before they are decoded."""
        return not self.encoding.startswith("utf-16")

    @property
    def rewrites_fields(self) -> bool:
        """Whether fields are quoted, escaped or surrounded otherwise than RFC 4180 has it."""
        return self.quote != '"' or self.escape is not None or self.comment is not None or self.trim

    def packing(self, path: str) -> Compression | None:
        """How a file of the source is packed, if it is."""
        return packing_of(path, self.compression)

    def date_format_of(self, column: str) -> str | None:
        """How the dates of a column are written; None where as ISO 8601 has them."""
        if isinstance(self.date_format, str):
            return self.date_format
        return self.date_format.get(column)


FORM_KEYS = tuple(TextForm.__dataclass_fields__)


def form_faults(values: Mapping[str, Any], delimiter: str | None = None) -> Iterator[tuple[str, str]]:
    """What is wrong with parameters of a `TextForm`, apart from a delimiter; by parameter.

    Examples
    --------
    >>> list(form_faults({"comment": ";"}, ";"))
    [('comment', "';' is the delimiter already")]
    """
    for name, choices in (("encoding", get_args(Encoding)), ("compression", get_args(Compression))):
        if values.get(name) is not None and values[name] not in choices:
            yield name, f"must be one of {', '.join(choices)}"
    for name in ("skip_rows", "footer"):
        if values.get(name, 0) < 0:
            yield name, f"must be at least 0, got {values[name]}"
    yield from _faults_of_signs({name: values[name] for name in _SINGLE if values.get(name) is not None}, delimiter)
    given = values.get("date_format", {})
    for column, text in ({"": given} if isinstance(given, str) else given).items():
        if fault := date_format_fault(text):
            yield "date_format", fault + (f" (column {column!r})" if column else "")


def _faults_of_signs(signs: dict[str, str], delimiter: str | None) -> Iterator[tuple[str, str]]:
    if signs.get("quote") == NO_QUOTE:
        del signs["quote"]
    for name, sign in signs.items():
        wide = name == "thousands"
        if len(sign) != 1 or sign in _BREAKS or not (wide or sign.isascii()):
            yield name, f"must be a single {'' if wide else 'ASCII '}character"
        elif name in ("decimal", "thousands") and (sign.isalnum() or sign in "+-"):
            yield name, f"{sign!r} belongs to numbers"
    taken = {} if delimiter is None else {delimiter: "delimiter"}
    for name in ("quote", "escape", "comment"):
        if name in signs and taken.setdefault(signs[name], name) != name:
            yield name, f"{signs[name]!r} is the {taken[signs[name]]} already"
    if signs.get("thousands") == signs.get("decimal", "."):
        yield "thousands", f"{signs['thousands']!r} is the decimal sign already"


UNREAD: Final = "#"
"""Represents a cell that is not of its form; only text takes it, so that it is counted where it converts."""
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

    A cell that is not of the form converts to nothing: under a decimal comma ``1.5`` is not a number.

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


SIGNS: Final = r"=+\-@\t\r"
_FORMULA: Final = f"^[{SIGNS}]"
_WRITTEN: Final = f"^('*[{SIGNS}])"
_READ: Final = f"^'('*[{SIGNS}])"


def formula_cells(cells: pa.Array) -> pa.Array:
    r"""Which texts a spreadsheet takes for a formula; false for null.

    Examples
    --------
    >>> formula_cells(pa.array(["=1+1", "-5", "+x", "@a", "\t=1", "a=1", "", None])).to_pylist()
    [True, True, True, True, True, False, False, False]
    """
    return pc.fill_null(pc.match_substring_regex(cells, _FORMULA), False)


def escaped_cells(cells: pa.Array) -> pa.Array:
    """Texts with an apostrophe before what would be a formula.

    Examples
    --------
    >>> escaped_cells(pa.array(["-5", "'-5", "5", None])).to_pylist()
    ["'-5", "''-5", '5', None]
    """
    return pc.replace_substring_regex(cells, _WRITTEN, r"'\1", max_replacements=1)


def restored_cells(cells: pa.Array) -> pa.Array:
    """What `escaped_cells` was given.

    Examples
    --------
    >>> restored_cells(pa.array(["'-5", "''-5", "5", "'a", None])).to_pylist()
    ['-5', "'-5", '5', "'a", None]
    """
    return pc.replace_substring_regex(cells, _READ, r"\1", max_replacements=1)

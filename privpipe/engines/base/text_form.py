"""How the text of a CSV source is written, where it differs from plain UTF-8: one description for every engine."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from privpipe.engines.base.cell_dates import date_format_fault
from privpipe.engines.base.unpacking import Compression, packing_of
from privpipe.errors import UsageError

__all__ = ["FORM_KEYS", "NO_QUOTE", "Encoding", "TextForm", "form_faults"]

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
        Of the text. A byte order mark at the beginning is no part of it; utf-16 needs one.
    compression : {"none", "gz", "zst", "bz2", "xz", "zip"}, optional
        Default: by the file name's ending. A zip holds one file.
    skip_rows : int
        Lines above the header (above the first record where there is none), whatever they hold.
    footer : int
        Records at the end of each file that are none, such as a row of totals; empty lines do not count.
    quote : str
        Sign around fields; ``none`` where quotes are text.
    escape : str, optional
        Sign before a sign that is to be taken as it is.
    comment : str, optional
        Sign at the beginning of lines that are left out.
    trim : bool
        Whether white space around fields and column names is no part of them.
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
    """What is wrong with parameters of a `TextForm`, beside a delimiter; by parameter.

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

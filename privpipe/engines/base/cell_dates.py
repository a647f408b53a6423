"""Dates as a file writes them, to ISO 8601: the signs of ``strptime``, read strictly."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["date_format_fault", "iso_dates"]

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

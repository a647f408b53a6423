"""What a table's column names must be, on every engine alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from privpipe.engines.base.carried_cells import CARRIED
from privpipe.errors import DataError, did_you_mean
from privpipe.roles import not_text

__all__ = ["COUNT", "RESERVED", "check_declared", "check_names", "check_record_ids"]

RESERVED = "__privpipe"
"""Prefix of the hidden columns."""
COUNT = "__count"
"""The column in which `Engine.distinct` puts its counts, beside those of a table."""


def check_names(names: Sequence[str]) -> None:
    """Refuse names that some engine could not distinguish, or that privpipe reserves.

    Raises
    ------
    DataError
        A name is no text, occurs twice, differs from another by case alone (DuckDB and Spark fold case), is empty, or
        is reserved; no column at all.

    Examples
    --------
    >>> check_names(["age", "zip"])
    >>> check_names(["age", "Age"])
    Traceback (most recent call last):
    privpipe.errors.DataError: columns 'age' and 'Age' differ by case alone; ...
    """
    if not names:
        raise DataError("the table has no columns")
    if wrong := not_text(names):
        raise DataError(wrong)
    seen: dict[str, str] = {}
    for name in names:
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DataError(
                f"column {name!r}: a name holds NUL or half of a surrogate pair, which no file format carries"
            )
        if not name:
            raise DataError("a column has an empty name; give it one")
        if name.casefold().startswith(RESERVED) or name.casefold() == COUNT:
            raise DataError(
                f"column {name!r}: {COUNT!r} and names that start with {RESERVED!r} are reserved; rename the column"
            )
        folded = name.casefold()
        known = seen.get(folded)
        if known == name:
            raise DataError(f"column {name!r} occurs {names.count(name)} times; names must be unique")
        if known is not None:
            raise DataError(
                f"columns {known!r} and {name!r} differ by case alone; not every engine tells them apart; rename one"
            )
        seen[folded] = name


def check_declared(names: Sequence[str], types: Mapping[str, str] | Iterable[str], *, hint: str = "") -> None:
    """Refuse a declared column that the data lacks.

    Parameters
    ----------
    hint : str
        A sentence on the likely cause (a wrong delimiter, say), put at the end.

    Raises
    ------
    DataError
    """
    declared = [name for name, kind in types.items() if kind != CARRIED] if isinstance(types, Mapping) else types
    missing = [name for name in declared if name not in set(names)]
    if missing:
        near = did_you_mean(missing[0], names) if len(missing) == 1 else ""
        listed = ", ".join(repr(name) for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise DataError(f"declared column{plural} {listed} not in the data{near}{hint}", column=missing[0])


def check_record_ids(column: str, records: int, missing: int, repeated: int) -> None:
    """Refuse a column whose values are not unique.

    Parameters
    ----------
    missing, repeated : int
        Records without a value; records whose value another one before them has.

    Raises
    ------
    DataError

    Examples
    --------
    >>> check_record_ids("name", 10, 0, 0)
    >>> check_record_ids("name", 10, 1, 2)
    Traceback (most recent call last):
    privpipe.errors.DataError: record id column 'name' must be unique and complete: 1 of 10 records have no value, ...
    """
    if missing or repeated:
        raise DataError(
            f"record id column {column!r} must be unique and complete: {missing:,} of {records:,} records have no "
            f"value, {repeated:,} repeat one; name another column, or leave `record_id` out"
        )

"""Households of which some records are left and some are not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["parts_of"]


def parts_of(before: pa.Table, after: pa.Table, household: str) -> pa.Table:
    """Households that lost some of their records and not all, with the number of those in `missing`.

    Parameters
    ----------
    before, after : pyarrow.Table
        A row a household, with its number of records in `__count`. Missing keys are no household.

    Examples
    --------
    >>> before = pa.table({"home": ["a", "b", "c", None], "__count": [2, 3, 1, 4]})
    >>> after = pa.table({"home": ["a", "b", None], "__count": [2, 1, 1]})
    >>> parts_of(before, after, "home").to_pydict()
    {'home': ['b'], 'missing': [2]}
    """
    known = after.filter(pc.is_valid(after[household]))
    places = pc.index_in(known[household], value_set=before[household].combine_chunks())
    missing = pc.subtract(before["__count"].take(places), known["__count"])
    found = pa.table({household: known[household], "missing": missing})
    return found.filter(pc.greater(found["missing"], 0))

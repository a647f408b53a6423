"""Entries of the catalogues that are not available as expectations, with the reason."""

from __future__ import annotations

from privpipe.blocks import Guarantee

__all__ = ["SERVED", "reads_of", "taken", "why_refused"]

SERVED = ("classes", "weights", "distinct", "facts", "items", "pairs", "files", "tables", "whole", "columns", "beside")
UNSERVED = {
    "process": "it is judged by the record of the process that stands beside a published release, not by a table",
    "positions": "it is judged by the order of the rows in the files that were written, which a batch does not keep",
    "releases": "it is judged beside earlier releases, by a ledger that a run keeps; judge it in a policy",
}


def reads_of(entry: type[Guarantee]) -> frozenset[str]:
    """What the entry reads; it may differ from instance to instance, so its examples are asked as well."""
    return frozenset(example.reads for example in entry.examples())


def why_refused(reads: frozenset[str], threshold: str | None, *, model: bool) -> str:
    """Why there is no expectation of an entry, or nothing.

    Parameters
    ----------
    reads : frozenset of str
    threshold : str or None
        Name of the threshold.
    model : bool
        Whether it is a privacy model, which judges without one.

    Examples
    --------
    >>> why_refused(frozenset({"distinct"}), None, model=False)
    'it only reports: it has no threshold by which it could fail'
    >>> why_refused(frozenset({"files"}), "at_most", model=False)
    ''
    """
    if threshold is None and not model:
        return "it only reports: it has no threshold by which it could fail"
    if reads & set(SERVED):
        return ""
    first = min(reads)
    return UNSERVED.get(first, f"it reads {first}, which a batch and the tables beside it do not tell")


def taken(names: set[str]) -> str:
    """Why parameters of these names make no fields of an expectation, or nothing where there are none."""
    listed = ", ".join(map(repr, sorted(names)))
    return f"every expectation has a field of the name {listed} of its own" if names else ""

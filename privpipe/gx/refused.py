"""Entries of the catalogues that are not available as expectations, with the reason."""

from __future__ import annotations

from collections.abc import Collection

from privpipe.blocks import Guarantee
from privpipe.judging.ways import WayOfJudging, way_of

__all__ = ["taken", "ways_of", "why_refused"]


def ways_of(entry: type[Guarantee]) -> list[WayOfJudging]:
    """How the entry is judged; it may differ from instance to instance, so its examples are asked."""
    return list(dict.fromkeys(way_of(example) for example in entry.examples()))


def why_refused(ways: Collection[WayOfJudging], threshold: str | None, *, model: bool) -> str:
    """Why there is no expectation of an entry, or nothing.

    Parameters
    ----------
    ways : collection of WayOfJudging
        Those of its examples.
    threshold : str or None
        Name of the threshold.
    model : bool
        Whether it is a privacy model, which judges without one.

    Examples
    --------
    >>> from privpipe.measures import RecordLinkage
    >>> why_refused(ways_of(RecordLinkage), None, model=False)
    'it only reports: it has no threshold by which it could fail'
    >>> why_refused(ways_of(RecordLinkage), "at_most", model=False)
    ''
    """
    if threshold is None and not model:
        return "it only reports: it has no threshold by which it could fail"
    reasons = [way.no_expectation for way in ways]
    return reasons[0] if reasons and all(reasons) else ""


def taken(names: set[str]) -> str:
    """Why parameters of these names make no fields of an expectation, or nothing where there are none."""
    listed = ", ".join(map(repr, sorted(names)))
    return f"every expectation has a field of the name {listed} of its own" if names else ""

"""Which entries can be judged under wildcard matching and when persons are counted."""

from __future__ import annotations

from privpipe.blocks import Guarantee

__all__ = ["refused_in_persons", "refused_under_wildcard", "refused_without_wildcard"]


def refused_under_wildcard(entry: Guarantee) -> str:
    """Why an entry has no meaning under `nulls: wildcard`, or nothing."""
    if entry.judges_matching or entry.reads in ("pairs", "files", "tables", "positions", "whole", "columns", "beside"):
        return ""
    if entry.reads == "items":
        return f"{entry.name()} of items has no meaning under `nulls: wildcard`: a set of items has no unknown cells"
    return (
        f"{entry.name()} needs classes, and under `nulls: wildcard` there are none: what matches is not transitive; "
        "judge it with `nulls: own_value` or `refuse`, or keep to models on sizes (k_anonymity, average_risk, "
        "strict_average_risk, sample_uniqueness)"
    )


def refused_without_wildcard(entry: Guarantee) -> str:
    """Why an entry has no meaning but under `nulls: wildcard`, or nothing."""
    what = entry.needs_matching()
    if not what:
        return ""
    return (
        f"{entry.name()}: {what} has a meaning only with `nulls: wildcard`, where blanks of others hide a record; "
        "elsewhere sample_uniqueness bounds the records that equal no other"
    )


def refused_in_persons(entry: Guarantee) -> str:
    """Why an entry cannot count persons, or nothing."""
    if entry.needs_population:
        return f"{entry.name()} counts records of a population; with `person_id` it is not served: leave one out"
    if entry.reads in ("classes", "pairs", "files", "releases", "positions", "whole", "columns", "beside"):
        return ""
    return f"{entry.name()} counts records; with `person_id` it is not served: leave one of the two out"

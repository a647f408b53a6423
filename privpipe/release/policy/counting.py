"""What a policy may ask under each way of counting: wildcards, persons, a population."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.assess.served import refused_in_persons, refused_under_wildcard
from privpipe.blocks import SizeModel
from privpipe.release.policy.places import Report
from privpipe.release.policy.specs import SourceSpec
from privpipe.transforms.base import Transformer
from privpipe.transforms.generalize import Generalize

if TYPE_CHECKING:
    from privpipe.release.policy.rules import Draft

__all__ = ["KEEPS_KEYS", "check_counting", "check_stages_under_counting"]

KEEPS_KEYS = ("suppress_records", "sample", "drop_identifiers", "pseudonymise")
"""Stages that leave quasi-identifiers as they are."""
INSTEAD = "generalize by given `levels:` without suppress_at_most, and the gate judges what comes out"


def check_counting(draft: Draft, report: Report) -> None:
    """Every entry must be able to count as the policy asks: passed over, figures would look safer than they are."""
    wildcard, persons = draft.values.get("nulls") == "wildcard", "person_id" in draft.values
    if "wildcard" in draft.values and not wildcard:
        # Without wildcard matching the text means nothing.
        report.wrong(("wildcard",), "has a meaning only with `nulls: wildcard`")
    if wildcard and persons:
        report.unsupported(("person_id",), "matching by `nulls: wildcard` counts records; leave one of the two out")
    for read, entry in draft.judging():
        if wildcard and (refused := refused_under_wildcard(entry)):
            report.wrong(read.place, refused)
        elif persons and (refused := refused_in_persons(entry)):
            report.unsupported(read.place, refused)


def check_stages_under_counting(draft: Draft, report: Report) -> None:
    """Stages that suppress or search count records in classes of their own table."""
    wildcard, persons = draft.values.get("nulls") == "wildcard", "person_id" in draft.values
    compared = [read.name for read, entry in draft.judging() if entry.needs_population]
    guarded = [read.name for read in draft.guarantees if getattr(read.entry, "needs_population", False)]
    for read, stage in draft.stages():
        if compared and _touches_raw_population(draft, stage):
            report.unsupported(
                read.place,
                f"changes quasi-identifiers in a way that a population cannot follow, and {compared[0]} compares with "
                "one: give a population that is `generalized: true`",
            )
        if not _suppresses(stage):
            continue
        if wildcard:
            report.unsupported(read.place, f"counts classes, and under `nulls: wildcard` there are none; {INSTEAD}")
        elif guarded:
            report.unsupported(read.place, f"does not count the population of {guarded[0]} yet; {INSTEAD}")
        elif persons and (stage.searches or _over_all_classes(draft)):
            report.unsupported(
                read.place,
                "counts records and not persons when it searches, when guarantees judge several sets of "
                "quasi-identifiers, or the table as a whole; use suppress_records with rules on each class, or "
                f"{INSTEAD}",
            )


def _suppresses(stage: Transformer) -> bool:
    if isinstance(stage, Generalize):
        return stage.limit is not None
    return stage.suppresses


def _over_all_classes(draft: Draft) -> bool:
    """Whether suppression must look at more than one class at a time."""
    entries = [entry for read, entry in draft.judging() if read in list(draft.guarantees) and entry.reads == "classes"]
    keys = {entry.quasi_identifiers for entry in entries}
    return len(keys) > 1 or any(isinstance(entry, SizeModel) for entry in entries)


def _touches_raw_population(draft: Draft, stage: Transformer) -> bool:
    population = draft.values.get("population")
    if not isinstance(population, SourceSpec) or population.generalized or stage.name() in ("generalize", *KEEPS_KEYS):
        return False
    columns = getattr(stage, "columns", None)
    flat = {str(name) for group in columns or () for name in (group if isinstance(group, list | tuple) else [group])}
    return not flat or bool(flat & set(draft.with_role("quasi_identifier")))

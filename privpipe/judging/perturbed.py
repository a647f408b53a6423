"""Warnings for figures that rest on combinations of values which a stage has perturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.judging.grouping import keys_of
from privpipe.judging.rules import JudgingRules
from privpipe.roles import Roles

__all__ = ["perturbation_notes", "stage_columns"]


def stage_columns(parameters: Mapping[str, Any]) -> list[str]:
    """The columns a stage names, also in several lists; none where it leaves them out or says `all`.

    Examples
    --------
    >>> stage_columns({"columns": [["age"], ["income", "hours"]]}), stage_columns({"columns": "all"})
    (['age', 'income', 'hours'], [])
    """
    found = parameters.get("columns") or ()
    if isinstance(found, str):
        return [] if found == "all" else [found]
    return [name for item in found for name in ([item] if isinstance(item, str) else item)]


def perturbation_notes(entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> list[str]:
    """A note for each entry over quasi-identifiers that a perturbing or synthesizing stage of the release changed."""
    asking = [entry for entry in entries if entry.trusts_values]
    if not asking or not rules.stages:
        return []
    from privpipe.transforms import CATALOGUE

    changed: dict[str, str] = {}
    for stage in rules.stages:
        name = str(stage["name"])
        if name in CATALOGUE and getattr(CATALOGUE[name], "taxon", None) in ("perturbative", "synthetic"):
            changed |= dict.fromkeys(stage_columns(stage.get("parameters", {})) or roles.columns, name)
    notes = []
    for entry in asking:
        touched = [column for column in keys_of(entry, roles) if column in changed]
        if touched:
            named = ", ".join(map(repr, touched))
            stages = ", ".join(dict.fromkeys(changed[column] for column in touched))
            notes.append(
                f"{entry.name()} trusts the values of {named}, which {stages} changed: a unique combination need "
                "not be a person's; judge such a release by record_linkage"
            )
    return list(dict.fromkeys(notes))

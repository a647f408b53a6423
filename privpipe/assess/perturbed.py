"""What to say where a figure trusts combinations of values that a stage made up."""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.assess.grouping import keys_of
from privpipe.assess.rules import JudgingRules
from privpipe.blocks import Guarantee
from privpipe.roles import Roles

__all__ = ["perturbation_notes"]


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
            columns = stage.get("parameters", {}).get("columns") or roles.columns
            changed |= dict.fromkeys([columns] if isinstance(columns, str) else columns, name)
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

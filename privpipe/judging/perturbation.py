"""Warnings for figures that rest on combinations of values which a stage has perturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.blocks.parameters import flat_names, marked
from privpipe.judging.entry_groups import keys_of
from privpipe.judging.rules import JudgingRules
from privpipe.roles import Roles

__all__ = ["perturbation_notes", "stage_columns", "stage_names"]


def stage_columns(stage: Mapping[str, Any]) -> list[str]:
    """The columns a stage of a plan names, also in several lists; none where it leaves them out or says `all`.

    Examples
    --------
    >>> stage_columns({"name": "microaggregate", "parameters": {"columns": [["age"], ["income", "hours"]]}})
    ['age', 'income', 'hours']
    >>> stage_columns({"name": "synthesize", "parameters": {"columns": "all"}})
    []
    """
    return stage_names(stage, Columns)


def stage_names(stage: Mapping[str, Any], mark: type[ColumnNames]) -> list[str]:
    """The columns in the parameters of a stage of a plan that carry a mark; none of a stage that is unknown."""
    from privpipe.transforms import CATALOGUE

    name, parameters = str(stage["name"]), stage.get("parameters", {})
    fields = marked(CATALOGUE[name], mark) if name in CATALOGUE else ()
    named = [parameters.get(field) for field in fields]
    return list(flat_names([each for each in named if each not in (None, "all")]))


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
            changed |= dict.fromkeys(stage_columns(stage) or roles.columns, name)
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

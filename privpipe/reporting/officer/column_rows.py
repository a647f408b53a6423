"""Column by column: whether it is released, in which role, what was done to it, and what it lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privpipe.blocks.marks import Columns, Levels
from privpipe.blocks.public_rules import PublicRules
from privpipe.judging.perturbed import stage_names
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["ColumnRow", "column_rows"]


@dataclass(frozen=True, kw_only=True)
class ColumnRow:
    """One column of the source, or one that a stage made.

    Parameters
    ----------
    name, role : str
    released : bool
    done : tuple of (str, int or None)
        Stages that touched it, in order, with the level where they set one.
    labels_before, labels_after : int or None
    changed, blanked, loss : float or None
    few : tuple of str
        Which of these shares rest on too few records to be shown.
    measured_by, alarm : str
    reason : str
        What the policy says of its role; never public.
    """

    name: str
    role: str
    released: bool
    done: tuple[tuple[str, int | None], ...] = ()
    labels_before: int | None = None
    labels_after: int | None = None
    changed: float | None = None
    blanked: float | None = None
    loss: float | None = None
    few: tuple[str, ...] = ()
    measured_by: str = ""
    alarm: str = ""
    reason: str = ""


def column_rows(run: RunDocuments, least: int) -> tuple[ColumnRow, ...]:
    """Released columns in their order, then the others; of a verdict alone none.

    Parameters
    ----------
    run : RunDocuments
    least : int
        Records that a share must rest on.
    """
    declared = run.policy.get("columns", {})
    roles = {
        str(name): str(each.get("role", "insensitive")) if isinstance(each, Mapping) else "insensitive"
        for name, each in (declared.items() if isinstance(declared, Mapping) else ())
    }
    released = list(run.manifest.get("output", {}).get("columns", run.report.get("columns", [])))
    table = run.verdict.get("column_loss") or {}
    lost = {str(each["column"]): each for each in table.get("columns") or ()}
    roles |= {name: str(each["role"]) for name, each in lost.items() if name not in roles}
    names = list(dict.fromkeys((*released, *roles)))
    keys = [name for name, role in roles.items() if role == "quasi_identifier"]
    rules = PublicRules(columns=frozenset(), least=least)
    reasons = run.report.get("reasons") or {} if run.edition != "public" else {}
    found = []
    for name in names:
        own, records = lost.get(name, {}), int(table.get("records") or 0)
        shares = {each: own.get(each) for each in ("changed", "blanked")}
        shown = {each: rules.reported(value, records) for each, value in shares.items()}
        found.append(
            ColumnRow(
                name=name,
                role=roles.get(name, "insensitive"),
                released=name in released,
                done=_done(name, run.stages, keys) if name in released else (),
                labels_before=own.get("labels_before"),
                labels_after=own.get("labels_after"),
                **shown,
                loss=own.get("loss"),
                few=tuple(each for each, value in shares.items() if value != shown[each]),
                measured_by=str(own.get("measured_by") or ""),
                alarm=str(own.get("alarm") or ""),
                reason=" ".join(str(reasons.get(name, "")).split()),
            )
        )
    return tuple(found)


BY_RECORD = ("drop_identifiers", "sample", "suppress_records")


def _done(column: str, stages: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> tuple[tuple[str, int | None], ...]:
    """The stages that touched a column; a level of 0 touched nothing."""
    found: list[tuple[str, int | None]] = []
    for stage in stages:
        name, levels = str(stage["name"]), stage.get("detail", {}).get("levels")
        if name in BY_RECORD:
            continue
        if isinstance(levels, Mapping):
            if levels.get(column):
                found.append((name, int(levels[column])))
            continue
        named = stage_names(stage, Columns) or stage_names(stage, Levels)
        every = stage.get("parameters", {}).get("columns") == "all" or name == "synthesize"
        if every or column in (named or keys):
            found.append((name, None))
    return tuple(found)

"""What a search looked at: the vector it chose, its neighbours, and the front of loss and risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privpipe.reporting.entry_rows import leading_figure

__all__ = ["other_searches", "solution_space"]

MOST_SHOWN = 25
GROUPING = ("microaggregate", "fuzzy_microaggregate")


def solution_space(stages: Sequence[Mapping[str, Any]], least: int) -> dict[str, Any] | None:
    """The search of the last stage that searched; None where none did, or its plan does not say.

    Parameters
    ----------
    stages : sequence of mapping
        Of a private plan.
    least : int
        Suppressed records below it are not shown.
    """
    searched = [stage for stage in stages if stage.get("detail", {}).get("nodes_checked") is not None]
    if not searched:
        return None
    stage = searched[-1]
    detail = stage["detail"]
    levels = detail.get("levels")
    if not isinstance(levels, Mapping):
        return None
    chosen = _chosen(detail, levels)
    seen = {_key(levels): {**chosen, "role": "chosen"}}
    for role in ("neighbours", "runners_up", "front"):
        for each in detail.get(role) or ():
            if isinstance(each.get("levels"), Mapping):
                near = _is_neighbour(levels, each["levels"])
                seen.setdefault(_key(each["levels"]), {**each, "role": "neighbour" if near else "other"})
    points = [_point(each, least) for each in seen.values()]
    order = {"chosen": 0, "neighbour": 1, "other": 2}
    points.sort(key=lambda point: (order[point["role"]], point["loss"] is None, point["loss"] or 0.0))
    return {
        "stage": stage["name"],
        "search": detail.get("search"),
        "nodes": detail.get("nodes"),
        "checked": detail.get("nodes_checked"),
        "optimal": detail.get("optimal"),
        "bound": leading_figure(detail.get("lower_bound")),
        "columns": list(levels),
        "points": points[:MOST_SHOWN],
        "left_out": max(0, len(points) - MOST_SHOWN),
    }


def other_searches(stages: Sequence[Mapping[str, Any]], least: int) -> tuple[dict[str, Any], ...]:
    """What stages that tried no vectors of levels say of their search, with the figures that a sentence of it needs.

    Parameters
    ----------
    stages : sequence of mapping
        Of a private plan.
    least : int
        Counts of cells below it are not shown.

    Examples
    --------
    >>> detail = {"nodes_checked": 30, "loss": 0.2, "records": 90}
    >>> [each["kind"] for each in other_searches([{"name": "local_recoding", "detail": detail}], 5)]
    ['checked']
    """
    found = []
    for stage in stages:
        detail, name = stage.get("detail", {}), str(stage["name"])
        kind = _kind_of(name, detail)
        if kind:
            blanked = detail.get("blanked_cells")
            few = isinstance(blanked, int) and 0 < blanked < least
            found.append(
                {
                    "stage": name,
                    "kind": kind,
                    "checked": detail.get("nodes_checked"),
                    "programs": detail.get("programs_solved"),
                    "classes": detail.get("classes"),
                    # The loss of blanked cells is their number, or reveals it.
                    "loss": None if few else leading_figure(detail.get("loss")),
                    "bound": None if few else leading_figure(detail.get("lower_bound")),
                    "optimal": bool(detail.get("optimal")),
                    "above": None if few else leading_figure(detail.get("above_bound")),
                    "blanked": None if few else blanked,
                    "few": few,
                }
            )
    return tuple(found)


def _kind_of(name: str, detail: Mapping[str, Any]) -> str:
    """How a stage searched; nothing where it did not, or where it tried vectors of levels."""
    if isinstance(detail.get("levels"), Mapping):
        return ""
    if "programs_solved" in detail:
        return "programs" if detail["programs_solved"] else "greedy"
    if detail.get("nodes_checked") is not None:
        return "checked"
    if "cuts" in detail:
        return "cuts"
    if name in GROUPING:
        return "grouped" if detail.get("above_bound") is None else "bounded"
    return ""


def _chosen(detail: Mapping[str, Any], levels: Mapping[str, int]) -> dict[str, Any]:
    """The vector that was taken, from the front where it is there."""
    for each in (*(detail.get("front") or ()), *(detail.get("runners_up") or ())):
        if each.get("levels") == levels:
            return dict(each)
    kept = int(detail.get("records") or 0) - int(detail.get("suppressed_records") or 0)
    average = detail["classes"] / kept if detail.get("classes") and kept > 0 else None
    return {
        "levels": dict(levels),
        "loss": detail.get("loss"),
        "suppressed_records": detail.get("suppressed_records"),
        "classes": detail.get("classes"),
        "average_risk": average,
    }


def _key(levels: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(levels.items()))


def _is_neighbour(levels: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return sum(abs(level - other.get(name, level)) for name, level in levels.items()) == 1


def _point(each: Mapping[str, Any], least: int) -> dict[str, Any]:
    suppressed = each.get("suppressed_records")
    few = suppressed is not None and 0 < suppressed < least
    return {
        "role": each["role"],
        "levels": dict(each["levels"]),
        "loss": leading_figure(each.get("loss")),
        "risk": each.get("average_risk"),
        "highest": each.get("highest_risk"),
        "suppressed": None if few else suppressed,
        "few": few,
        "meets": each.get("meets", True),
    }

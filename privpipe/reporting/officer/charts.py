"""Charts of a report, and the space of solutions that one of them shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from privpipe.reporting.entry_rows import leading_figure

__all__ = ["Mark", "bar", "columns_chart", "other_searches", "scatter", "solution_space"]


WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 12, 62
TICKS = 5


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of a scatter plot.

    Parameters
    ----------
    x, y : float
    kind : str
        ``chosen``, ``near`` or ``other``: its shape.
    title : str
    """

    x: float
    y: float
    kind: str
    title: str = field(repr=False)


def bar(share: float, kind: str) -> Markup:
    """A bar within a cell of a table, next to the number that it draws; hidden from screen readers.

    Examples
    --------
    >>> str(bar(0.5, "after"))[:63]
    '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none"'
    """
    width = min(100.0, max(0.0, 100 * share))
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="{}" x="0" y="0" width="{:.1f}" height="8"/></svg>'
    ).format(kind, width)


def columns_chart(
    title: str, axes: tuple[str, str], labels: Sequence[str], series: Sequence[tuple[str, str, Sequence[float]]]
) -> Markup:
    """Upright bars side by side.

    Parameters
    ----------
    title : str
    axes : (str, str)
        The labels along x and y.
    labels : sequence of str
        Of each group of bars.
    series : sequence of (name, kind, shares)
        The share of each group, between 0 and 1.
    """
    top = _top(max((value for _, _, shares in series for value in shares), default=0.0))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    group = plot_width / max(1, len(labels))
    thick = min(28.0, group * 0.8 / max(1, len(series)))
    parts = [_grid(top, percent=True)]
    for at, label in enumerate(labels):
        middle = LEFT + group * (at + 0.5)
        for place, (_, kind, shares) in enumerate(series):
            height = plot_height * shares[at] / top
            x = middle + thick * (place - len(series) / 2)
            parts.append(_rect(kind, x, TOP + plot_height - height, thick, height))
        parts.append(_text(label, middle, HEIGHT - BOTTOM + 16, "middle"))
    parts.append(_axis_titles(axes))
    for place, (name, kind, _) in enumerate(series):
        x = LEFT + 10 + 150 * place
        parts.append(_rect(kind, x, HEIGHT - 16, 12, 12) + _text(name, x + 18, HEIGHT - 6, "start"))
    told = "; ".join(
        f"{name}: " + ", ".join(f"{label} {100 * share:.0f} %" for label, share in zip(labels, shares, strict=True))
        for name, _, shares in series
    )
    return _svg(title, told, parts)


def scatter(title: str, axes: tuple[str, str], marks: Sequence[Mark], legend: Sequence[tuple[str, str]]) -> Markup:
    """Points by two figures, the smaller the better; shapes show what they are.

    Parameters
    ----------
    title : str
    axes : (str, str)
    marks : sequence of Mark
    legend : sequence of (kind, name)
    """
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    low, high = _range([mark.x for mark in marks])
    bottom, top = _range([mark.y for mark in marks])
    parts = [_grid(top, low=bottom, percent=False), _ticks_x(low, high)]
    for mark in sorted(marks, key=lambda each: each.kind == "chosen"):
        x = LEFT + plot_width * (mark.x - low) / (high - low)
        y = TOP + plot_height * (1 - (mark.y - bottom) / (top - bottom))
        parts.append(_shape(mark.kind, x, y, mark.title))
    parts.append(_axis_titles(axes))
    for place, (kind, name) in enumerate(legend):
        x = LEFT + 14 + 170 * place
        parts.append(_shape(kind, x, HEIGHT - 10, "") + _text(name, x + 14, HEIGHT - 6, "start"))
    return _svg(title, "; ".join(mark.title for mark in marks), parts)


def _svg(title: str, told: str, parts: Sequence[Markup]) -> Markup:
    """One image with a title and a description that shows what it draws."""
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{title}. {told}" focusable="false">'
        "<title>{title}</title><desc>{told}</desc>{body}</svg>"
    ).format(w=WIDTH, h=HEIGHT, title=title, told=told, body=Markup("").join(parts))


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        kind, x, y, width, height
    )


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _shape(kind: str, x: float, y: float, title: str) -> Markup:
    """A diamond for what was chosen, a ring for what is near it, a dot for the rest."""
    inner = Markup("<title>{}</title>").format(title) if title else Markup("")
    if kind == "chosen":
        points = f"{x:.1f},{y - 8:.1f} {x + 8:.1f},{y:.1f} {x:.1f},{y + 8:.1f} {x - 8:.1f},{y:.1f}"
        return Markup('<polygon class="chosen" points="{}">{}</polygon>').format(points, inner)
    radius = 5 if kind == "near" else 3
    return Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}">{}</circle>').format(kind, x, y, radius, inner)


def _grid(top: float, *, percent: bool, low: float = 0.0) -> Markup:
    plot_height = HEIGHT - TOP - BOTTOM
    parts = []
    for at in range(TICKS + 1):
        y = TOP + plot_height * (1 - at / TICKS)
        value = low + (top - low) * at / TICKS
        text = f"{100 * value:.3g} %" if percent else f"{value:.3g}"
        parts.append(
            Markup('<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>').format(LEFT, y, WIDTH - RIGHT, y)
            + _text(text, LEFT - 6, y + 4, "end")
        )
    return Markup("").join(parts)


def _ticks_x(low: float, high: float) -> Markup:
    plot_width = WIDTH - LEFT - RIGHT
    return Markup("").join(
        _text(f"{low + (high - low) * at / TICKS:.3g}", LEFT + plot_width * at / TICKS, HEIGHT - BOTTOM + 16, "middle")
        for at in range(TICKS + 1)
    )


def _axis_titles(axes: tuple[str, str]) -> Markup:
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    return _text(axes[0], LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - BOTTOM + 34, "middle") + Markup(
        '<text x="12" y="{y:.1f}" text-anchor="middle" transform="rotate(-90 12 {y:.1f})">{text}</text>'
    ).format(y=middle, text=escape(axes[1]))


def _top(largest: float) -> float:
    """The next tenth above the largest share."""
    return max(0.1, math.ceil(largest * 10 - 1e-9) / 10)


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return max(0.0, low - room) if low >= 0 else low - room, high + room


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

"""Charts as SVG: drawn by numbers alone, the same on every machine, and distinguishable by shape and by colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

__all__ = ["Mark", "bar", "columns_chart", "scatter"]

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
    """One image with a title and a description that says what it draws."""
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

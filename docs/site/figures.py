"""Figures of the site, as SVG text that is in the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

__all__ = ["bars", "slopes"]

WIDTH, HEIGHT, EDGE = 420, 230, 64
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")


def slopes(column: str, before: Sequence[float], after: Sequence[float]) -> str:
    """A line a record, from its value before the stage to the one behind it."""
    low, high = min(*before, *after), max(*before, *after)

    def height(value: float) -> float:
        return HEIGHT - 30 - (HEIGHT - 60) * ((value - low) / (high - low) if high > low else 0.5)

    parts = [_text(EDGE, 16, "before", "middle"), _text(WIDTH - EDGE, 16, "after", "middle")]
    for at, (one, other) in enumerate(zip(before, after, strict=True)):
        colour = COLOURS[at % len(COLOURS)]
        first, last = height(one), height(other)
        parts.append(
            f'<line x1="{EDGE}" y1="{first:.1f}" x2="{WIDTH - EDGE}" y2="{last:.1f}" stroke="{colour}" '
            f'stroke-width="2"/><circle cx="{EDGE}" cy="{first:.1f}" r="3" fill="{colour}"/>'
            f'<circle cx="{WIDTH - EDGE}" cy="{last:.1f}" r="3" fill="{colour}"/>'
        )
        parts += [_text(EDGE - 8, first + 4, f"{one:g}", "end"), _text(WIDTH - EDGE + 8, last + 4, f"{other:.4g}")]
    return _svg(f"{column} of each record, before and after the stage", parts, HEIGHT)


def bars(classes: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """A bar a class, divided by the values of the sensitive column."""
    values = sorted({value for _, counts in classes for value in counts})
    parts = list(_legend(values))
    for at, (label, counts) in enumerate(classes):
        top, left = 40 + at * 44, 150.0
        parts.append(_text(142, top + 18, label, "end"))
        for value in values:
            wide = counts.get(value, 0) * 60.0
            colour = COLOURS[values.index(value) % len(COLOURS)]
            if wide:
                parts.append(f'<rect x="{left}" y="{top}" width="{wide}" height="26" fill="{colour}"/>')
                parts.append(_text(left + wide / 2, top + 18, str(counts[value]), "middle", "white"))
            left += wide
    return _svg("records of each class by illness", parts, 48 + 44 * len(classes))


def _legend(values: Sequence[str]) -> Iterator[str]:
    for at, value in enumerate(values):
        yield f'<rect x="{150 + at * 80}" y="10" width="12" height="12" fill="{COLOURS[at % len(COLOURS)]}"/>'
        yield _text(168 + at * 80, 20, value)


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "currentColor") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _svg(title: str, parts: Sequence[str], height: int) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'font-size="11" font-family="sans-serif">{"".join(parts)}</svg>'
    )

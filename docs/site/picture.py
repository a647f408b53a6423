"""The picture of the README and the site's front page: a table before and after, with both verdicts, as SVG.

``python docs/site/picture.py docs/release.svg`` writes it; a test makes it again and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import pandas as pd

import privpipe as pp

__all__ = ["picture"]

VISITS = pd.DataFrame(
    {
        "age": [31, 33, 34, 38, 52, 55, 57, 58],
        "zip": ["08001", "08002", "08003", "08004", "17001", "17002", "17003", "17004"],
        "illness": ["flu", "cold", "gout", "flu", "cold", "flu", "gout", "cold"],
    }
)
ROLES = {"age": "quasi_identifier", "zip": "quasi_identifier", "illness": "sensitive"}
GUARANTEES = [{"k_anonymity": {"k": 4}}, {"l_diversity": {"column": "illness", "l": 3}}]
LABELS = {"age": {"intervals": {"start": 30, "widths": [10, 30]}}, "zip": {"redact": {"keep": "left"}}}
WIDTH, HEIGHT, ROW, TABLE, TOP = 760, 352, 25, 250, 62
INK, SOFT, LINE, RED, GREEN = "#1f2933", "#52606d", "#cbd2d9", "#b42318", "#1a7f4b"
BANDS = ("#eef4fb", "#fdf3e7")


def picture() -> str:
    """The example of the README, run, and drawn."""
    policy = pp.Policy(
        roles=ROLES, hierarchies=LABELS, transform=[pp.Generalize(search="optimal")], guarantees=GUARANTEES
    )
    released = policy.apply(VISITS)
    released = released.sort_values(list(released))
    right = WIDTH - 24 - TABLE
    parts = [
        *_table("The source", VISITS, 24),
        *_verdict(VISITS, 24, "refused"),
        *_arrow(24 + TABLE, right),
        *_table("The release", released, right),
        *_verdict(released, right, "published"),
    ]
    about = "Eight visits: the source is refused; with age and zip generalized to classes of four it is published"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{about}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" '
        f'font-size="14">\n<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _table(title: str, frame: pd.DataFrame, left: int) -> Iterator[str]:
    yield _text(left, 30, title, weight="600", size=16)
    wide = TABLE / len(frame.columns)
    for at, name in enumerate(frame.columns):
        yield _text(left + 10 + at * wide, TOP - 8, str(name), colour=SOFT, weight="600")
    classes = list(dict.fromkeys(map(tuple, frame[["age", "zip"]].to_numpy().tolist())))
    for at, row in enumerate(frame.to_numpy().tolist()):
        top = TOP + at * ROW
        band = classes.index(tuple(row[:2])) % 2 if len(classes) < len(frame) else None
        fill = "#ffffff" if band is None else BANDS[band]
        yield f'<rect x="{left}" y="{top}" width="{TABLE}" height="{ROW}" fill="{fill}" stroke="{LINE}"/>'
        for place, value in enumerate(row):
            yield _text(left + 10 + place * wide, top + 17, str(value), family="ui-monospace, Menlo, monospace")


def _verdict(frame: pd.DataFrame, left: int, outcome: str) -> Iterator[str]:
    found = pp.assess(frame, GUARANTEES, roles=ROLES)
    if found.passed != (outcome == "published"):
        raise SystemExit(f"the picture says {outcome} and the gate does not")
    colour = GREEN if found.passed else RED
    top = TOP + len(VISITS) * ROW + 14
    yield f'<rect x="{left}" y="{top}" width="{TABLE}" height="62" rx="6" fill="{colour}"/>'
    yield _text(left + 12, top + 20, outcome.upper(), colour="#ffffff", weight="700")
    for at, (what, verdict) in enumerate(zip(("records", "illnesses"), found.verdicts, strict=True)):
        said = f"{what} per class: {verdict.observed}, required: {verdict.threshold}"
        yield _text(left + 12, top + 38 + at * 17, said, colour="#ffffff", size=13)


def _arrow(left: int, right: int) -> Iterator[str]:
    middle, y = (left + right) / 2, TOP + 4 * ROW
    yield _text(middle, y - 34, "transform", anchor="middle", colour=SOFT)
    yield _text(middle, y - 16, "judge what is written", anchor="middle", colour=SOFT)
    yield f'<line x1="{left + 18}" y1="{y}" x2="{right - 26}" y2="{y}" stroke="{INK}" stroke-width="2"/>'
    yield f'<path d="M {right - 28} {y - 6} L {right - 14} {y} L {right - 28} {y + 6} z" fill="{INK}"/>'
    yield _text(middle, y + 26, "publish, or refuse", anchor="middle", colour=SOFT)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = INK,
    weight: str = "400",
    size: int = 14,
    family: str = "",
) -> str:
    face = f' font-family="{family}"' if family else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}" '
        f'font-size="{size}"{face}>{escape(text)}</text>'
    )


def _write(places: Sequence[str]) -> None:
    for place in places:
        Path(place).write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    _write(sys.argv[1:])

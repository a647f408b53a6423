"""How CPU seconds and memory of a whole release on the embedded engine grow: with rows, columns, combinations.

Each point is a process of its own. CPU seconds hardly depend on what else the machine does. Points are kept next to
earlier ones of the same ladder and machine. Exponents are those between neighbours, and that of a line through all
points. `--draw` makes the figure of `docs/scale.md` of all that are kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench_release import RELEASE, measured, policy_text, release_table
from recording import record

KEPT = Path(__file__).with_name("growth.json")
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "growth.svg"
LADDERS: dict[str, tuple[int, ...]] = {
    "rows, few classes": (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000),
    "rows, half as many classes": (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000),
    "columns, 300,000 rows": (9, 30, 100, 300),
    "classes, 3M rows": (45_000, 180_000, 720_000, 1_440_000),
}
MEASURES = {"cpu": "CPU seconds", "peak": "GiB"}
OWN_COLUMNS = 9
CLASSES_A_ZIP = 900
"""Of the shape *few*: 15 ages, 2 sexes, 3 educations, 5 countries and 2 marital states."""
WIDTH, HEIGHT, EDGE, GAP = 340, 190, 44, 48
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")


def point(ladder: str, at: int, folder: Path, memory_limit: str) -> dict[str, float]:
    """What one release takes."""
    shape, rows, zips, more = ("half" if "half" in ladder else "few"), at, 0, 0
    if ladder.startswith("columns"):
        rows, more = 300_000, at - OWN_COLUMNS
    elif ladder.startswith("classes"):
        rows, zips = 3_000_000, at // CLASSES_A_ZIP
    source = release_table(folder, rows, shape, zips=zips, more=more)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        policy = Path(scratch) / "policy.json"
        text = json.loads(policy_text(source, Path(scratch) / "released", shape, memory_limit, 2, more))
        if zips or more or rows < 1_000_000:  # where classes are small, they may all be removed
            text["transform"][0]["generalize"]["suppress_at_most"] = 1.0
        policy.write_text(json.dumps(text))
        found = measured([sys.executable, "-c", RELEASE, str(policy)], quiet=True)
    if found["code"]:
        raise SystemExit(f"{ladder}, {at:,}: the release ended with exit code {found['code']}")
    return {name: round(found[name], 2) for name in MEASURES}


def exponents(points: Sequence[tuple[int, float]]) -> list[float]:
    """The growth between each point and the next: 1 is proportional.

    >>> exponents([(1, 2.0), (10, 20.0), (100, 20.0)])
    [1.0, 0.0]
    """
    pairs = itertools.pairwise(points)
    return [round(math.log(high / low) / math.log(b / a), 2) for (a, low), (b, high) in pairs]


def fitted(points: Sequence[tuple[int, float]]) -> float:
    """The growth along all points: the slope of least squares between logarithms.

    >>> fitted([(1, 2.0), (10, 20.0), (100, 200.0)])
    1.0
    """
    slope, _ = statistics.linear_regression(*zip(*((math.log(x), math.log(y)) for x, y in points), strict=True))
    return round(slope, 2)


def drawn(kept: dict[str, dict[str, dict[str, float]]]) -> str:
    """A panel a measure, both axes logarithmic, each ladder scaled to its first point."""
    parts: list[str] = []
    for column, (measure, unit) in enumerate(MEASURES.items()):
        left = EDGE + column * (WIDTH + GAP)
        parts += _panel(left, unit, {name: _points(points, measure) for name, points in kept.items()})
    for at, name in enumerate(kept):
        top = HEIGHT + 72 + 16 * at
        parts.append(f'<rect x="{EDGE}" y="{top - 9}" width="10" height="10" fill="{COLOURS[at]}"/>')
        parts.append(_text(EDGE + 16, top, name))
    wide, high = EDGE + 2 * WIDTH + GAP + 10, HEIGHT + 76 + 16 * len(kept)
    title = "growth of a release, as multiples of the first point of each ladder; the dashed line is proportional"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" font-size="11" font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
        f"{chr(10).join(parts)}</svg>\n"
    )


def _points(points: dict[str, dict[str, float]], measure: str) -> list[tuple[int, float]]:
    return sorted((int(at), each[measure]) for at, each in points.items())


def _panel(left: int, unit: str, ladders: dict[str, list[tuple[int, float]]]) -> Iterator[str]:
    def place(x: float, y: float) -> str:
        return f"{left + WIDTH * math.log10(x) / 2:.1f},{24 + HEIGHT * (1 - math.log10(y) / 2):.1f}"

    yield _text(left, 14, f"{unit}, times the first")
    yield f'<rect x="{left}" y="24" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    first, last = place(1, 1), place(100, 100)
    yield f'<polyline points="{first} {last}" fill="none" stroke="#999" stroke-dasharray="4"/>'
    for at, times in enumerate((1, 10, 100)):
        yield _text(left + WIDTH * at / 2, HEIGHT + 40, f"{times}x", "middle")
        yield _text(left - 4, 28 + HEIGHT * (1 - at / 2), f"{times}x", "end")
    for at, points in enumerate(ladders.values()):
        (x, y), *_ = points
        line = " ".join(place(n / x, max(1.0, value / y)) for n, value in points)
        yield f'<polyline points="{line}" fill="none" stroke="{COLOURS[at]}" stroke-width="2"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ladder", nargs="*", choices=LADDERS, default=list(LADDERS))
    parser.add_argument("--least", type=int, default=0, help="the smallest point that is measured")
    parser.add_argument("--to", type=int, default=10**9, help="the largest point that is measured")
    parser.add_argument("--memory-limit", default="4GB")
    parser.add_argument("--draw", action="store_true", help=f"write {FIGURE.name} of all kept points")
    parser.add_argument("--keep", action="store_true", help=f"add the points to {KEPT.name}")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for ladder in given.ladder:
        for at in (each for each in LADDERS[ladder] if given.least <= each <= given.to):
            found = point(ladder, at, given.folder, given.memory_limit)
            kept.setdefault(ladder, {})[str(at)] = found
            print(
                f"{ladder}: {at:,}: " + ", ".join(f"{found[n]:.2f} {unit}" for n, unit in MEASURES.items()), flush=True
            )
            if given.keep:
                KEPT.write_text(json.dumps(kept, indent=1) + os.linesep)
    for ladder, points in kept.items():
        if len(points) > 1:
            told = {unit: exponents(_points(points, measure)) for measure, unit in MEASURES.items()}
            whole = {unit: fitted(_points(points, measure)) for measure, unit in MEASURES.items()}
            print(f"{ladder}: exponents {told}, along all points {whole}")
    for ladder in given.ladder:
        points = _points(kept.get(ladder, {}), "cpu")
        if len(points) < 2:
            continue
        (first, low), (last, high) = points[0], points[-1]
        beside = f"as much growth as from {first:,} to {last:,}"
        record(f"CPU seconds of a release, {ladder}", took=high, baseline=low * last / first, beside=beside)
    if given.draw:
        FIGURE.write_text(drawn(kept))


if __name__ == "__main__":
    main()

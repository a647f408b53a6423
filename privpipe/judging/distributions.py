"""The values of each released column before and after, as counts of which none rests on few records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UnsupportedError
from privpipe.judging.masked_cells import joined_bins, pooled_cells
from privpipe.judging.paired_columns import ColumnValues

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.paired_sample import PairedSample

__all__ = ["distributions"]

MOST_LABELS = 12
MOST_BINS = 10
TAILS = (0.05, 0.95)
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
WHOLE_STEPS = (1.0, 2.0, 5.0, 10.0)
DATES = ("date", "timestamp")
WHOLE = ("integer", *DATES)
MISSING, SUPPRESSED, OTHERS = "missing", "suppressed", "others"
"""Kinds of lines that are no label of the data."""


def distributions(sample: PairedSample, mark: str, least: int, *, compared: bool = True) -> dict[str, dict[str, Any]]:
    """Of each released column its lines, as plain JSON; every count is 0 or at least `least`.

    Numbers of many values are counted in round intervals, open at both ends, and dates by year; of other columns the
    commonest labels are shown. Whatever rests on few records is joined with its neighbours, or with the other labels.

    Parameters
    ----------
    sample : PairedSample
    mark : str
        The suppression mark.
    least : int
        Records that a line must rest on to be shown.
    compared : bool
        Whether the source may be counted.
    """
    found = {}
    for name in sample.released.schema.names:
        after = sample.values("released", name, mark)
        before = None
        if compared and name in sample.original.schema.names:
            before = sample.values("original", name, mark)
        with suppress(UnsupportedError):  # bytes have no labels
            found[name] = _of_column([before, after] if before is not None else [after], least)
    return found


def _of_column(sides: Sequence[ColumnValues], least: int) -> dict[str, Any]:
    """The lines of one column; of two tables where both are given."""
    numeric = [each for each in sides if each.ordered]
    many = any(each.labels > MOST_LABELS for each in numeric)
    if many and len(numeric) == len(sides):
        return _shown(sides, _binned(sides, least), "intervals")
    if many:  # numbers became labels: each side has lines of its own
        parts = [_of_column([each], least)["lines"] for each in sides]
        lines = [{**line, "counts": [*line["counts"], 0]} for line in parts[0]]
        lines += [{**line, "counts": [0, *line["counts"]]} for line in parts[1]]
        return _shown(sides, _merged(lines), "own")
    return _shown(sides, _labelled(sides, least), "labels")


def _merged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of both sides that are called alike become one."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        key = (line["kind"], line["label"])
        if key in found:
            counts = [a + b for a, b in zip(found[key]["counts"], line["counts"], strict=True)]
            line = {**found[key], "counts": counts, "labels": max(found[key]["labels"], line["labels"])}
        found[key] = line
    return list(found.values())


def _shown(sides: Sequence[ColumnValues], lines: list[dict[str, Any]], form: str) -> dict[str, Any]:
    years = form == "intervals" and sides[0].kind in DATES
    return {"form": "years" if years else form, "lines": lines}


def _labelled(sides: Sequence[ColumnValues], least: int) -> list[dict[str, Any]]:
    """A line for each of the commonest labels, and one for the others."""
    counted = [_by_label(each) for each in sides]
    keys = list(dict.fromkeys(key for each in counted for key in each))
    counts = [tuple(each.get(key, 0) for each in counted) for key in keys]
    shown, others = pooled_cells(counts, least, MOST_LABELS)
    if sides[-1].ordered:
        shown.sort()
    lines = [_line(*keys[at], list(counts[at])) for at in shown]
    if others is not None:
        lines.append(_line(OTHERS, "", list(others.counts), labels=len(others.labels)))
    return lines


def _line(kind: str, label: str, counts: list[int], labels: int = 1) -> dict[str, Any]:
    return {"kind": kind, "label": label, "counts": counts, "labels": labels}


def _by_label(side: ColumnValues) -> dict[tuple[str, str], int]:
    """Records of each kind and label, in the order of values."""
    counts = side.counts.tolist()
    valid = side.values.is_valid().to_pylist()
    found: dict[tuple[str, str], int] = {}
    for text, there, count in zip(side.texts, valid, counts, strict=True):
        key = ("label", text) if text is not None else (SUPPRESSED if there else MISSING, "")
        found[key] = found.get(key, 0) + count
    return found


def _binned(sides: Sequence[ColumnValues], least: int) -> list[dict[str, Any]]:
    """Round intervals over the bulk of the first side; what is missing stands last."""
    numbers = [_numbers(each) for each in sides]
    edges = _edges(*numbers[0], whole=sides[0].kind in WHOLE)
    missing = tuple(int(each.counts[each.blank].sum()) for each in sides)
    if not len(edges):
        return _labelled(sides, least)
    bins = [_in_bins(values, counts, edges) for values, counts in numbers]
    cells = joined_bins(list(zip(*(each.tolist() for each in bins), strict=True)), least)
    lines = [_line("interval", _interval(edges, cell.labels), list(cell.counts)) for cell in cells]
    if all(not count or count >= least for count in missing):
        return [*lines, *([_line(MISSING, "", list(missing))] if any(missing) else [])]
    return _hidden(lines, missing, least)


def _hidden(lines: list[dict[str, Any]], few: tuple[int, ...], least: int) -> list[dict[str, Any]]:
    """Few missing values, which would follow from the number of records, together with the smallest lines."""
    left, joined = list(lines), list(few)
    while not all(not count or count >= least for count in joined):
        if not left:
            return []
        smallest = min(left, key=lambda line: sum(line["counts"]))
        left.remove(smallest)
        joined = [a + b for a, b in zip(joined, smallest["counts"], strict=True)]
    return [*left, _line(OTHERS, "", joined, labels=len(lines) - len(left) + 1)]


def _in_bins(values: NDArray[np.float64], counts: NDArray[np.int64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    places = np.searchsorted(edges, values, side="right")
    return np.bincount(places, weights=counts, minlength=len(edges) + 1).astype(np.int64)


def _numbers(side: ColumnValues) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The values that are there, ascending, dates as their years, with their records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = ~side.blank
    values: pa.Array = side.values.filter(pa.array(kept))
    if side.kind in DATES:
        values = pc.year(values)
    numbers = np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    return numbers, side.counts[kept]


def _edges(values: NDArray[np.float64], counts: NDArray[np.int64], *, whole: bool) -> NDArray[np.float64]:
    """Round ends of intervals between the tails, so that no end is a value of somebody; none where all are alike."""
    finite = np.isfinite(values)
    values, counts = values[finite], counts[finite]
    if not len(values):
        return np.zeros(0)
    reached = np.cumsum(counts) / counts.sum()
    low, high = (float(values[np.searchsorted(reached, share - 1e-12)]) for share in TAILS)
    if not high > low:
        return np.zeros(0)
    step = _round_step((high - low) / MOST_BINS, whole=whole)
    first, last = math.ceil(low / step), math.floor(high / step)
    return np.arange(first, last + 1, dtype=np.float64) * step


def _round_step(width: float, *, whole: bool) -> float:
    """The next round number, of 1, 2, 2.5 or 5 times a power of ten; of whole numbers at least 1."""
    if whole:
        width = max(1.0, width)
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (WHOLE_STEPS if whole else STEPS) if step * power >= width * (1 - 1e-9))


def _interval(edges: NDArray[np.float64], bins: tuple[int, ...]) -> str:
    """The ends as ``20.0:40.0``, for a page to write in its own language; an end that is open is left out."""
    low = None if bins[0] == 0 else float(edges[bins[0] - 1])
    high = None if bins[-1] == len(edges) else float(edges[bins[-1]])
    return f"{'' if low is None else repr(low)}:{'' if high is None else repr(high)}"

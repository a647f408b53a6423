"""Counts for reports: class sizes and distributions, joined until none of them rests on too few records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privpipe.blocks import Facts, Guarantee, SizeModel, Tally, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.size_model import size_histogram
from privpipe.errors import UnsupportedError
from privpipe.judging.counted_classes import JudgingContext, count_classes
from privpipe.judging.judged_table import JudgedTable
from privpipe.judging.paired_columns import ColumnValues
from privpipe.judging.rules import Gate, keys_of
from privpipe.measures import JournalistRisk, MarketerRisk
from privpipe.roles import Roles
from privpipe.tolerance import at_most

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.engines import Engine
    from privpipe.judging.paired_columns import PairedSample
    from privpipe.judging.rules import JudgingRules

__all__ = [
    "AT_RISK",
    "Cell",
    "ClassSizes",
    "SizeFigures",
    "distributions",
    "joined_bins",
    "judged_keys",
    "pooled_cells",
    "size_bins",
    "size_figures",
]


Counts = tuple[int, ...]
"""Records of a cell in each of the tables that are shown side by side."""


@dataclass(frozen=True)
class Cell:
    """One line of a distribution.

    Parameters
    ----------
    labels : tuple of int
        Positions of the adjacent bins, or labels, that it counts.
    counts : tuple of int
        Records in each table: none, or at least as many as may be shown.
    """

    labels: tuple[int, ...]
    counts: Counts


def _fits(counts: Counts, least: int) -> bool:
    return all(not count or count >= least for count in counts)


def _sum(left: Counts, right: Counts) -> Counts:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def joined_bins(counts: Sequence[Counts], least: int) -> list[Cell]:
    """Bins in their order, each joined with the next ones until it may be shown; the last with those before it.

    Nothing where all of them together are too few.

    Examples
    --------
    >>> [(cell.labels, cell.counts) for cell in joined_bins([(3, 0), (9, 0), (6, 20), (1, 2)], 5)]
    [((0, 1), (12, 0)), ((2, 3), (7, 22))]
    >>> joined_bins([(3, 0)], 5)
    []
    """
    cells: list[Cell] = []
    open_cell: Cell | None = None
    for at, found in enumerate(counts):
        labels, so_far = (open_cell.labels, open_cell.counts) if open_cell else ((), (0,) * len(found))
        open_cell = Cell((*labels, at), _sum(so_far, tuple(found)))
        if any(open_cell.counts) and _fits(open_cell.counts, least):
            cells.append(open_cell)
            open_cell = None
    while open_cell is not None and any(open_cell.counts):
        if not cells:
            return []
        before = cells.pop()
        open_cell = Cell((*before.labels, *open_cell.labels), _sum(before.counts, open_cell.counts))
        if _fits(open_cell.counts, least):
            cells.append(open_cell)
            open_cell = None
    return cells


def pooled_cells(counts: Sequence[Counts], least: int, most: int) -> tuple[list[int], Cell | None]:
    """Labels that may be shown, largest first and `most` of them at most, and the others as one cell.

    Where the others together are too few, shown labels join them, smallest first: no count follows from the rest of
    the table. None for the others where there are none; no label and no cell where all together are too few.

    Examples
    --------
    >>> shown, others = pooled_cells([(9, 8), (30, 28), (3, 0), (50, 50)], 5, 10)
    >>> shown, others
    ([3, 1], Cell(labels=(0, 2), counts=(12, 8)))
    """
    order = sorted(range(len(counts)), key=lambda at: (-sum(counts[at]), at))
    shown = [at for at in order if _fits(counts[at], least)][:most]
    rest = [at for at in order if at not in set(shown)]
    if not rest:
        return shown, None
    pooled = Cell(tuple(sorted(rest)), _total(counts, rest))
    while not _fits(pooled.counts, least):
        if not shown:
            return [], None
        rest.append(shown.pop())
        pooled = Cell(tuple(sorted(rest)), _total(counts, rest))
    return shown, pooled


def _total(counts: Sequence[Counts], places: Sequence[int]) -> Counts:
    return tuple(sum(column) for column in zip(*(counts[at] for at in places), strict=True))


AT_RISK = 0.2
"""Risk of a record above which it counts as at risk."""
ENDS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
"""Sizes at which a bar of the histogram begins."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassSizes(SizeModel):
    """The histogram of class sizes; requested together with measures, so that it is counted in the same way."""

    judges_matching: ClassVar[bool] = True

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sizes, classes = size_histogram(observed)
        return Verdict(self, {"sizes": sizes.tolist(), "classes": classes.tolist()}, outcome="pass")


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """What one table shows.

    Parameters
    ----------
    sizes : tuple of int
        Ascending.
    classes : tuple of float
        How many classes have each size; under wildcard matching a record that w match is a w-th of one.
    journalist, marketer : mapping of figure to float
        Against the population; empty where none is known.
    """

    sizes: tuple[int, ...]
    classes: tuple[float, ...]
    journalist: dict[str, float | None]
    marketer: float | None

    @property
    def records(self) -> int:
        """Records in classes."""
        return round(float(np.dot(self.sizes, self.classes)))

    @property
    def prosecutor(self) -> dict[str, float]:
        """Highest and average risk, and share of records above `AT_RISK`; the attacker knows that a person is there."""
        sizes, classes = np.array(self.sizes, dtype=np.float64), np.array(self.classes, dtype=np.float64)
        records = float(sizes @ classes)
        risky = ~np.asarray(at_most(1.0 / sizes, AT_RISK))
        return {
            "highest": 1.0 / self.sizes[0],
            "average": float(classes.sum()) / records,
            "at_risk": float(sizes[risky] @ classes[risky]) / records,
        }


def judged_keys(guarantees: Sequence[Guarantee], roles: Roles) -> tuple[str, ...]:
    """The quasi-identifiers of the first guarantee over classes, else all; empty where there are none.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> roles = Roles(quasi_identifiers=["age", "zip"])
    >>> judged_keys([KAnonymity(k=2, quasi_identifiers=("zip",))], roles), judged_keys([], roles)
    (('zip',), ('age', 'zip'))
    """
    over = [entry for entry in guarantees if entry.way.over_classes]
    for entry in over:
        if entry.quasi_identifiers is not None or roles.quasi_identifiers:
            return keys_of(entry, roles)
    return tuple(roles.quasi_identifiers)


def size_figures(
    engine: Engine, table: Any, keys: tuple[str, ...], roles: Roles, rules: JudgingRules, population: Any = None
) -> SizeFigures | None:
    """Count the classes of a table once, as guarantees over the same columns are counted; None without a record.

    Parameters
    ----------
    engine : Engine
    table : Table
    keys : tuple of str
    roles : Roles
        Of its columns.
    rules : JudgingRules
    population : Table, optional
        Generalized as the table is.
    """
    asked: list[Guarantee] = [ClassSizes(quasi_identifiers=keys)]
    if population is not None:
        asked += [
            JournalistRisk(quasi_identifiers=keys),
            JournalistRisk(quasi_identifiers=keys, figure="average"),
            JournalistRisk(quasi_identifiers=keys, figure="at_risk", threshold=AT_RISK),
            MarketerRisk(quasi_identifiers=keys),
        ]
    rules = replace(rules, gate=Gate(), allow_empty=True)
    facts = Facts(unit=rules.counted)  # sizes compare with no distribution
    context = JudgingContext(
        judged_table=JudgedTable.of(engine, table, rules),
        entries=tuple(entry.with_roles(roles).beside(population is not None) for entry in asked),
        roles=roles,
        rules=rules,
        facts={"original": facts, "released": facts},
        population=population,
    )
    verdicts = count_classes(context).verdicts
    counted, *compared = (verdicts[at].observed for at in range(len(asked)))
    if not counted or not counted["sizes"]:
        return None
    return SizeFigures(
        sizes=tuple(counted["sizes"]),
        classes=tuple(counted["classes"]),
        journalist=dict(zip(("highest", "average", "at_risk"), compared, strict=False)) if compared else {},
        marketer=compared[3] if compared else None,
    )


def size_bins(sides: Sequence[SizeFigures], least: int) -> list[dict[str, Any]]:
    """Records by the size of their class, in bins that each hold none or at least a minimum in every table.

    Examples
    --------
    >>> raw = SizeFigures(sizes=(1, 7), classes=(2, 9), journalist={}, marketer=None)
    >>> out = SizeFigures(sizes=(65,), classes=(1,), journalist={}, marketer=None)
    >>> size_bins([raw, out], 5)
    [{'from': 1, 'to': 9, 'counts': [65, 0]}, {'from': 50, 'to': 99, 'counts': [0, 65]}]
    """
    counts = np.zeros((len(ENDS), len(sides)))
    for at, side in enumerate(sides):
        places = np.searchsorted(np.array(ENDS), np.array(side.sizes), side="right") - 1
        np.add.at(counts[:, at], places, np.array(side.sizes) * np.array(side.classes, dtype=np.float64))
    found = [tuple(round(each) for each in row) for row in counts.tolist()]
    shown = []
    for cell in joined_bins(found, least):
        filled = [at for at in cell.labels if any(found[at])]
        end = ENDS[filled[-1] + 1] - 1 if filled[-1] + 1 < len(ENDS) else None
        shown.append({"from": ENDS[filled[0]], "to": end, "counts": list(cell.counts)})
    return shown


MOST_LABELS = 12
MOST_BINS = 10
TAILS = (0.05, 0.95)
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
WHOLE_STEPS = (1.0, 2.0, 5.0, 10.0)
DATES = ("date", "timestamp")
WHOLE = ("integer", *DATES)
MISSING, SUPPRESSED, OTHERS = "missing", "suppressed", "others"
"""Kinds of lines that are not labels of the data."""


def distributions(sample: PairedSample, mark: str, least: int, *, compared: bool = True) -> dict[str, dict[str, Any]]:
    """The lines of each released column, as plain JSON; every count is 0 or at least `least`.

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
    if many:  # numbers became labels: each side has separate lines
        parts = [_of_column([each], least)["lines"] for each in sides]
        lines = [{**line, "counts": [*line["counts"], 0]} for line in parts[0]]
        lines += [{**line, "counts": [0, *line["counts"]]} for line in parts[1]]
        return _shown(sides, _merged(lines), "own")
    return _shown(sides, _labelled(sides, least), "labels")


def _merged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of both sides that have the same name become one."""
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
    """Round intervals over the bulk of the first side; missing values come last."""
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


def _in_bins(values: Floats, counts: Ints, edges: Floats) -> Ints:
    places = np.searchsorted(edges, values, side="right")
    return np.bincount(places, weights=counts, minlength=len(edges) + 1).astype(np.int64)


def _numbers(side: ColumnValues) -> tuple[Floats, Ints]:
    """The values that are there, ascending, dates as their years, with their records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = ~side.blank
    values: pa.Array = side.values.filter(pa.array(kept))
    if side.kind in DATES:
        values = pc.year(values)
    numbers = np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    return numbers, side.counts[kept]


def _edges(values: Floats, counts: Ints, *, whole: bool) -> Floats:
    """Round ends of intervals between the tails, so that no end is a person's value; none where all are equal."""
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
    """The next round number: 1, 2, 2.5 or 5 times a power of ten; at least 1 for whole numbers."""
    if whole:
        width = max(1.0, width)
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (WHOLE_STEPS if whole else STEPS) if step * power >= width * (1 - 1e-9))


def _interval(edges: Floats, bins: tuple[int, ...]) -> str:
    """The ends as ``20.0:40.0``, for a page to write in its own language; an end that is open is left out."""
    low = None if bins[0] == 0 else float(edges[bins[0] - 1])
    high = None if bins[-1] == len(edges) else float(edges[bins[-1]])
    return f"{'' if low is None else repr(low)}:{'' if high is None else repr(high)}"

"""What a finished table must be before it is judged: dimensions, sums, counts and quotients of its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import DataError, HierarchyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.tables.aggregates import pattern_mask
from privpipe.tables.aggregation import TableSpec
from privpipe.tables.audit_problem import product
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.dimension_labels import MISSING, UNKNOWN, Ladder
from privpipe.tables.finished_tables import FinishedTable, blank_or_decimal
from privpipe.tables.guarantees import MinimumFrequency
from privpipe.tables.responses import Response
from privpipe.tables.table import measures_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "absent_note",
    "base_rows",
    "finished_dimension",
    "frequency_verdict",
    "require_counts",
    "require_margins",
    "require_quotients",
    "require_sums",
    "require_told_apart",
    "with_blanks_alone",
]


PLACES = 3
"""Totals that a message names."""


def require_told_apart(name: str, labels: Sequence[str], total: str) -> None:
    """Refuse labels of a dimension that readers take for one, or for the total.

    Raises
    ------
    DataError

    Examples
    --------
    >>> require_told_apart("region", ["Total", "North", "South"], "Total")
    """
    alike = [label for label in labels if label != total and label.strip().casefold() == total.strip().casefold()]
    if alike:
        raise DataError(
            f"dimension {name!r}: {len(alike)} labels read as the label of the total ({total!r}), and are not it; "
            "rename them, or write `total:` as the table does"
        )
    doubled = len(labels) - len({label.strip() for label in labels})
    if doubled:
        raise DataError(f"dimension {name!r}: {doubled} labels differ from others only in spaces; give each one text")


def require_margins(table: str, cells: Cells) -> None:
    """Refuse a table in which a cell has a row and a total above it has none.

    Raises
    ------
    DataError
    """
    missing = cells.missing_totals
    if missing:
        where = ", ".join(f"{number:,} along {name!r}" for name, number in missing.items())
        raise DataError(
            f"table {table!r}: totals have no row: {where}; give each total of its cells a row (label "
            f"{cells.dimensions[0].total!r} of all), blank where it is suppressed"
        )


def require_counts(table: str, counts: FinishedTable, *, weighted: bool) -> None:
    """Refuse counts below 0, and fractions where they are not sums of weights.

    Raises
    ------
    DataError
    """
    negative = int(((counts.values < 0) & ~counts.blank).sum())
    if negative:
        raise DataError(
            f"table {table!r}: {negative:,} counts of {counts.response!r} are negative; publish null, and no number, "
            "for a suppressed one"
        )
    if counts.decimals and not weighted:
        raise DataError(f"table {table!r}: counts of {counts.response!r} are not whole numbers")


def require_sums(table: str, figures: FinishedTable) -> None:
    """Refuse totals whose parts are all published and do not add up to them.

    Raises
    ------
    DataError
        It shows how many, and of the first ones where and by how much: all of these figures are published.
    """
    if figures.low is not None:
        return
    relations = figures.cells.relations
    rests = product(relations, np.where(figures.blank, 0, figures.values))
    hidden = product(abs(relations), figures.blank.astype(np.int64))
    wrong = np.flatnonzero((np.asarray(hidden) == 0) & (np.asarray(rests) != 0))
    if not len(wrong):
        return
    totals = [_described(figures, int(row), int(rests[row])) for row in wrong[:PLACES]]
    more = f"; and {len(wrong) - PLACES:,} more" if len(wrong) > PLACES else ""
    raise DataError(
        f"table {table!r}: the table does not add up: {len(wrong):,} totals of {figures.response!r} are not the sum of "
        f"their parts: {'; '.join(totals)}{more}"
    )


def _described(figures: FinishedTable, row: int, rest: int) -> str:
    cells, relations = figures.cells, figures.cells.relations
    entries = slice(relations.indptr[row], relations.indptr[row + 1])
    columns, values = relations.indices[entries], relations.data[entries]
    whole, part = int(columns[values > 0][0]), int(columns[values < 0][0]) if (values < 0).any() else -1
    along = ""
    if part >= 0:
        place = int(np.flatnonzero(cells.codes[whole] != cells.codes[part])[0])
        along = f" along {cells.dimensions[place].name!r}"
    labels = ", ".join(
        f"{dimension.name}={dimension.labels[code]}"
        for dimension, code in zip(cells.dimensions, cells.codes[whole], strict=True)
    )
    amount = format(abs(Decimal(rest).scaleb(-figures.decimals)), "f")
    return f"({labels}){along} is {amount} {'more' if rest > 0 else 'less'} than they"


def absent_note(table: str, cells: Cells) -> str | None:
    """What a verdict states about combinations of labels without a row."""
    absent = prod(cells.shape) - len(cells)
    return (
        f"table {table!r}: {absent:,} combinations of labels have no row and were taken for 0, as readers take them"
        if absent > 0
        else None
    )


def finished_dimension(
    name: str, labels: Sequence[str], spec: TableSpec, hierarchy: HierarchySpec | None, kind: str | None
) -> Dimension:
    """The dimension of a column of a finished table.

    Parameters
    ----------
    labels : sequence of str
        Distinct labels of the table, the total among them.
    spec : TableSpec
        What the table shows: `levels`, `overlapping`, the label of the total.
    hierarchy : HierarchySpec, optional
    kind : str, optional
        Declared type of the column.

    Raises
    ------
    DataError, HierarchyError
        Labels that read alike, a hierarchy that is not nested.
    UsageError
        A hierarchy that is made of values, where the table shows none.
    """
    require_told_apart(name, labels, spec.total)
    own = [label for label in labels if label != spec.total]
    values: list[str | None]
    if hierarchy is None:
        ladder = Ladder.of(name, spec.total, None, spec.levels.get(name), overlapping=name in spec.overlapping)
        values = [None if label == MISSING else label for label in own]
        return ladder.dimension(values)
    seen: list[str | None] = [None] if MISSING in own else []
    built = hierarchy.build(seen, None, kind)
    if not _values(built, 0):
        built = _made_of(name, own, hierarchy, kind)
    elif UNKNOWN in own and hierarchy.options.unknown == "root":
        built = built.cover([*seen, UNKNOWN])
    ladder = Ladder.of(name, spec.total, built, spec.levels.get(name), overlapping=name in spec.overlapping)
    # A level of one label is the total under another name: releases leave it out, other tables may show it.
    alone = {level for level in range(1, built.height + 1) if len(built.labels(level)) == 1}
    shown = {level for level in alone if built.labels(level)[0] in own}
    ladder = replace(ladder, levels=tuple(sorted({*ladder.levels, *shown})))
    values = list(dict.fromkeys(_values(built, ladder.levels[0] if ladder.coarsens else 0)))
    values += seen
    if UNKNOWN in own and ladder.coarsens and UNKNOWN not in values:
        values.append(UNKNOWN)
    return _shown(ladder.dimension(values), {*own, spec.total})


def _values(hierarchy: Hierarchy, level: int) -> list[str]:
    """Labels of a level, without those of leaves for null and for values outside, which tables name their own way."""
    apart = {hierarchy.null_code, hierarchy.unknown_code}
    return [text for code, text in enumerate(hierarchy.texts(level)) if code not in apart]


def _made_of(name: str, labels: Sequence[str], hierarchy: HierarchySpec, kind: str | None) -> Hierarchy:
    """A hierarchy of a builder that depends on values: built from the labels that are values."""
    values: list[str | None] = []
    for label in labels:
        if label != MISSING:
            try:
                hierarchy.build([label], None, kind)
            except (HierarchyError, UsageError):
                continue
            values.append(label)
    if not values:
        raise UsageError(
            f"dimension {name!r}: its hierarchy is made of values, and the table shows labels of higher levels alone; "
            "give the policy of a finished table a hierarchy by `file:` or `tree:`"
        )
    return hierarchy.build([*values, *([None] if MISSING in labels else [])], None, kind)


def _shown(dimension: Dimension, labels: set[str]) -> Dimension:
    """The dimension without labels that the table never shows: readers know nothing of them."""
    kept = [label in labels for label in dimension.labels]
    for code in range(len(dimension.labels) - 1, 0, -1):
        # A label above one that is shown stays: its total is missing.
        kept[dimension.parent[code]] |= kept[code]
    parents = {
        label: dimension.labels[above]
        for label, above, stays in zip(dimension.labels, dimension.parent, kept, strict=True)
        if stays and above >= 0
    }
    if not parents:
        return Dimension(dimension.name, dimension.labels[:1], (-1,), dimension.overlapping)
    return Dimension.tree(dimension.name, parents, overlapping=dimension.overlapping)


def frequency_verdict(
    guarantee: MinimumFrequency, counts: Mapping[str, FinishedTable], sums: Mapping[str, Sequence[FinishedTable]]
) -> Verdict:
    """The verdict by published counts; an error where a sum is published and the count of its cell is not.

    Parameters
    ----------
    counts : mapping of table name to FinishedTable
    sums : mapping of table name to sequence of FinishedTable
        Figures other than counts that the guarantee judges, of tables with and without counts.
    """
    uncounted = sum(_uncounted(counts.get(name), own) for name, own in sums.items())
    shown = np.concatenate([each.values[~each.blank] for each in counts.values()])
    judged = shown[shown > 0]
    compared = (Comparison(len(judged), len(judged), "published counts above 0 were judged"),)
    empty = sum(int(_empty(guarantee, each).sum()) for each in counts.values())
    if guarantee.zeros == "unsafe" and empty:
        why = f"{empty:,} counts of 0 are published, and `zeros: unsafe` asks that they are not."
        return Verdict(guarantee, 0, "fail", guarantee.at_least, failing_classes=empty, reason=why, compared=compared)
    failing = int((judged < guarantee.at_least).sum())
    if uncounted and not failing:
        why = f"{uncounted:,} sums are published where no count is: contributors are not known; give the original."
        return Verdict(guarantee, None, "error", guarantee.at_least, reason=why, compared=compared)
    if not len(judged):
        return Verdict(guarantee, None, "error", guarantee.at_least, reason="no count is published.", compared=compared)
    return Verdict(
        guarantee,
        int(judged.min()),
        outcome="fail" if failing else "pass",
        threshold=guarantee.at_least,
        failing_classes=failing,
        reason=f"observed {int(judged.min()):,}; {failing:,} of {len(judged):,} published counts are below.",
        compared=compared,
    )


def _uncounted(counts: FinishedTable | None, sums: Sequence[FinishedTable]) -> int:
    """Published sums of cells whose count is not published."""
    known: Bools | bool = False if counts is None else ~counts.blank
    return sum(int((~each.blank & ~np.asarray(known)).sum()) for each in sums)


def _empty(guarantee: MinimumFrequency, counts: FinishedTable) -> Bools:
    """Published counts of 0 that are not structural ones.

    Raises
    ------
    DataError
        A cell that is always empty has a count.
    """
    known = pattern_mask(counts.cells, guarantee.structural, "minimum_frequency: structural")
    wrong = int((known & ~counts.blank & (counts.values > 0)).sum())
    if wrong:
        raise DataError(
            f"minimum_frequency: {wrong:,} cells that `structural` declares always empty have counts; correct the "
            "patterns or the data"
        )
    return np.asarray(~counts.blank & (counts.values == 0) & ~known, dtype=np.bool_)


FLOAT_ERROR = Fraction(1, 2**48)
"""Relative error of a quotient of floats."""


def with_blanks_alone(rows: pa.Table, name: str) -> pa.Table:
    """The table with 0 for each figure of a column: quotients have more digits than a unit of 64 bits holds."""
    import pyarrow as pa

    if name not in rows.schema.names:
        return rows
    column = rows.column(name)
    read = {each: blank_or_decimal(each, name) for each in column.unique().to_pylist() if each == each}
    marks = [each if each != each or read[each] is None else "0" for each in column.to_pylist()]
    texts = pa.array([None if each is None or each != each else str(each) for each in marks], pa.string())
    return rows.set_column(rows.schema.get_field_index(name), name, texts)


def base_rows(cells: Cells, response: Response) -> Ints:
    """For each cell the row of its base (100 %), or its own row where there is none."""
    codes = cells.codes.copy()
    for place, dimension in enumerate(cells.dimensions):
        if dimension.name in response.of:
            codes[:, place] = 0
    wanted = np.ravel_multi_index(tuple(codes.T), cells.shape)
    order = np.argsort(cells.keys)
    at = np.minimum(np.searchsorted(cells.keys[order], wanted), max(len(order) - 1, 0))
    found = order[at]
    return np.asarray(np.where(cells.keys[found] == wanted, found, np.arange(len(cells))), dtype=np.int64)


def require_quotients(
    table: str, response: Response, shown: pa.ChunkedArray, parts: Mapping[str, FinishedTable], cells: Cells
) -> None:
    """Refuse figures that are not the quotients of the published ones: they reveal more.

    Raises
    ------
    DataError
    """
    keys = measures_of(response)
    if any(key not in parts for key in keys):
        return
    if response.kind == "percentage":
        above = below = parts[keys[-1]]
        bases, factor = base_rows(cells, response), Fraction(100)
    else:
        above, below = (parts[key] for key in (keys[::-1] if response.kind == "mean" else keys))
        bases, factor = np.arange(len(cells)), Fraction(1)
    factor *= Fraction(10) ** (below.decimals - above.decimals)
    wrong = 0
    for row, (value, base) in enumerate(zip(shown.to_pylist(), bases.tolist(), strict=True)):
        figure = blank_or_decimal(value, response.name)
        if figure is None or above.blank[row] or below.blank[base]:
            continue
        over, under = int(above.values[row]), int(below.values[base])
        digits = max(-int(figure.as_tuple().exponent), 0)
        wrong += not _is_quotient(Fraction(figure), factor * over, under, Fraction(1, 2 * 10**digits))
    if wrong:
        raise DataError(
            f"table {table!r}: {wrong:,} figures of {response.name!r} are not the quotients of the published figures, "
            "and so reveal more; compute them from the published figures"
        )


def _is_quotient(figure: Fraction, over: Fraction, under: int, half: Fraction) -> bool:
    if not under:
        return not over and not figure
    exact: Any = over / under
    return bool(abs(figure - exact) <= max(half, abs(exact) * FLOAT_ERROR))

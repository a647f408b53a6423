"""Rows of labels, one a raw value, into a draft: ragged rows, repeated values, canonical raw text."""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.errors import HierarchyError
from privpipe.hierarchies.canonical import checked_type
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.literals import canonical_literal
from privpipe.hierarchies.options import whose

__all__ = ["draft_from_rows"]


def draft_from_rows(
    rows: Sequence[Sequence[str]], *, lines: Sequence[int] = (), kind: str | None, column: str, source: str
) -> Draft:
    """The draft of rows that all have the same number of fields and name each raw value once.

    Parameters
    ----------
    rows : sequence of sequence of str
        Field 0 the raw value, field l its label at level l.
    lines : sequence of int
        Where each row stands in the file; empty: rows are counted from 1.
    kind : str or None
        The column's type, under which raw values are compared.
    column, source : str
        Named in errors.

    Raises
    ------
    HierarchyError
        ``ragged``, ``blank``, ``type`` or ``duplicate``, with lines and counts.

    Examples
    --------
    >>> draft = draft_from_rows([["07", "*"], ["8", "*"]], kind="integer", column="age", source="age.csv")
    >>> draft.levels.labels
    (('7', '8'), ('*',))
    """
    name = whose(column, source)
    lines = lines if len(lines) else range(1, len(rows) + 1)
    _check_rectangular(rows, lines, name)
    _check_labelled(rows, lines, name)
    raws = _canonical_raws(rows, lines, checked_type(kind), name)
    kept: dict[str, int] = {}
    repeated: list[tuple[int, int]] = []
    clashes: list[tuple[int, int]] = []
    for index, raw in enumerate(raws):
        first = kept.setdefault(raw, index)
        if first != index:
            (repeated if rows[first][1:] == rows[index][1:] else clashes).append((first, index))
    if clashes:
        first, second = clashes[0]
        raise HierarchyError(
            f"{name}: duplicate: line {lines[second]} repeats the raw value of line {lines[first]} with other "
            f"labels ({len(clashes):,} such lines); keep one line a value",
            kind="duplicate",
        )
    order = list(kept.values())
    columns = [list(kept), *([rows[index][level] for index in order] for level in range(1, len(rows[0])))]
    return Draft(
        levels=Levels.from_columns(columns),
        source=source,
        places=[lines[index] for index in order],
        warnings=_merged_warning(len(repeated), lines[repeated[0][1]]) if repeated else (),
    )


def _check_rectangular(rows: Sequence[Sequence[str]], lines: Sequence[int], name: str) -> None:
    if not rows or not len(rows[0]):
        raise HierarchyError(f"{name}: ragged: it is empty; give one line a raw value", kind="ragged")
    width = len(rows[0])
    wrong = [index for index, row in enumerate(rows) if len(row) != width]
    if wrong:
        raise HierarchyError(
            f"{name}: ragged: line {lines[wrong[0]]} has {len(rows[wrong[0]])} fields, line {lines[0]} has {width} "
            f"({len(wrong):,} of {len(rows):,} lines differ); every line needs one label a level",
            kind="ragged",
        )


def _check_labelled(rows: Sequence[Sequence[str]], lines: Sequence[int], name: str) -> None:
    """An empty text of the data may be kept as it is; any other empty label is one that somebody forgot."""
    blank = [
        (index, level)
        for index, row in enumerate(rows)
        for level, label in enumerate(row)
        if not label.strip() and label != row[0]
    ]
    if blank:
        index, level = blank[0]
        raise HierarchyError(
            f"{name}: blank: line {lines[index]} has no label at level {level} ({len(blank):,} in all); "
            "write one, or the label of the level below again",
            kind="blank",
        )


def _canonical_raws(rows: Sequence[Sequence[str]], lines: Sequence[int], kind: str | None, name: str) -> list[str]:
    raws: list[str] = []
    wrong = []
    for row, line in zip(rows, lines, strict=True):
        try:
            raw = canonical_literal(row[0], kind)
        except ValueError:
            raw = None
        if raw is None:
            wrong.append(line)
        else:
            raws.append(raw)
    if wrong:
        raise HierarchyError(
            f"{name}: type: the raw value of line {wrong[0]} is no {kind} ({len(wrong):,} such lines); correct the "
            "file or the column's `type:` (is there a header line? then `header: true`)",
            kind="type",
        )
    return raws


def _merged_warning(count: int, line: int) -> tuple[str, ...]:
    return (f"duplicate: {count:,} identical lines merged, the first is line {line}",)

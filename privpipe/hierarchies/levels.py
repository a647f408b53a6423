"""Levels of a hierarchy before it is checked: labels as integer codes, drafts of builders, and rows of labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.canonical import canonical_literal, checked_type
from privpipe.hierarchies.options import ROOT, Options, whose

__all__ = [
    "Draft",
    "Levels",
    "check_levels_in_range",
    "checked",
    "content_digest",
    "draft_from_rows",
    "factorize",
    "level_warnings",
]


def factorize(texts: Iterable[str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Codes of texts in order of first appearance, and the distinct texts.

    Examples
    --------
    >>> codes, labels = factorize(["b", "a", "b"])
    >>> codes.tolist(), labels
    ([0, 1, 0], ('b', 'a'))
    """
    known: dict[str, int] = {}
    codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), dtype=np.int32)
    return codes, tuple(known)


@dataclass(frozen=True, eq=False)
class Levels:
    """Labels of every level and, for each raw value, which one is its own.

    Parameters
    ----------
    labels : tuple of tuple of str
        Distinct labels a level, from raw (level 0) to coarsest.
    codes : ndarray of int32, shape (levels, n_values)
        ``codes[l, x]`` indexes ``labels[l]``.
    """

    labels: tuple[tuple[str, ...], ...]
    codes: NDArray[np.int32]

    @classmethod
    def from_columns(cls, columns: Sequence[Iterable[str]]) -> Self:
        """From one iterable of labels a level; codes in order of first appearance.

        Examples
        --------
        >>> Levels.from_columns([["1", "2"], ["*", "*"]]).codes.tolist()
        [[0, 1], [0, 0]]
        """
        parts = [factorize(column) for column in columns]
        return cls(tuple(labels for _, labels in parts), np.stack([codes for codes, _ in parts]))

    @property
    def height(self) -> int:
        """Levels above the raw one."""
        return len(self.labels) - 1

    @property
    def size(self) -> int:
        """Number of raw values."""
        return int(self.codes.shape[1])

    def texts(self, level: int) -> list[str]:
        """The label of each raw value at a level, in the order of the values."""
        labels = self.labels[level]
        return [labels[code] for code in self.codes[level].tolist()]

    def topped(self, label: str) -> Levels:
        """With one more level, on which every value carries `label`."""
        row = np.zeros((1, self.size), dtype=np.int32)
        return Levels((*self.labels, (label,)), np.concatenate([self.codes, row]))

    def first_conflict(self) -> tuple[int, int, int] | None:
        """The first breach of C1: a level, and two values that share its label but not the one above.

        Returns
        -------
        tuple of (level, earlier value, later value), or None when every level is a function of the one below.

        Examples
        --------
        >>> Levels.from_columns([["1", "2"], ["a", "a"], ["x", "y"]]).first_conflict()
        (1, 0, 1)
        """
        for level in range(self.height):
            below, above = self.codes[level], self.codes[level + 1]
            owner = np.full(len(self.labels[level]), self.size, dtype=np.int64)
            np.minimum.at(owner, below, np.arange(self.size))
            wrong = np.flatnonzero(above != above[owner[below]])
            if wrong.size:
                return level, int(owner[below[wrong[0]]]), int(wrong[0])
        return None

    def in_leaf_order(self) -> tuple[Levels, NDArray[np.int32]]:
        """The values sorted by their path from the root, so that every node covers a contiguous range.

        Labels of a level are renumbered by their first value; codes of every level then never fall along the
        values. Siblings keep the order in which the source first names them.

        Returns
        -------
        tuple of (Levels, ndarray of int32, shape (n_values,))
            The sorted levels, and for each value its place in the source.

        Examples
        --------
        >>> levels, order = Levels.from_columns([["1", "2", "3"], ["a", "b", "a"]]).in_leaf_order()
        >>> levels.labels[0], levels.codes[1].tolist(), order.tolist()
        (('1', '3', '2'), [0, 0, 1], [0, 2, 1])
        """
        firsts = [_first_positions(row, len(labels)) for row, labels in zip(self.codes, self.labels, strict=True)]
        keys = [np.arange(self.size), *(first[row] for first, row in zip(firsts, self.codes, strict=True))]
        order = np.lexsort(keys).astype(np.int32)
        labels, rows = [], []
        for names, row in zip(self.labels, self.codes, strict=True):
            place = np.argsort(_first_positions(row[order], len(names)), kind="stable")
            rank = np.empty(len(names), dtype=np.int32)
            rank[place] = np.arange(len(names), dtype=np.int32)
            labels.append(tuple(names[index] for index in place.tolist()))
            rows.append(rank[row[order]])
        return Levels(tuple(labels), np.stack(rows)), order

    def spans(self, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First value and one past the last value of each label, for levels in leaf order."""
        wanted = np.arange(len(self.labels[level]))
        row = self.codes[level]
        return np.searchsorted(row, wanted, side="left"), np.searchsorted(row, wanted, side="right")

    def collisions(self) -> list[tuple[int, int]]:
        """Pairs of levels on which one text names nodes of different branches; levels must be in leaf order.

        A label repeated along one branch (a padded leaf, ``*`` below ``*``) is not a collision.

        Returns
        -------
        list of (lower level, upper level)
            One entry a text and pair of levels.

        Examples
        --------
        >>> Levels.from_columns([["1", "20"], ["20", "30"], ["*", "*"]]).collisions()
        [(0, 1)]
        """
        repeated = _repeated(self.labels)
        if not repeated:
            return []
        seen: dict[str, list[tuple[int, int, int]]] = {}
        found = []
        for level, labels in enumerate(self.labels):
            starts, stops = self.spans(level)
            for label, start, stop in zip(labels, starts.tolist(), stops.tolist(), strict=True):
                if label not in repeated:
                    continue
                places = seen.setdefault(label, [])
                found += [(lower, level) for lower, a, b in places if not (start <= a and b <= stop)]
                places.append((level, start, stop))
        return found


def _repeated(levels: Iterable[Sequence[str]]) -> set[str]:
    """The labels of more than one level."""
    seen, repeated = set[str](), set[str]()
    for labels in levels:
        own = set(labels)
        repeated |= own & seen
        seen |= own
    return repeated


def _first_positions(row: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    first = np.full(count, len(row), dtype=np.int64)
    np.minimum.at(first, row, np.arange(len(row)))
    return first


def content_digest(
    levels: Levels,
    order: NDArray[np.int32],
    shares: NDArray[np.float64] | None,
    size: float,
    *,
    missing: bool = False,
) -> str:
    """SHA-256 of levels in leaf order, which of them are leaves of nulls or unknown values, and shares.

    `missing`: whether nulls are released as such above level 0; plans of versions that wrote a label know the other.

    The same on every machine: texts are UTF-8 with their length before them, numbers little-endian.
    """
    whole = hashlib.sha256(f"hierarchy 1;{levels.height};{levels.size};{size!r};".encode())
    for labels, row in zip(levels.labels, levels.codes, strict=True):
        for label in labels:
            text = label.encode("utf-8", "surrogatepass")
            whole.update(b"%d:" % len(text) + text)
        whole.update(row.astype("<i4").tobytes())
    whole.update(np.minimum(order, 0).astype("<i4").tobytes())
    if shares is not None:
        whole.update(shares.astype("<f8").tobytes())
    if missing:
        whole.update(b"nulls stay missing")
    return whole.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Levels in the order of their source, not yet checked.

    Parameters
    ----------
    levels : Levels
        In source order.
    source : str
        File name or builder, named in errors.
    places : sequence of int
        Line of each value in the file; empty when there is none.
    shares : ndarray of float64, shape (levels, n_values), or None
        Declared shares of the domain; None: rows that carry the label / rows.
    domain_size : float or None
        Declared size of the domain; None: the number of values.
    level_names : tuple of str
        The builder's own names.
    data_dependent : bool
        Labels depend on the data at hand, not on declarations alone.
    warnings : tuple of str
        What was noticed so far.
    outside : tuple of int
        Places, among the values a builder was given, of those it has no interval or group for.
    outside_why : str
        What would let them in.
    written_out : bool
        Someone wrote the labels out, row by row or as a tree in place; no builder drew them from values.
    """

    levels: Levels
    source: str
    places: Sequence[int] = ()
    shares: NDArray[np.float64] | None = None
    domain_size: float | None = None
    level_names: tuple[str, ...] = ()
    data_dependent: bool = False
    warnings: tuple[str, ...] = ()
    outside: tuple[int, ...] = ()
    outside_why: str = ""
    written_out: bool = False

    def place(self, index: int) -> str:
        """The place of value `index` in the source."""
        return f"line {self.places[index]}" if len(self.places) else f"value {index + 1}"


def checked(draft: Draft, options: Options) -> Draft:
    """The draft with its root, once C1 (each level a function of the one below) and C2 (one root) hold.

    Raises
    ------
    HierarchyError
        ``not_functional`` or ``no_root``; names column, source, level and lines.
    """
    name = whose(options.column, draft.source)
    if (conflict := draft.levels.first_conflict()) is not None:
        level, first, second = conflict
        raise HierarchyError(
            f"{name}: not functional: {draft.place(first)} and {draft.place(second)} share their label at level "
            f"{level} but not at level {level + 1}; a label must have one label above it",
            kind="not_functional",
        )
    if options.add_root:
        draft = replace(draft, levels=draft.levels.topped(ROOT), level_names=_topped_names(draft))
    top = len(draft.levels.labels[-1])
    if top > 1 and options.root == "required":
        hint = "; every line holds a single field: is the delimiter right?" if draft.levels.height == 0 else ""
        raise HierarchyError(
            f"{name}: no root: level {draft.levels.height}, the last, has {top:,} labels instead of one; "
            f"`add_root: true` appends a `*` level, `root: optional` accepts it as it is{hint}",
            kind="no_root",
        )
    return draft


def level_warnings(draft: Draft, collisions: int) -> tuple[str, ...]:
    """What is legal but seldom meant: useless levels, labels with two meanings."""
    found = list(draft.warnings)
    counts = [len(labels) for labels in draft.levels.labels]
    for level in range(1, len(counts)):
        if counts[level] == counts[level - 1] > 0:
            found.append(
                f"not_refining: level {level} has as many labels ({counts[level]:,}) as level {level - 1}; "
                "it is kept, and counts in the height"
            )
    if collisions:
        found.append(
            f"label_collision: {collisions:,} labels name different nodes at different levels; a table that mixes "
            "levels in one column cannot distinguish them"
        )
    return tuple(found)


def check_levels_in_range(options: Options, height: int, source: str) -> tuple[int, int]:
    """The least and greatest level in use.

    Raises
    ------
    UsageError
        When `min_level`, `max_level` or the number of `level_names` does not fit the height.

    Examples
    --------
    >>> check_levels_in_range(Options(min_level=1), 3, "age.csv")
    (1, 3)
    """
    name = whose(options.column, source)
    for key in ("min_level", "max_level"):
        given = getattr(options, key)
        if given is not None and given > height:
            raise UsageError(f"{name}: {key} is {given}, but the last level is {height}")
    if options.level_names and len(options.level_names) != height + 1:
        raise UsageError(f"{name}: level_names has {len(options.level_names)} names for {height + 1} levels")
    return options.min_level, height if options.max_level is None else options.max_level


def _topped_names(draft: Draft) -> tuple[str, ...]:
    return (*draft.level_names, ROOT) if draft.level_names else ()


def draft_from_rows(
    rows: Sequence[Sequence[str]], *, lines: Sequence[int] = (), kind: str | None, column: str, source: str
) -> Draft:
    """The draft of rows that all have the same number of fields and name each raw value once.

    Parameters
    ----------
    rows : sequence of sequence of str
        Field 0 the raw value, field l its label at level l.
    lines : sequence of int
        The line of each row in the file; empty: rows are counted from 1.
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
    """An empty text of the data may be kept unchanged; any other empty label is one that someone forgot."""
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
            f"{name}: type: the raw value of line {wrong[0]} is not of type {kind} ({len(wrong):,} such lines); "
            "correct the file or the column's `type:` (is there a header line? then `header: true`)",
            kind="type",
        )
    return raws


def _merged_warning(count: int, line: int) -> tuple[str, ...]:
    return (f"duplicate: {count:,} identical lines merged, the first is line {line}",)

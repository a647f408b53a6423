"""Two released tables joined by their labels: which may represent the same value, and which are inside
which.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from privpipe.blocks.arrays import Bools, Ints, numbered
from privpipe.blocks.release_history import EarlierTables
from privpipe.blocks.verdict import EXPLAIN, Comparison, least
from privpipe.errors import HierarchyError
from privpipe.hierarchies import canonical_text
from privpipe.hierarchies.canonical import exact_number
from privpipe.hierarchies.interval_levels import interval_ends
from privpipe.hierarchies.redact import Redact
from privpipe.hierarchies.spec import IN_NUMBERS

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["Joined", "Relation", "explained_labels", "joined", "relation_of"]


Text = str | None
Relation = tuple[Bools, Bools, Bools]
"""Of each pair of labels: whether they overlap, whether the one is inside the other, and the other inside the one."""

ANY = "*"


def relation_of(one: Sequence[Text], other: Sequence[Text], spec: HierarchySpec | None) -> Relation:
    """How the labels of one table lie to those of another.

    Labels of one hierarchy contain one another or have nothing in common. Ranges are compared by their ends, codes
    with masked characters (``0213*``) by the others. What reads as a range is one, also next to words. Without a
    hierarchy a text that is in both tables is a separate value. A label that nothing explains overlaps every other,
    neither inside the other, so that nothing passes by it.

    Parameters
    ----------
    one, other : sequence of str or None
        Distinct labels of a column; None: a missing value, which is a separate value where both tables have one,
        and a blank elsewhere.
    spec : HierarchySpec, optional
        The column's.

    Returns
    -------
    overlap, inside, around : ndarray of bool, shape (len(one), len(other))

    Examples
    --------
    >>> overlap, inside, around = relation_of(["0213*", "[10, 20["], ["02138", "02141", "[15, 30["], None)
    >>> overlap.tolist(), inside.tolist()
    ([[True, False, True], [False, False, True]], [[False, False, False], [False, False, False]])
    >>> around.tolist()
    [[True, False, False], [False, False, False]]
    """
    labels, hierarchy = {*one, *other}, _hierarchy(spec)
    # Labels of ranges and of masked characters speak for themselves; others only where the hierarchy is at hand.
    opaque = spec is not None and not isinstance(spec.builder, (*IN_NUMBERS, Redact))
    found = np.zeros((3, len(one), len(other)), dtype=np.bool_)
    ends: dict[Text, Ends | None] = {label: _ends(label) for label in labels if label not in (None, ANY)}
    covers = {label: _cover(label, hierarchy) for label in labels}
    known = explained_labels(one, other, spec)
    for i, first in enumerate(one):
        for j, second in enumerate(other):
            found[:, i, j] = _pair(first, second, covers, ends, known, opaque)
    return found[0], found[1], found[2]


def explained_labels(one: Sequence[Text], other: Sequence[Text], spec: HierarchySpec | None) -> frozenset[Text]:
    """The labels of two tables whose meaning is known.

    Examples
    --------
    >>> sorted(explained_labels(["white", "person", "196*"], ["white", "[10, 20["], None))
    ['196*', '[10, 20[', 'white']
    """
    hierarchy, both = _hierarchy(spec), {*one} & {*other}
    codes = spec is not None and isinstance(spec.builder, Redact)
    return frozenset(
        label
        for label in {*one, *other}
        if label in both
        or (
            label is not None
            and (
                ANY in label
                or (codes and _is_value(label))
                or _ends(label) is not None
                or _is_moment(label)
                or label in ("true", "false")
                or any(_cover(label, hierarchy))
            )
        )
    )


Ends = tuple[Decimal, Decimal, bool]
ENDLESS = Decimal("Infinity")
Cover = tuple[frozenset[int], frozenset[int]]
Flag3 = tuple[bool, bool, bool]
APART: Flag3 = (False, False, False)
CROSSING: Flag3 = (True, False, False)


def _pair(
    one: Text,
    other: Text,
    covers: dict[Text, Cover],
    ends: dict[Text, Ends | None],
    known: frozenset[Text],
    opaque: bool,
) -> Flag3:
    if one == other or ANY in (one, other):
        return True, other in (one, ANY), one in (other, ANY)
    if one not in known or other not in known:
        return CROSSING
    if one is None or other is None:
        return APART
    (least, most), (their_least, their_most) = covers[one], covers[other]
    if most and their_most:
        return bool(most & their_most), most <= their_least, their_most <= least
    low, high = ends[one], ends[other]
    if low is not None and high is not None:
        return _ranges(low, high)
    if len(one) == len(other) and (ANY in one or ANY in other):
        return _masked(one, other)
    return APART if not opaque and _is_value(one) and _is_value(other) and _of_one_grain(one, other) else CROSSING


def _of_one_grain(one: str, other: str) -> bool:
    """Whether neither label is a date or time that the other could hold: a day, a month or a year of it."""
    moments = (_is_moment(one), _is_moment(other))
    return not any(moments) or (all(moments) and len(one) == len(other))


def _is_moment(label: str) -> bool:
    try:
        datetime.datetime.fromisoformat(label)
    except ValueError:
        return False
    return True


def _is_value(label: str) -> bool:
    """Whether a label reads as a value: neither a range, nor a set, nor a text with masked characters."""
    return label[:1] not in ("[", "{", "<", ">") and ANY not in label


def _masked(one: str, other: str) -> Flag3:
    pairs = list(zip(one, other, strict=True))
    if not all(a == b or ANY in (a, b) for a, b in pairs):
        return APART
    return True, all(b in (a, ANY) for a, b in pairs), all(a in (b, ANY) for a, b in pairs)


def _ends(label: str) -> Ends | None:
    """Low end, high end and whether the high end belongs to it: of a number or a range, exact beyond 2^53 too.

    ``40-59`` is a range whatever is next to it: read as a code it would be apart from ``45-50``, and two tables
    would pass that cross. Where it is a code, more pairs are compared than meet, and none fewer.
    """
    ends = interval_ends(label, dashes=True) or (label, label, True)
    try:
        low, high = (None if end is None else exact_number(end) for end in ends[:2])
    except ValueError:
        return None
    if low is not None and low == high and not low.is_finite():
        return None
    return -ENDLESS if low is None else low, ENDLESS if high is None else high, ends[2]


def _ranges(one: Ends, other: Ends) -> Flag3:
    return _begins_before_end(one, other) and _begins_before_end(other, one), _within(one, other), _within(other, one)


def _begins_before_end(one: Ends, other: Ends) -> bool:
    return one[0] < other[1] or (one[0] == other[1] and other[2])


def _within(one: Ends, other: Ends) -> bool:
    ends = one[1] < other[1] or (one[1] == other[1] and (other[2] or not one[2]))
    return one[0] >= other[0] and ends


def _hierarchy(spec: HierarchySpec | None) -> Hierarchy | None:
    """The declared hierarchy where it is self-contained (a file, a tree); others need values that are missing here."""
    if spec is None:
        return None
    try:
        found = spec.build([], [], None)
    except HierarchyError:
        return None
    return found if found.values else None


def _cover(label: Text, hierarchy: Hierarchy | None) -> Cover:
    """Codes of the values that a label of the hierarchy represents at every level that has it, and at any of them.

    Both empty where it has no such label. Where a value has the name of a group as well, the label alone does not show
    which of the two it is.
    """
    if hierarchy is None or label is None:
        return frozenset(), frozenset()
    levels = (hierarchy.texts(level) for level in range(hierarchy.height + 1))
    held = [frozenset(code for code, text in enumerate(texts) if text == label) for texts in levels if label in texts]
    return frozenset.intersection(*held) if held else frozenset(), frozenset().union(*held)


LARGEST = 100_000_000
"""Pairs of classes that are compared at most."""


@dataclass(frozen=True)
class Joined:
    """A release compared with an earlier one.

    Parameters
    ----------
    crossing : int
        Pairs of classes that overlap and neither is inside the other.
    smallest : int
        Records of the smaller class of any pair that overlaps, or of a class of the new release by itself.
    linked : float
        Share of the new rows that only one earlier row fits: in region and in every column both released as it was.
    joined_k : int
        Rows of the smallest class of the table of linked rows; 0: no row is linked.
    compared : tuple of Comparison
        Records whose label is explained, of the release and the column with the smallest share of them.
    """

    crossing: int
    smallest: int
    linked: float
    joined_k: int
    compared: tuple[Comparison, ...] = field(default=(), compare=False)


def joined(tables: EarlierTables, at: int) -> Joined | None:
    """The new release compared with one earlier; None where there are too many pairs of classes."""
    new, old = tables.current, tables.earlier[at]
    own, own_keys, own_sizes = _classes(new, tables.keys)
    theirs, their_keys, their_sizes = _classes(old, tables.keys)
    if len(own_sizes) * len(their_sizes) > LARGEST:
        return None
    overlap = np.ones((len(own_sizes), len(their_sizes)), dtype=np.bool_)
    inside, around = overlap.copy(), overlap.copy()
    compared = []
    for name in tables.keys:
        # A column that a release lacks may be anything there.
        first, second = own_keys.get(name), their_keys.get(name)
        if first is None or second is None:
            inside &= second is None
            around &= first is None
            continue
        labels, codes = numbered(first)
        other_labels, other_codes = numbered(second)
        spec = tables.hierarchies.get(name)
        meet, small, large = relation_of(labels, other_labels, spec)
        known = explained_labels(labels, other_labels, spec)
        for side, shown, sizes in (("this", first, own_sizes), ("an earlier", second, their_sizes)):
            what = f"records of {side} release have a label of {name!r} that is explained"
            told = sizes[[label in known for label in shown]].sum()
            compared.append(Comparison(int(told), int(sizes.sum()), what, EXPLAIN))
        place = np.ix_(codes, other_codes)
        overlap &= meet[place]
        inside &= small[place]
        around &= large[place]
    nested = overlap & (inside | around)
    sizes = np.minimum(own_sizes[:, None], their_sizes[None, :])[overlap]
    smallest = int(min(own_sizes.min(), sizes.min(initial=own_sizes.min())))
    linked, joined_k = _linked(tables, new, old, own, theirs, overlap)
    return Joined(int((overlap & ~nested).sum()), smallest, linked, joined_k, least(compared))


def _classes(table: pa.Table, keys: Sequence[str]) -> tuple[Ints, dict[str, list[str | None]], Ints]:
    """The class of each row, the labels of each class by column, and its records."""
    columns = {name: _texts(table, name) for name in keys if name in table.schema.names}
    rows = list(zip(*columns.values(), strict=True)) if columns else [()] * table.num_rows
    seen: dict[tuple[str | None, ...], int] = {}
    numbers = np.array([seen.setdefault(row, len(seen)) for row in rows], dtype=np.int64)
    sizes = np.bincount(numbers, weights=table["__count"].to_numpy(), minlength=len(seen)).astype(np.int64)
    return numbers, {name: [row[at] for row in seen] for at, name in enumerate(columns)}, sizes


def _linked(
    tables: EarlierTables, new: pa.Table, old: pa.Table, own: Ints, theirs: Ints, overlap: Bools
) -> tuple[float, int]:
    """Share of new rows that a single earlier row fits, and rows of the smallest class they form together."""
    shared = [name for name in tables.joined if name in new.schema.names and name in old.schema.names]
    texts = _texts_of(new, shared), _texts_of(old, shared)
    seen: dict[tuple[str | None, ...], int] = {}
    told = [
        np.array([seen.setdefault(row, len(seen)) for row in _rows(side, table.num_rows)], dtype=np.int64)
        for side, table in zip(texts, (new, old), strict=True)
    ]
    counts, earlier = (table["__count"].to_numpy().astype(np.int64) for table in (new, old))
    order = np.argsort(told[1], kind="stable")
    starts = np.searchsorted(told[1][order], np.arange(len(seen) + 1))
    rows, pairs = 0, dict[tuple[int, int], int]()
    for at in range(len(own)):
        held = order[starts[told[0][at]] : starts[told[0][at] + 1]]
        fits = held[overlap[own[at], theirs[held]]]
        if earlier[fits].sum() == 1:
            rows += int(counts[at])
            pair = int(own[at]), int(theirs[fits[0]])
            pairs[pair] = pairs.get(pair, 0) + int(counts[at])
    return rows / int(counts.sum()), min(pairs.values(), default=0)


def _rows(columns: list[list[str | None]], number: int) -> list[tuple[str | None, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * number


def _texts_of(table: pa.Table, names: Sequence[str]) -> list[list[str | None]]:
    return [_texts(table, name) for name in names]


def _texts(table: pa.Table, name: str) -> list[str | None]:
    found: list[str | None] = canonical_text(table[name], None, column=name).to_pylist()
    return found

"""Which labels of two releases may stand for the same value, and which lie inside which."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import HierarchyError
from privpipe.hierarchies.interval_text import interval_ends
from privpipe.hierarchies.literals import exact_number
from privpipe.hierarchies.redact import Redact
from privpipe.hierarchies.spec import IN_NUMBERS

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["Relation", "explained_labels", "relation_of"]

Text = str | None
Flags = NDArray[np.bool_]
Relation = tuple[Flags, Flags, Flags]
"""Of each pair of labels: whether they overlap, whether the one lies inside the other, and the other inside the one."""

ANY = "*"


def relation_of(one: Sequence[Text], other: Sequence[Text], spec: HierarchySpec | None) -> Relation:
    """How the labels of one table lie to those of another.

    Labels of one hierarchy contain one another or have nothing in common. Ranges are compared by their ends, codes
    with masked characters (``0213*``) by the others. What reads as a range is one, also beside words. Without a
    hierarchy a text that is in both tables is a value of its own. A label that nothing explains overlaps every other,
    neither inside the other, so that nothing passes by it.

    Parameters
    ----------
    one, other : sequence of str or None
        Distinct labels of a column; None: a missing value, which is a value of its own where both tables have one,
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
    """The labels of two tables of which it is known what they stand for.

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

    ``40-59`` is a range whatever stands beside it: read as a code it would be apart from ``45-50``, and two tables
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
    """The declared hierarchy where it stands by itself (a file, a tree); others are made of values nobody has here."""
    if spec is None:
        return None
    try:
        found = spec.build([], [], None)
    except HierarchyError:
        return None
    return found if found.values else None


def _cover(label: Text, hierarchy: Hierarchy | None) -> Cover:
    """Codes of the values that a label of the hierarchy stands for at every level that has it, and at any of them.

    Both empty where it has no such label. Where a value has the name of a group as well, the label alone does not tell
    which of the two it is.
    """
    if hierarchy is None or label is None:
        return frozenset(), frozenset()
    levels = (hierarchy.texts(level) for level in range(hierarchy.height + 1))
    held = [frozenset(code for code, text in enumerate(texts) if text == label) for texts in levels if label in texts]
    return frozenset.intersection(*held) if held else frozenset(), frozenset().union(*held)

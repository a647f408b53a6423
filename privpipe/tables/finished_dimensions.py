"""The dimension of a finished table: the labels that it shows, nested as the policy's hierarchy nests them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.tables.aggregation import TableSpec
from privpipe.tables.cells import Dimension
from privpipe.tables.dimension_labels import MISSING, UNKNOWN, Ladder
from privpipe.tables.finished_checks import require_told_apart

__all__ = ["finished_dimension"]


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
    """A hierarchy of a builder that goes by values: of those labels that are values."""
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
    """The dimension without what the table shows nowhere: readers know nothing of it."""
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

"""A hierarchy before it is checked: what a file or builder proposes, and the conditions it must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.options import ROOT, Options, whose

__all__ = ["Draft", "check_levels_in_range", "checked", "level_warnings"]


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
        Somebody wrote the labels out, row by row or as a tree in place; no builder drew them from values.
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
        """Where value `index` stands in the source."""
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
            "levels in one column cannot tell them apart"
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

"""Patterns of hidden cells found subtable by subtable, from the top of the hierarchies to the bottom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.tables.audit_problem import Levels
from privpipe.tables.cells import LinkedCells
from privpipe.tables.least_cost_patterns import Limits, least_cost
from privpipe.tables.moves import Hiding
from privpipe.tables.subtables import Subtable, subtables

__all__ = ["hierarchical"]

SUBTABLE_LIMITS = Limits(nodes=1_000, rounds=20, entries=500_000)
LARGE_SUBTABLE = 300
LARGE_LIMITS = Limits(nodes=0, rounds=0, entries=0)
"""A subtable with more cells to choose from gets the cheapest moves one after the other, without cuts."""


def hierarchical(hiding: Hiding, linked: LinkedCells, hidden: Bools) -> Bools:
    """Protect the hidden cells of each subtable on its own, its margins as the subtables above left them.

    Source: de Wolf, HiTaS, LNCS 2316 (2002). Hidden margins must not be exact. Where inner cells do not suffice,
    margins are hidden too, and the subtables that have them are done again; hidden cells only grow in number. What
    cannot be protected in its subtable is left to the audit of the whole table and its repair.

    Parameters
    ----------
    hiding : Hiding
    linked : LinkedCells
    hidden : ndarray of bool
        Cells that are hidden already, the sensitive ones among them.

    Returns
    -------
    ndarray of bool
    """
    hidden = hidden.copy()
    parts = list(subtables(linked))
    holding: dict[int, list[int]] = {}
    for at, part in enumerate(parts):
        for cell in part.cells.tolist():
            holding.setdefault(cell, []).append(at)
    level_of = np.full(len(hiding), -1)
    level_of[hiding.levels.variables] = np.arange(len(hiding.levels.variables))
    waiting = {at for at, part in enumerate(parts) if hidden[part.cells].any()}
    while waiting:
        at = min(waiting)
        waiting.discard(at)
        added = _protected(hiding, parts[at], hidden, level_of)
        hidden[added] = True
        for cell in added.tolist():
            # The cell's other subtables have a hidden cell more; those that come later have it from the start.
            waiting.update(other for other in holding[cell] if other != at)
    return hidden


def _protected(hiding: Hiding, part: Subtable, hidden: Bools, level_of: Ints) -> Ints:
    """Cells to be hidden in addition, so that those hidden in a subtable are protected within it."""
    cells, inner = part.cells, part.inner
    protected = hidden[cells]
    if hiding.given is not None:
        # Unpublished cells may turn out exact.
        protected = protected & (hiding.primary[cells] | ~hiding.given[cells])
    here = np.flatnonzero(protected)
    if not len(here):
        return cells[:0]
    at = np.where(inner[here], level_of[cells[here]], -1)
    known = at >= 0
    levels = hiding.levels
    lower, upper, span = (
        np.where(known, figures[at], 0) if len(figures) else np.zeros(len(here), dtype=np.int64)
        for figures in (levels.lower, levels.upper, levels.span)
    )
    problem = Hiding(
        part.relations,
        hiding.true[cells],
        hiding.low[cells],
        hiding.high[cells],
        hiding.cost[cells],
        hiding.candidates[cells] & inner,
        Levels(here.astype(np.int64), lower, upper, span, levels.denominator),
        hiding.whole,
        given=None if hiding.given is None else hiding.given[cells],
    )
    limits = SUBTABLE_LIMITS if int(problem.open.sum()) <= LARGE_SUBTABLE else LARGE_LIMITS
    found = least_cost(problem, limits)
    if found.unattainable:
        found = least_cost(replace(problem, candidates=hiding.candidates[cells]), limits)
    return cells[found.hidden & ~hidden[cells]]

"""Betters a valid vector of levels by changing a few columns at once, until no such change loses less."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from privpipe.transforms.recoding.chance import Chance
from privpipe.transforms.recoding.comparison import is_below
from privpipe.transforms.recoding.explorer import Explorer, Visit
from privpipe.transforms.recoding.lattice import Lattice

__all__ = ["exchange", "exchange_on"]

Levels = tuple[int, ...]
Nodes = NDArray[np.int16]
WIDTHS = (1, 2, 3)
"""Columns that are changed at once; more of them only where fewer do not help."""
MOST = 200_000
"""Vectors looked at around one, at the most; wider changes are left out."""
KICKED = 4
IDLE = 100
"""So many starts in a row from which nothing new was checked: the lattice is small, and all is seen."""
REMEMBERED = 500
NEXT = 16
"""So many of the vectors in order are looked through for those that are checked ahead."""


def exchange(explorer: Explorer, start: Visit | None = None, widths: tuple[int, ...] = WIDTHS) -> None:
    """Go from a valid vector to better ones that differ in one to three columns, by any number of levels.

    A vector whose bound is not below the loss at hand is passed by unchecked, and so is one that is finer than a vector
    too fine. The others come by falling bound: those that lose little less are the likeliest to be valid.

    Parameters
    ----------
    start : Visit, optional
        Default: the best one seen.
    """
    here, hopeless, at = start or explorer.best, _Hopeless(explorer), 0
    while here is not None and at < len(widths):
        better = _bettered(explorer, hopeless, here, widths[at])
        here, at = (here, at + 1) if better is None else (better, 0)


def exchange_on(explorer: Explorer, until: float = 1.0) -> None:
    """`exchange`, then again from vectors a few columns away from the best, for a share of the time that is given.

    Its draws follow a public key of their own.
    """
    exchange(explorer)
    chance, idle = Chance("exchange"), 0
    while explorer.best is not None and explorer.spent_time() < until and idle < IDLE:
        start, before = explorer.best.levels, explorer.checked
        for _ in range(KICKED):
            start = chance.changed(explorer.lattice, start)
        exchange(explorer, _lifted(explorer, start), WIDTHS[:2])
        idle = 0 if explorer.checked > before else idle + 1


def _lifted(explorer: Explorer, start: Levels) -> Visit | None:
    """A valid vector on the way up from one, by the least rise of the bound at each step."""
    visit = explorer.visit(start)
    while visit.loss is None:
        higher = explorer.lattice.above(visit.levels)
        if not higher:
            return None
        visit = explorer.visit(higher[int(np.argmin(explorer.bounds(higher)[:, 0]))])
    return visit


class _Hopeless:
    """Vectors all of whose specializations are invalid."""

    def __init__(self, explorer: Explorer) -> None:
        self._found: list[Levels] = []
        self._budget = explorer.budget

    def learn(self, levels: Levels) -> None:
        """Remember one; the oldest is forgotten."""
        self._found.append(levels)
        del self._found[:-REMEMBERED]

    def spares(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Which vectors are below none of them."""
        spared = np.ones(len(nodes), dtype=np.bool_)
        for levels in self._found:
            spared &= (nodes > np.array(levels, dtype=np.int16)).any(axis=1)
        return spared


def _bettered(explorer: Explorer, hopeless: _Hopeless, here: Visit, width: int) -> Visit | None:
    """The first vector found that differs in so many columns and is better."""
    if here.loss is None:
        return None
    nodes = _around(explorer.lattice, here.levels, width)
    bounds = explorer.check.loss.bounds(nodes)[:, 0] if len(nodes) else np.zeros(0)
    likely = bounds < here.loss[0]
    order = np.argsort(-bounds[likely], kind="stable")
    nodes = nodes[likely][order]
    alive = hopeless.spares(nodes)
    for at in range(len(nodes)):
        if not alive[at]:
            continue
        levels: Levels = tuple(nodes[at].tolist())
        following = at + 1 + np.flatnonzero(alive[at + 1 : at + NEXT]) if explorer.is_ahead else ()
        visit = explorer.visit(levels, (tuple(nodes[place].tolist()) for place in following))
        if visit.must_go > explorer.budget:
            hopeless.learn(levels)
            alive[at:] &= (nodes[at:] > nodes[at]).any(axis=1)
        elif visit.loss is not None and is_below(visit.loss, here.loss):
            return visit
    return None


def _around(lattice: Lattice, levels: Levels, width: int) -> Nodes:
    """Every vector that differs from one in so many columns."""
    others = [[level for level in own if level != levels[at]] for at, own in enumerate(lattice.allowed)]
    found, many = [np.zeros((0, len(levels)), dtype=np.int16)], 0
    for columns in combinations(range(len(levels)), width):
        changed = np.array(list(product(*(others[at] for at in columns))), dtype=np.int16)
        many += len(changed)
        if many > MOST:
            break
        if len(changed):
            nodes = np.tile(np.array(levels, dtype=np.int16), (len(changed), 1))
            nodes[:, columns] = changed
            found.append(nodes)
    return np.concatenate(found)

"""Heuristics of a search: valid vectors of levels found soon, without a proof, and improved by exchanges of a few
columns.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools
from privpipe.draws import Draws, Seed
from privpipe.draws.stream import SHARED_SCHEME
from privpipe.transforms.recoding.explorer import Explorer, Lattice, Visit, is_below

__all__ = ["STRATEGIES", "Chance", "bottom_up", "climb", "datafly", "exchange", "exchange_on", "genetic", "top_down"]


Levels = tuple[int, ...]


class Chance:
    """A counter under a separate public key.

    Parameters
    ----------
    purpose : str
        Draws for one purpose do not follow those for another.
    """

    def __init__(self, purpose: str) -> None:
        self._stream = Draws(Seed.public("privpipe/search"), 0, "generalize", scheme=SHARED_SCHEME).of(purpose)
        self._words: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._next = 0

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
        if self._next % 4096 == 0:
            self._words = self._stream.counter(self._next, 4096)
        word = int(self._words[self._next % 4096])
        self._next += 1
        return (word * bound) >> 64

    def node(self, lattice: Lattice) -> Levels:
        """Any vector."""
        return tuple(levels[self.below(len(levels))] for levels in lattice.allowed)

    def crossed(self, one: Levels, other: Levels) -> Levels:
        """Each column's level of one or the other."""
        return tuple(a if self.below(2) else b for a, b in zip(one, other, strict=True))

    def stepped(self, lattice: Lattice, node: Levels) -> Levels:
        """A step up or down in one column."""
        steps = [*lattice.above(node), *lattice.below(node)]
        return steps[self.below(len(steps))] if steps else node

    def changed(self, lattice: Lattice, node: Levels) -> Levels:
        """Any level in one column."""
        at = self.below(len(node))
        levels = lattice.allowed[at]
        return (*node[:at], levels[self.below(len(levels))], *node[at + 1 :])


Nodes = NDArray[np.int16]
WIDTHS = (1, 2, 3)
"""Columns that are changed at once; more of them only where fewer do not help."""
MOST = 200_000
"""Vectors looked at around one, at most; wider changes are left out."""
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

    Its draws follow a separate public key.
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

    def spares(self, nodes: Nodes) -> Bools:
        """Which vectors are below none of them."""
        spared = np.ones(len(nodes), dtype=np.bool_)
        for levels in self._found:
            spared &= (nodes > np.array(levels, dtype=np.int16)).any(axis=1)
        return spared


def _bettered(explorer: Explorer, hopeless: _Hopeless, here: Visit, width: int) -> Visit | None:
    """The first better vector found that differs in this number of columns."""
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
    """Every vector that differs from one in this number of columns."""
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


POPULATION = 100
GENERATIONS = 50
ELITE, CROSSED, MUTATED, ARRIVED = 20, 20, 20, 20
ARRIVALS_EVERY = 10


def datafly(explorer: Explorer) -> None:
    """Raise the column with most distinct labels until the failing classes may be suppressed.

    Source: Sweeney, IJUFKS 10(5), 2002. Of columns with equally many the first is raised.
    """
    table, lattice = explorer.check.table, explorer.lattice
    node = lattice.bottom
    while explorer.visit(node).loss is None:
        raised = lattice.above(node)
        if not raised:
            return
        seen = []
        for higher in raised:
            at = next(place for place, (a, b) in enumerate(zip(node, higher, strict=True)) if a != b)
            labels = table.lookups[at][node[at]][1]
            seen.append(len(np.unique(labels[table.codes[:, at]])))
        node = raised[int(np.argmax(seen))]


def climb(explorer: Explorer) -> Visit | None:
    """From the finest levels raise the column that spares most suppressed records for the loss it adds, until valid."""
    here: Visit | None = explorer.visit(explorer.lattice.bottom)
    while here is not None and here.loss is None:
        here = _raised(explorer, here)
    return here


def bottom_up(explorer: Explorer) -> None:
    """Climb to the first valid vector and on to the coarsest levels, then go from the best by single steps.

    The first valid vector may suppress all that the limit allows; those above it suppress less. Single steps are taken
    while they lose less.
    """
    here = climb(explorer)
    while here is not None:
        here = _raised(explorer, here)
    _go_on(explorer)


def _raised(explorer: Explorer, here: Visit) -> Visit | None:
    """The step up that spares most records for the loss it adds; None at the coarsest levels."""
    steps = list(explorer.visits(explorer.lattice.above(here.levels)))
    if not steps:
        return None
    least = explorer.bounds([here.levels, *(step.levels for step in steps)])[:, 0]
    spared = np.array([_gone(explorer, here) - _gone(explorer, step) for step in steps], dtype=np.float64)
    paid = np.maximum(least[1:] - least[0], 1e-9)
    # Where nothing is spared, the cheapest step.
    score = np.where(spared > 0, spared / paid, -paid)
    return steps[int(np.argmax(score))]


def _go_on(explorer: Explorer) -> None:
    """Single steps from the best vector, for as long as they lose less."""
    stuck: Visit | None = None
    while explorer.best is not stuck and explorer.best is not None:
        stuck = explorer.best
        around = (*explorer.lattice.above(stuck.levels), *explorer.lattice.below(stuck.levels))
        for _ in explorer.visits(around):
            pass  # its result is the best


def top_down(explorer: Explorer) -> None:
    """From the coarsest levels lower the column that cuts most loss while the outcome stays valid."""
    lattice = explorer.lattice
    here = explorer.visit(lattice.top)
    while here.loss is not None:
        best: Visit | None = None
        for step in explorer.visits(lattice.below(here.levels)):
            if step.loss is not None and (best is None or best.loss is None or is_below(step.loss, best.loss)):
                best = step
        if best is None or best.loss is None or not is_below(best.loss, here.loss):
            return
        here = best


def genetic(explorer: Explorer) -> None:
    """A population of vectors that are crossed and changed, the valid and cheap ones staying.

    100 vectors over 50 generations: a fifth stays, a fifth is crossed, a fifth changed by a step, and every tenth
    generation a fifth is drawn afresh. Its draws follow a separate public key, so the same table gives the same
    outcome. Source: the defaults of ARX.
    """
    chance = Chance("genetic")
    people = [explorer.lattice.bottom, explorer.lattice.top]
    people += [chance.node(explorer.lattice) for _ in range(POPULATION - len(people))]
    for generation in range(GENERATIONS):
        ranked = _ranked(explorer, people)
        children = ranked[:ELITE]
        for _ in range(CROSSED):
            children.append(
                chance.crossed(ranked[chance.below(POPULATION // 2)], ranked[chance.below(POPULATION // 2)])
            )
        for _ in range(MUTATED):
            children.append(chance.stepped(explorer.lattice, ranked[chance.below(POPULATION // 2)]))
        if generation % ARRIVALS_EVERY == ARRIVALS_EVERY - 1:
            children += [chance.node(explorer.lattice) for _ in range(ARRIVED)]
        people = (children + ranked[ELITE:])[:POPULATION]
    _ranked(explorer, people)


STRATEGIES: dict[str, Callable[[Explorer], None]] = {
    "datafly": datafly,
    "bottom_up": bottom_up,
    "top_down": top_down,
    "genetic": genetic,
}
"""By the name a policy gives."""


def _gone(explorer: Explorer, visit: Visit) -> int:
    return visit.suppressed if visit.suppressed >= 0 else explorer.check.table.records


def _ranked(explorer: Explorer, people: list[Levels]) -> list[Levels]:
    """Valid ones by loss, then the others by their suppression; equal ones by their levels."""

    visits = {visit.levels: visit for visit in explorer.visits(people)}

    def rank(node: Levels) -> tuple[bool, tuple[float, ...], Levels]:
        visit = visits[node]
        figures = (float(_gone(explorer, visit)),) if visit.loss is None else visit.loss
        return visit.loss is None, figures, node

    return sorted(people, key=rank)

"""Strategies that find a valid vector of levels soon, without a proof."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privpipe.transforms.recoding.chance import Chance
from privpipe.transforms.recoding.comparison import is_below
from privpipe.transforms.recoding.explorer import Explorer, Visit

__all__ = ["STRATEGIES", "bottom_up", "climb", "datafly", "genetic", "top_down"]

Levels = tuple[int, ...]
POPULATION = 100
GENERATIONS = 50
ELITE, CROSSED, MUTATED, ARRIVED = 20, 20, 20, 20
ARRIVALS_EVERY = 10


def datafly(explorer: Explorer) -> None:
    """Raise the column with most distinct labels until what fails may be suppressed.

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
    """The step up that spares most for what it adds; None at the coarsest levels."""
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
            pass  # what it finds is the best


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
    generation a fifth arrives anew. Its draws follow a public key of their own, so the same table gives the same
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
    """The valid by loss, then the others by what they suppress; equal ones by their levels."""

    visits = {visit.levels: visit for visit in explorer.visits(people)}

    def rank(node: Levels) -> tuple[bool, tuple[float, ...], Levels]:
        visit = visits[node]
        figures = (float(_gone(explorer, visit)),) if visit.loss is None else visit.loss
        return visit.loss is None, figures, node

    return sorted(people, key=rank)

"""The optimal vector of levels, with a proof: every node is checked, dominated, or excluded by a witness or a bound."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.kernels.lattice.vectors import (
    added_up,
    below,
    chosen_witnesses,
    class_everywhere,
    raise_bounds,
    still_alive,
)
from privpipe.models import KAnonymity
from privpipe.progress import within
from privpipe.transforms.recoding.explorer import (
    Explorer,
    Found,
    Lattice,
    Limits,
    Loss,
    Solution,
    Spent,
    above_and_not_below,
    is_below,
    solution_of,
    tie,
    tied,
)
from privpipe.transforms.recoding.heuristics import exchange, genetic, top_down
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck, Round

__all__ = ["LatticeSearch", "Witnesses", "ended_search", "finer_fails_too", "search_optimal"]


Keys = tuple[str, ...]
LARGEST = 1 << 24
"""Entries of a class's profile over the lattice; beyond it no witness is called."""


class Witnesses:
    """Records named so far, and how many of them each vector of levels loses.

    Parameters
    ----------
    check : NodeCheck
    shape : tuple of int
        Levels of each column: nodes are in lexicographic order.
    """

    def __init__(self, check: NodeCheck, shape: tuple[int, ...]) -> None:
        self._check = check
        self._shape = shape
        strides = np.concatenate([np.cumprod(np.array(shape[::-1], dtype=np.int64))[::-1][1:], [1]])
        self._strides: list[int] = [int(stride) for stride in strides]
        self._nodes = int(np.prod(shape, dtype=np.int64))
        self._lost = np.full(self._nodes, check.table.unknown, dtype=np.int64)
        self._called: set[int] = set()
        self._rarity = _rarity(check)

    @property
    def called(self) -> int:
        """Combinations called."""
        return len(self._called)

    def serves(self) -> bool:
        """Whether there are rules a witness can speak to, and memory to hear it."""
        check = self._check
        widths = [check._values[column] for column in check.sets.sensitive] or [1]
        return check.counts_records and bool(check.sets.class_models) and self._nodes * max(widths) <= LARGEST

    def lost(self, node: CheckedNode, alive: Ints, most: int) -> Ints:
        """Call up to `most` records of failing classes of a node; records lost at least at each node of `alive`."""
        for keys, each in node.rounds.items():
            for row in self._chosen(each, most):
                self._call(keys, row, alive)
        found: Ints = self._lost[alive]
        return found

    def _chosen(self, each: Round, most: int) -> list[int]:
        """Rows of failing classes: of the smallest the rarest, then those that differ most from all before."""
        asked = each.classes.spread(each.failing)
        asked[list(self._called)] = False
        codes = self._check.table.codes
        rows: list[int] = chosen_witnesses(asked, each.numbers, each.sizes, self._rarity, codes, most).tolist()
        return rows

    def _call(self, keys: Keys, row: int, alive: Ints) -> None:
        check = self._check
        self._called.add(row)
        models = check.sets.class_models[keys]
        tables = check.packed.meetings(row, keys, self._strides)
        nothing = np.zeros(len(check.table), dtype=np.int32)
        columns = tuple(dict.fromkeys(column for model in models for column in model.sensitive_columns()))
        profiles = {}
        for column in columns or ("",):
            profiles[column] = class_everywhere(
                check.packed.codes,
                tables,
                check._codes[column] if column else nothing,
                check.table.rows.counts,
                self._shape,
                check._values[column] if column else 1,
            )[alive]
        sizes = next(iter(profiles.values())).sum(axis=1)
        fails = sizes < max(model.least_size() for model in models)
        others = [model for model in models if type(model) is not KAnonymity]
        if others and not fails.all():
            large = np.flatnonzero(~fails)
            cells = {column: _cells(profiles[column][large]) for column in columns}
            block = ClassBlock(sizes[large], cells)
            for model in others:
                fails[large] |= ~model.passing(block, check.context.base)
        self._lost[alive[fails]] += check.table.rows.counts[row]


def _cells(profile: Ints) -> Cells:
    """Cells of classes given by their whole histograms, shape (n, values)."""
    places, codes = np.nonzero(profile)
    lengths = np.bincount(places, minlength=len(profile))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Cells(offsets, codes.astype(np.int64), profile[places, codes])


def _rarity(check: NodeCheck) -> Floats:
    """How common each combination's values are: the sum of the logarithms of their records."""
    table = check.table
    totals = table.packed.totals(table.rows.counts).astype(np.float64)
    ends = np.cumsum([len(own[0][1]) for own in table.lookups])
    starts = np.concatenate([[0], ends[:-1]])
    return np.round(added_up(table.codes, np.log(np.maximum(totals, 1.0)), starts), 9)


FEW = 100
"""A budget of so few records is soon used up by records that are known one by one."""
EACH = 2
LARGE = 1 << 16
GREEDY = 1000
REPORTED = 1000
log = logging.getLogger("privpipe.search")


def search_optimal(check: NodeCheck, budget: int, node_limit: int) -> tuple[Found | None, int]:
    """The feasible node of least loss; None when there is none (or none was found within the limits).

    Among nodes of equal loss the smallest vector of levels wins.

    Parameters
    ----------
    budget : int
        Records that may be suppressed.
    node_limit : int
        Checks allowed.

    Returns
    -------
    (Found or None, int)
        The outcome and the number of nodes checked.
    """
    search = ended_search(check, Lattice.of(check.table), budget, Limits(node_limit))
    return search.found(), search.checked


def ended_search(check: NodeCheck, lattice: Lattice, budget: int, limits: Limits) -> LatticeSearch:
    """The search of `search_optimal` once it has ended.

    Under a limit of time it continues from the result of the genetic search and exchanges, so it never finds less.
    """
    search = LatticeSearch(check, budget, lattice.nodes(), limits.nodes, limits.seconds)
    if limits.seconds is not None:
        _start_from(search, Explorer(check, lattice, budget, limits), _genetic_and_exchange)
    elif lattice.size > LARGE and budget:
        # A good solution at once spares sorting and sifting a large lattice again and again.
        _start_from(search, Explorer(check, lattice, budget, Limits(min(limits.nodes, GREEDY))), top_down)
    if not search.interrupted:
        search.run()
    return search


def _genetic_and_exchange(explorer: Explorer) -> None:
    genetic(explorer)
    exchange(explorer)


def _start_from(search: LatticeSearch, explorer: Explorer, strategy: Callable[[Explorer], None]) -> None:
    try:
        strategy(explorer)
    except Spent:
        pass  # the best so far will do
    except KeyboardInterrupt:
        if explorer.best is None:
            raise
        search.interrupted = True
    search.checked += explorer.checked
    if explorer.best is not None:
        search.start_from(explorer.best.levels)


class LatticeSearch:
    """A search over a lattice whose nodes are all held, in lexicographic order.

    A node that fails hopelessly takes all its specializations along, a feasible one every node whose bound is worse;
    records that must go raise the bounds of specializations. Where nothing may be suppressed and the loss is known
    beforehand, nodes are taken best first and records of failing classes speak against others; elsewhere from the
    middle of the open nodes, sorted by bound: low ones are infeasible and cut little, high ones are poor.

    Parameters
    ----------
    nodes : ndarray of int16, shape (M, m)
    """

    def __init__(
        self, check: NodeCheck, budget: int, nodes: NDArray[np.int16], node_limit: int, seconds: float | None = None
    ) -> None:
        self.check = check
        self.budget = budget
        self.nodes = nodes
        self.node_limit = node_limit
        self.end = None if seconds is None else time.monotonic() + seconds
        self.bounds = check.loss.bounds(nodes)
        # In order of cost a search ends at the first feasible node, which pays where witnesses clear the way.
        self.best_first = budget == 0 and check.loss.closed_form and check.loss.width == 1 and check.counts_records
        self.alive = self._ordered()
        self.quantile = 0.7 if 100 * budget < check.table.records or _any_convex(check) else 0.5
        self.all_or_nothing = budget == 0 and finer_fails_too(check)
        self.witnesses = self._witnesses()
        self.feasible: list[tuple[int, Solution]] = []
        self.least: Loss = ()
        self.winner = -1
        self.checked = self.by_bound = self.by_mandatory = self.by_witness = 0
        self.interrupted = False
        self._current = -1

    def run(self) -> None:
        """Until nothing is left or a limit is reached; an interrupt ends it as a limit does, once there is a solution.

        Raises
        ------
        KeyboardInterrupt
            No solution yet.
        """
        try:
            while len(self.alive) and self.checked < self.node_limit and not self._late():
                self._step()
        except KeyboardInterrupt:
            if not self.feasible:
                raise
            self.interrupted = True
            if self._current >= 0:
                self.alive = np.append(self.alive, self._current)  # known facts about it may not have been used

    def start_from(self, levels: tuple[int, ...]) -> None:
        """Check a node out of turn."""
        at = int(np.flatnonzero((self.nodes == np.array(levels, dtype=np.int16)).all(axis=1))[0])
        self._look(int(np.flatnonzero(self.alive == at)[0]))

    def found(self) -> Found | None:
        """The best node so far, and whether it is proved."""
        if not self.feasible:
            return None
        best = self.check(tuple(self.nodes[self.winner].tolist()))
        loss, columns = self.check.loss.exact(best.levels, best.rows)
        left = self.bounds[self.alive, 0]
        return Found(
            best,
            loss,
            columns,
            not len(left),
            max(0.0, loss[0] - float(left.min())) if len(left) else 0.0,
            self.checked,
            self.by_bound,
            self.by_mandatory,
            self.by_witness,
            tuple(sorted(solution for _, solution in self.feasible)),
            {"interrupted": True} if self.interrupted else {},
        )

    def _step(self) -> None:
        self._look(0 if self.best_first else _at_quantile(self.bounds[self.alive], self.quantile))

    def _look(self, place: int) -> None:
        """Check the node at a place among those alive, and draw every conclusion."""
        at = self._taken(place)
        node = (self.check if self.budget else self.check.whole)(tuple(self.nodes[at].tolist()))
        self.checked += 1
        if 0 <= node.suppressed <= self.budget:
            self._accept(at, node)
        else:
            self._reject(at, node)
        self._raise_above(at, node)
        self._current = -1
        within("nodes", len(self.nodes) - len(self.alive), len(self.nodes))
        if self.checked % REPORTED == 0:
            gap = self.least[0] - float(self.bounds[self.alive, 0].min(initial=np.inf)) if self.least else np.nan
            log.debug("%d nodes checked, %d alive, gap %.3g", self.checked, len(self.alive), gap)

    def _taken(self, place: int) -> int:
        """The node at a place, no longer alive."""
        self._current = int(self.alive[place])
        self.alive = np.concatenate([self.alive[:place], self.alive[place + 1 :]])
        return self._current

    def _accept(self, at: int, node: CheckedNode) -> None:
        loss, _ = self.check.loss.exact(node.levels, node.rows)
        solution = solution_of(self.check, node, loss)
        if not self.least or is_below(loss, self.least):
            self.winner = min([at, *(place for place, each in self.feasible if tied(each.loss, loss))])
            self.least = loss
        elif tied(loss, self.least):
            self.winner = min(self.winner, at)
        self.feasible.append((at, solution))
        self._sharpen(at, node)
        self._drop_poor()

    def _reject(self, at: int, node: CheckedNode) -> None:
        if node.must_go > self.budget or (self.all_or_nothing and node.suppressed != 0):
            hopeless = below(self.nodes, self.alive, self.nodes[at])
            self.by_mandatory += int(hopeless.sum())
            self.alive = self.alive[~hopeless]
        elif self._sharpen(at, node):
            self._drop_poor()
        if self.witnesses is not None and len(self.alive):
            lost = self.witnesses.lost(node, self.alive, EACH) > self.budget
            self.by_witness += int(lost.sum())
            self.alive = self.alive[~lost]

    def _sharpen(self, at: int, node: CheckedNode) -> bool:
        """Raise bounds below a node by the records that must be suppressed there; whether any was raised."""
        forced = (
            node.forced(self.check.table.columns) if self.budget and node.must_go > self.check.table.unknown else None
        )
        if forced is None:
            return False
        chosen = self.alive[below(self.nodes, self.alive, self.nodes[at])]
        if not len(chosen):
            return False
        raised = self.check.loss.forced_bounds(self.nodes[chosen], forced)
        if self.bounds.shape[1] == 1:
            return raise_bounds(self.bounds, chosen, raised)
        higher = above_rowwise(raised, self.bounds[chosen])
        self.bounds[chosen[higher]] = raised[higher]
        return bool(higher.any())

    def _raise_above(self, at: int, node: CheckedNode) -> None:
        """Raise bounds above a node, where its own figure is one."""
        if self.check.loss.closed_form:
            return
        figure = self.check.loss.upward_bound(node.levels)
        if figure is None or not len(self.alive):
            return
        above = (self.nodes[self.alive] >= self.nodes[at]).all(axis=1)
        chosen = self.alive[above]
        self.bounds[chosen, 0] = np.maximum(self.bounds[chosen, 0], figure)
        self._drop_poor()

    def _drop_poor(self) -> None:
        """Drop nodes that cannot be better, or no better and after the winner in order."""
        if not self.least:
            return
        before = len(self.alive)
        if len(self.least) == 1:
            (least,) = self.least
            self.alive = still_alive(self.bounds, self.alive, least + tie(least), least, self.winner)
        else:
            above, not_below = above_and_not_below(self.bounds[self.alive], self.least)
            self.alive = self.alive[~(above | (not_below & (self.alive > self.winner)))]
        self.by_bound += before - len(self.alive)

    def _ordered(self) -> Ints:
        """Nodes by bound; equal ones by levels, or else by how general they are, so that a middle means something."""
        places = np.arange(len(self.nodes))
        if self.best_first:
            return np.lexsort((places, self.bounds[:, 0])).astype(np.int64)
        heights = np.maximum(self.nodes.max(axis=0, initial=0), 1)
        general = np.round((self.nodes / heights).sum(axis=1), 9)
        return np.lexsort((places, general, *self.bounds.T[::-1])).astype(np.int64)

    def _witnesses(self) -> Witnesses | None:
        if self.budget > FEW or len(self.nodes) < 2:
            return None
        spans = self.nodes.max(axis=0).astype(np.int64) - self.nodes.min(axis=0) + 1
        shape = tuple(spans.tolist())
        allowed = [each.max_level - each.min_level + 1 for each in self.check.table.hierarchies]
        whole = list(shape) == allowed and len(self.nodes) == math.prod(shape)
        witnesses = Witnesses(self.check, shape) if whole else None
        return witnesses if witnesses is not None and witnesses.serves() else None

    def _late(self) -> bool:
        return self.end is not None and time.monotonic() > self.end


def above_rowwise(one: Floats, other: Floats) -> Bools:
    """Which rows are greater than those of another table, compared entry by entry, left to right.

    Examples
    --------
    >>> above_rowwise(np.array([[1.0, 2.0], [0.0, 9.0]]), np.array([[1.0, 1.0], [1.0, 0.0]])).tolist()
    [True, False]
    """
    greater = np.zeros(len(one), dtype=np.bool_)
    equal = np.ones(len(one), dtype=np.bool_)
    for a, b in zip(one.T, other.T, strict=True):
        greater |= equal & (a > b)
        equal &= a == b
    return greater


def _at_quantile(bounds: Floats, quantile: float) -> int:
    """Place of the row at a quantile of the rows in order; equal ones in their given order."""
    rank = min(int(quantile * len(bounds)), len(bounds) - 1)
    if bounds.shape[1] > 1:
        return int(np.lexsort((np.arange(len(bounds)), *bounds.T[::-1]))[rank])
    figures = bounds[:, 0]
    figure = np.partition(figures, rank)[rank]
    return int(np.flatnonzero(figures == figure)[rank - int((figures < figure).sum())])


def finer_fails_too(check: NodeCheck) -> bool:
    """Whether a table that fails without suppression fails at every finer vector of levels too."""
    models = [model for group in check.sets.class_models.values() for model in group]
    return not check.sets.size_models and all(
        check.sets.hereditary(model) or check.sets.convex(model) for model in models
    )


def _any_convex(check: NodeCheck) -> bool:
    models = [model for group in check.sets.class_models.values() for model in group]
    return any(check.sets.convex(model) and not check.sets.hereditary(model) for model in models)

"""Microaggregation of many records: MDAV and refinement inside blocks, then passes over the borders of the blocks.

The result depends only on the points and the keyed order of the records, never on the order in which they arrive or
the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.draws import Stream
from privpipe.errors import NoSolutionError, UsageError
from privpipe.kernels.microaggregation.groups import ANYTHING, GroupCondition, by_first_member, merged_groups, restored
from privpipe.kernels.microaggregation.kd_tree import learn_tree
from privpipe.kernels.microaggregation.lower_bound import provable, proved_search, recombined_search
from privpipe.kernels.microaggregation.mdav import mdav_groups, v_mdav_groups
from privpipe.kernels.microaggregation.refine import descend, group_sse, path_step

__all__ = [
    "BLOCK",
    "BORDER_SHIFTS",
    "CELLS_IN_LARGE",
    "NEAR",
    "NEAR_IN_LARGE",
    "ONE_BLOCK",
    "Refinement",
    "block_groups",
    "block_proof",
    "border_passes",
    "group_means",
    "microaggregate",
    "regroup",
    "sampled_share",
]

ONE_BLOCK = 20_000
"""Up to this many records are one block by default."""

BLOCK = 4_000
"""Most records of a block in larger tables."""

SAMPLED, SAMPLED_A_BLOCK = 25_000, 256
"""Trees are cut from all records up to the first number; above from that many, or the second per block, if more."""

NEAR, NEAR_IN_LARGE, CELLS_IN_LARGE = 20, 10, 4
"""Neighbours that descent examines, those in large tables, and there the cells in which it searches for them."""

BORDER_SHIFTS = (1, 3)
"""Levels of the tree that a border pass cuts at the quarter, pass by pass."""


class Refinement(NamedTuple):
    """How groups are refined: the path step, descent and, with draws, search.

    Parameters
    ----------
    neighbours, cells : int, optional
        As in `descend`.
    searching, iterations
        Search after the descent, with the draws of this stream and this number of steps (see `search`).
    proving
        After the search, choose among all groups that column generation finds (see `proved_search`).
    """

    neighbours: int | None = None
    cells: int | None = None
    searching: Stream | None = None
    iterations: int | None = None
    proving: bool = False


def block_groups(
    points: Floats,
    order: Ints,
    k: int,
    *,
    refinement: Refinement | None = Refinement(),  # noqa: B008 - a tuple
    largest: int | None = None,
    gamma: float | None = None,
    condition: GroupCondition = ANYTHING,
) -> Ints:
    """Groups of the records of one block: MDAV, then, if requested, the path step, descent and search.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised, n >= k.
    order : ndarray of int64, shape (n,)
        Positions in keyed order (`Stream.arrange`), which breaks all ties.
    k : int
        At least 1.
    refinement : Refinement or None
    largest : int, optional
        A block of at least twice this many records (one that no cut could divide) is chunked along its sorted values.
    gamma : float, optional
        V-MDAV with this gamma instead of MDAV.
    condition : GroupCondition
        Groups are merged until each meets it, and refined within it.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record, 0 .. groups - 1, all of k records or more; numbered by the keyed order.

    Raises
    ------
    NoSolutionError
        All the records together fail the condition.

    Examples
    --------
    >>> points = np.array([[0.0], [9.0], [0.1], [9.1], [0.2], [9.2]])
    >>> block_groups(points, np.arange(6), 3).tolist()
    [0, 1, 0, 1, 0, 1]
    """
    arranged, bound = np.asarray(points, dtype=np.float64)[order], condition.of(order)
    labels = np.empty(len(arranged), np.int64)
    groups = 0
    for chunk in _chunks(arranged, k, None if len(bound.codes) else largest):
        inside, here = arranged[chunk], bound.of(chunk)
        even = bool((inside == inside[0]).all())
        found = np.minimum(np.arange(len(chunk)) // k, len(chunk) // k - 1) if even else _grown(inside, k, gamma)
        if len(here.codes):
            found = _conditioned(inside, found, here)
        if refinement is not None and not even:
            _, _, searching, steps, proving = refinement
            found = _descended(inside, found, k, refinement, here)
            if searching is not None and proving and not len(here.codes) and provable(len(inside), k):
                found = proved_search(inside, found, k, searching, iterations=steps).labels
            elif searching is not None:
                found = recombined_search(inside, found, k, searching, iterations=steps, condition=here)
        labels[chunk] = groups + found
        groups += int(found.max()) + 1
    return restored(by_first_member(labels), order)


def block_proof(
    points: Floats, order: Ints, k: int, refinement: Refinement, gamma: float | None = None
) -> tuple[float, float] | None:
    """SSE of the groups that `block_groups` makes of a block with `proving`, and a lower bound of the least SSE.

    Parameters
    ----------
    points, order, k, refinement, gamma
        As in `block_groups`.

    Returns
    -------
    tuple of float, or None
        No groups of k records or more have an SSE below the second; None: nothing was proved.

    Examples
    --------
    >>> points = np.array([[0.0], [9.0], [1.0], [8.0], [2.0], [7.0]])
    >>> proved = block_proof(points, np.arange(6), 3, Refinement(searching=Stream(bytes(16)), proving=True))
    >>> [round(each, 6) for each in proved]
    [4.0, 4.0]
    """
    arranged = np.asarray(points, dtype=np.float64)[order]
    if refinement.searching is None or not provable(len(arranged), k):
        return None
    if bool((arranged == arranged[0]).all()):
        return 0.0, 0.0
    start = _descended(arranged, _grown(arranged, k, gamma), k, refinement)
    proof = proved_search(arranged, start, k, refinement.searching, iterations=refinement.iterations)
    lost = group_sse(arranged, proof.labels)
    return lost, min(lost, proof.bound)


def _grown(points: Floats, k: int, gamma: float | None) -> Ints:
    return mdav_groups(points, k) if gamma is None else v_mdav_groups(points, k, gamma)


def _descended(
    points: Floats,
    labels: Ints,
    k: int,
    refinement: Refinement,
    condition: GroupCondition = ANYTHING,
) -> Ints:
    """Groups after the path step, which is skipped under a condition, and the descent."""
    start = labels if len(condition.codes) else path_step(points, labels, k)
    near, cells = refinement.neighbours, refinement.cells
    return descend(points, start, k, neighbours=near, cells=cells, condition=condition)


def _conditioned(points: Floats, labels: Ints, condition: GroupCondition) -> Ints:
    merged = merged_groups(points, by_first_member(labels), condition)
    if merged is None:
        raise NoSolutionError(
            f"{len(points):,} records of one block together do not meet the condition on the sensitive column; "
            "the plan was made for another table"
        )
    return by_first_member(merged)


def regroup(
    points: Floats,
    labels: Ints,
    order: Ints,
    k: int,
    *,
    neighbours: int | None = None,
    cells: int | None = None,
    condition: GroupCondition = ANYTHING,
) -> Ints:
    """Descent over whole groups that a border pass combined.

    Parameters
    ----------
    points, order, k, neighbours, cells, condition
        As in `block_groups`.
    labels : ndarray of int64, shape (n,)
        Any integers that distinguish the groups; each of k records or more.

    Examples
    --------
    >>> points = np.array([[0.0], [9.0], [0.1], [9.1], [0.2], [9.2]])
    >>> regroup(points, np.array([7, 7, 7, 5, 5, 5]), np.arange(6), 3).tolist()
    [0, 1, 0, 1, 0, 1]
    """
    arranged = np.asarray(points, dtype=np.float64)[order]
    start = by_first_member(np.asarray(labels)[order])
    found = descend(arranged, start, k, neighbours=neighbours, cells=cells, condition=condition.of(order))
    return restored(by_first_member(found), order)


def sampled_share(records: int, k: int, block: int) -> float:
    """Share of the records from which block trees are cut: enough per block to cut it with k on either side.

    Examples
    --------
    >>> sampled_share(20_000, 3, 4_000), sampled_share(1_000_000, 3, 4_000)
    (1.0, 0.064)
    """
    return min(1.0, max(SAMPLED / max(records, 1), SAMPLED_A_BLOCK / block, 4.0 * k / block))


def border_passes(k: int) -> int:
    """Passes over the borders of blocks by default: as many as are needed to lose less than MDAV over all records.

    One for k up to 5. For larger k, descent inside the blocks gains more on MDAV than their borders lose, and takes
    longer compared with MDAV; each further pass gains a percent or two.

    Examples
    --------
    >>> border_passes(3), border_passes(10)
    (1, 0)
    """
    return 1 if k <= 5 else 0


def group_means(values: Floats, labels: Ints, order: Ints) -> Floats:
    """Mean of each group and column, its sums run in keyed order.

    Parameters
    ----------
    values : ndarray of float64, shape (n, s)
    labels : ndarray of int64, shape (n,)
        0 .. groups - 1, every one in use.
    order : ndarray of int64, shape (n,)

    Returns
    -------
    ndarray of float64, shape (groups, s)

    Examples
    --------
    >>> group_means(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]), np.arange(3)).tolist()
    [[2.0], [5.0]]
    """
    arranged, groups = np.asarray(values, dtype=np.float64)[order], np.asarray(labels)[order]
    sizes = np.bincount(groups)
    sums = [np.bincount(groups, weights=column) for column in arranged.T]
    return np.column_stack([total / sizes for total in sums]) if sums else np.empty((len(sizes), 0))


def microaggregate(
    points: Floats,
    order: Ints,
    k: int,
    *,
    block: int | None = None,
    refine: bool = True,
    passes: int | None = None,
    workers: int = 1,
) -> Ints:
    """The whole algorithm on records that are all in one place.

    Parameters
    ----------
    points, order, k
        As in `block_groups`.
    refine : bool
    block : int, optional
        Largest number of records of a block, at least 2k. Default: all in one up to 20,000 records, else 4,000.
    passes : int, optional
        Border passes (with refinement only), at most 2. Default: `border_passes`.
    workers : int
        Threads; the groups do not depend on their number.

    Returns
    -------
    ndarray of int64, shape (n,)
        Groups of k .. 2k - 1 records, numbered by the keyed order.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(500, 2))
    >>> sizes = np.bincount(microaggregate(points, np.arange(500), 5, block=100))
    >>> int(sizes.min()), bool(sizes.max() < 10)
    (5, True)
    """
    array = np.asarray(points, dtype=np.float64)
    size = block if block is not None else (len(array) if len(array) <= ONE_BLOCK else BLOCK)
    passes = border_passes(k) if passes is None else passes
    if not 0 <= passes <= len(BORDER_SHIFTS) or (block is not None and block < 2 * k):
        raise UsageError(f"a block must hold at least 2k records, with at most two border passes, got {block}")
    few = len(array) <= ONE_BLOCK
    neighbours, cells = (NEAR, None) if few else (NEAR_IN_LARGE, CELLS_IN_LARGE)
    refinement = Refinement(neighbours, cells) if refine else None

    def fresh(members: Ints) -> Ints:
        kept = np.arange(len(members))
        return block_groups(array[members], kept, k, refinement=refinement, largest=size)

    share = sampled_share(len(array), k, max(size, 1))
    some = array[order[: math.ceil(share * len(array))]]
    largest = max(int(share * size), 1)
    tree = learn_tree(some, k, largest, shell=True)
    labels = _each_block(tree.path(array), order, fresh, workers)
    for shift in BORDER_SHIFTS[: passes if refine and tree.blocks > 1 else 0]:
        before = labels

        def again(members: Ints, before: Ints = before) -> Ints:
            kept = np.arange(len(members))
            return regroup(array[members], before[members], kept, k, neighbours=neighbours, cells=cells)

        means = group_means(array, labels, order)
        blocks = learn_tree(some, k, largest, shift=shift).path(means)
        labels = _each_block(blocks[labels], order, again, workers)
    return labels


def _each_block(
    blocks: Ints,
    order: Ints,
    groups_of: Callable[[Ints], Ints],
    workers: int,
) -> Ints:
    """Group the records of each block separately, on threads: the kernels release the interpreter's lock."""
    members = _members(blocks, order)
    labels, groups = np.empty(len(order), np.int64), 0
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for inside, found in zip(members, pool.map(groups_of, members), strict=True):
            labels[inside] = groups + found
            groups += int(found.max(initial=-1)) + 1
    return restored(by_first_member(labels[order]), order)


def _members(blocks: Ints, order: Ints) -> list[Ints]:
    """Positions of the records of each block, in keyed order."""
    by_block = order[np.argsort(blocks[order], kind="stable")]
    return np.split(by_block, np.cumsum(np.bincount(blocks))[:-1])


def _chunks(arranged: Floats, k: int, largest: int | None) -> list[Ints]:
    n = len(arranged)
    if largest is None or n < 2 * max(largest, k):
        return [np.arange(n)]
    along = np.lexsort((np.arange(n), *arranged.T[::-1]))
    return np.split(along, np.arange(1, n // max(largest, k)) * max(largest, k))

"""Which pairs of a consistency graph belong to some assignment of every released record to an original one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from privpipe.blocks.arrays import Bools, Ints

__all__ = ["LARGEST_TOTAL", "Assignable", "assignable"]

LARGEST_TOTAL = 2**31 - 1
"""Records of one side: the capacities of the flow are 32-bit integers."""


class Assignable(NamedTuple):
    """How many released records one assignment reaches, and which pairs belong to an assignment of that size.

    Parameters
    ----------
    assigned : int
    pairs : ndarray of bool, shape (m,)
        Of each pair of classes; all False where not every released record is assigned.
    """

    assigned: int
    pairs: Bools


def assignable(originals: Ints, released: Ints, records: Ints, rows: Ints) -> Assignable:
    """Pairs of classes of which some assignment of all released records, each to an original of its own, has a record.

    One maximum flow, then the strongly connected components of its residual graph: a pair without flow is in another
    maximum flow exactly where both of its ends are in one component. Records of a class are interchangeable, so the
    answer for classes is that for records. Original records may stay unassigned, released ones may not.

    Source: Tassa, Mazza, Gionis, Transactions on Data Privacy 5(1), 2012; Tassa, Theoretical Computer Science 423,
    2012 (all maximally matchable edges).

    Parameters
    ----------
    originals, released : ndarray of int64, shape (m,)
        Numbers of the two classes of each consistent pair; no pair twice.
    records : ndarray of int64, shape (classes of the original,)
        Records of each class, above 0; at most `LARGEST_TOTAL` together.
    rows : ndarray of int64, shape (classes of the release,)
        The same of the release.

    Examples
    --------
    Two originals, two released records: the second fits one original alone, which leaves the other to the first.

    >>> found = assignable(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([1, 1]), np.array([1, 1]))
    >>> found.assigned, found.pairs.tolist()
    (2, [True, False, True])
    """
    from scipy.sparse.csgraph import connected_components, maximum_flow

    n, m = len(records), len(rows)
    source, sink = n + m, n + m + 1
    starts = np.concatenate([np.full(n, source), originals, n + np.arange(m)])
    ends = np.concatenate([np.arange(n), n + released, np.full(m, sink)])
    most = np.concatenate([records, np.minimum(records[originals], rows[released]), rows]).astype(np.int32)
    flow = maximum_flow(csr_array((most, (starts, ends)), shape=(sink + 1, sink + 1)), source, sink)
    assigned = int(flow.flow_value)
    if assigned < int(rows.sum()):
        return Assignable(assigned, np.zeros(len(originals), dtype=np.bool_))
    used = np.asarray(flow.flow[originals, n + released]).reshape(-1) > 0
    left = np.asarray(flow.flow[np.full(n, source), np.arange(n)]).reshape(-1)
    back, whole = np.flatnonzero(used), np.arange(n)
    spare, taken = whole[left < records], whole[left > 0]
    # A pair may always take one record more; one back where it has any. The source exchanges unassigned originals.
    tails = np.concatenate([originals, n + released[back], np.full(len(spare), source), taken])
    heads = np.concatenate([n + released, originals[back], spare, np.full(len(taken), source)])
    arcs = csr_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), shape=(source + 1, source + 1))
    component = connected_components(arcs, directed=True, connection="strong")[1]
    return Assignable(assigned, np.asarray(used | (component[originals] == component[n + released])))

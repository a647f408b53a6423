"""What unions of classes lose, against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.kernels.cluster_labels import NEVER, Extents, level_tables, union_increases


def nested(draw: np.random.Generator, leaves: int, *, root: bool) -> list[Any]:
    """Labels of leaves in their order, level by level, each of consecutive labels below it."""
    levels = [np.arange(leaves)]
    while levels[-1][-1] > (0 if root else 1):
        cuts = draw.random(int(levels[-1][-1]) + 1) < 0.5
        cuts[0] = False
        levels.append(np.cumsum(cuts)[levels[-1]])
    return levels


@pytest.mark.parametrize("seed", range(10))
def test_unions_lose_what_their_members_common_labels_do(seed: int) -> None:
    draw = np.random.default_rng(seed)
    trees = [nested(draw, int(draw.integers(2, 9)), root=bool(seed % 3)) for _ in range(3)]
    lost = [[draw.integers(0, 50, len(level)) for level in tree] for tree in trees]
    members = [
        np.array([[draw.integers(0, len(tree[0])) for tree in trees] for _ in range(int(draw.integers(1, 4)))])
        for _ in range(12)
    ]
    records = draw.integers(0, 6, 12)
    costs, kinds = draw.integers(0, 90, 12), draw.integers(0, 2, 12)
    classes = Extents(
        np.array([rows.min(axis=0) for rows in members]),
        np.array([rows.max(axis=0) for rows in members]),
        records,
        costs,
        kinds,
    )
    for own in np.flatnonzero(records).tolist():
        found, levels = union_increases(level_tables(trees, lost), classes, own)
        for other in range(12):
            rows, spent, above = np.vstack([members[own], members[other]]), 0, list[int]()
            for at, tree in enumerate(trees):
                level = next((level for level, row in enumerate(tree) if len(set(row[rows[:, at]].tolist())) == 1), -1)
                above.append(level)
                # Losses of this test differ within a label, so that the first member speaks for it.
                spent += int(lost[at][level][rows[:, at].min()])
            if other == own or not records[other] or kinds[own] != kinds[other] or -1 in above:
                assert found[other] == NEVER
                continue
            assert found[other] == spent * (records[own] + records[other]) - costs[own] - costs[other]
            assert levels[other].tolist() == above

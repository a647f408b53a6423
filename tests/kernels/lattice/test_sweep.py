"""The walk over vectors of levels against plain Python, whatever the width of a class key."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from privpipe.kernels.lattice import sweep
from privpipe.kernels.lattice.sweep import CodedTuples, next_vector, swept
from tests.gathering import gathered


def plain_walk(problem: Any, k: int, values: int, least: int) -> list[int]:
    """From the definition: at each vector the classes among what is left, those that pass stay."""
    codes, lookups, counts, sensitive, vectors = problem
    found = [-1] * len(codes)
    for place, vector in enumerate(vectors):
        classes = defaultdict(list)
        for row in range(len(codes)):
            if found[row] < 0:
                labels = tuple(
                    int(lookups[j][vector[j] if j < len(vector) else 0][codes[row][j]]) for j in range(len(lookups))
                )
                classes[labels].append(row)
        passing = [
            rows
            for rows in classes.values()
            if sum(counts[rows]) >= k and (not values or len({int(sensitive[row]) for row in rows}) >= values)
        ]
        if passing and sum(int(sum(counts[rows])) for rows in passing) >= least:
            for rows in passing:
                for row in rows:
                    found[row] = place
    return found


def random_problem(seed: int, columns: int, leaves: int) -> Any:
    """Columns with nested levels, the last one without a hierarchy, and half of all vectors in any order."""
    draw = np.random.default_rng(seed)
    lookups, sizes = [], []
    for column in range(columns):
        many = int(draw.integers(1, leaves + 1))
        levels = [np.arange(many)]
        for _ in range(int(draw.integers(0, 3)) if column < columns - 1 else 0):
            merged = draw.integers(0, max(1, levels[-1].max() // 2 + 1), levels[-1].max() + 1)
            levels.append(np.unique(merged[levels[-1]], return_inverse=True)[1])
        lookups.append([level.astype(np.int64) for level in levels])
        sizes.append(many)
    codes = np.unique(np.column_stack([draw.integers(0, size, 60) for size in sizes]), axis=0).astype(np.int32)
    counts = draw.integers(1, 4, len(codes))
    sensitive = draw.integers(0, 64, len(codes)) % 5 + draw.choice([0, 59], len(codes))
    vectors = np.array(list(np.ndindex(*(len(levels) for levels in lookups[:-1]))), dtype=np.int16)
    return codes, lookups, counts, sensitive, draw.permutation(vectors)[: 1 + len(vectors) // 2]


@pytest.mark.parametrize("space", [sweep.SPACE, 50], ids=["one word", "several words"])
@pytest.mark.parametrize("together", [sweep.MOST_LABELS, 0], ids=["columns together", "columns apart"])
def test_the_walk_is_the_plain_one(monkeypatch: pytest.MonkeyPatch, space: int, together: int) -> None:
    monkeypatch.setattr(sweep, "SPACE", space)
    monkeypatch.setattr(sweep, "MOST_LABELS", together)
    with gathered() as case:
        for seed in range(40):
            with case(seed):
                walk_is_the_plain_one(seed, space)


def walk_is_the_plain_one(seed: int, space: int) -> None:
    codes, lookups, counts, sensitive, vectors = problem = random_problem(seed, 2 + seed % 4, 6)
    rest = np.arange(len(codes))
    for k, values, least in ((1 + seed % 7, 0, 1), (2, 2 + seed % 2, 1), (3, 0, 20)):
        coded = CodedTuples.of(codes, lookups, counts, sensitive if values else None)
        assert (len(coded.words) > 1) <= (space == 50)
        found = swept(coded, vectors, rest, k, values, least)
        wanted = plain_walk(problem, k, values, least)
        assert found.tolist() == wanted
        at, passing = next_vector(coded, vectors, rest, k, values)
        one = plain_walk((*problem[:-1], vectors[[at]]), k, values, 1)
        assert at == -1 or passing.tolist() == [place == 0 for place in one]
        whole, _ = next_vector(coded, vectors, rest, k, values, whole=True)
        alone = (plain_walk((*problem[:-1], vectors[[v]]), k, values, 1) for v in range(len(vectors)))
        assert whole == next((v for v, each in enumerate(alone) if set(each) == {0}), -1)


def test_keys_beyond_a_word() -> None:
    """Ten columns of 2^13 labels take three words; two rows differ in the first column alone."""
    codes = np.zeros((3, 10), dtype=np.int32)
    codes[1, 0], codes[2] = 1, 8191
    coded = CodedTuples.of(codes, [[np.arange(8192), np.zeros(8192, np.int64)]] * 10, np.array([1, 1, 1]), None)
    assert len(coded.words) == 3
    one_up = np.zeros((2, 10), dtype=np.int16)
    one_up[1, 0] = 1
    assert swept(coded, one_up, np.arange(3), 2, 0, 1).tolist() == [1, 1, -1]

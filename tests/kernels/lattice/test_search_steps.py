"""What a search does at every step, compiled, against the same in plain arrays."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks.quality_spec import Aggregate
from privpipe.kernels.lattice.vectors import added_up, chosen_witnesses, raise_bounds, smallest_below, still_alive
from privpipe.kernels.quality.model import aggregated, aggregated_levels

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("aggregate", get_args(Aggregate))
def test_aggregates_by_level_are_those_of_the_figures_to_the_last_bit(aggregate: Aggregate) -> None:
    rng = np.random.default_rng(1)
    for m in (1, 3, 9):
        nodes, figures = rng.integers(0, 4, (500, m)).astype(np.int16), rng.random((m, 4))
        wanted = aggregated(figures[np.arange(m), nodes], aggregate)
        assert aggregated_levels(nodes, figures, aggregate).tolist() == wanted.tolist()


@given(SEEDS, st.integers(1, 40))
def test_bounds_and_the_vectors_left_are_those_of_plain_arrays(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    bounds, alive = rng.integers(0, 6, (size, 1)) / 5, rng.permutation(size)[: rng.integers(0, size + 1)]
    figures = rng.integers(0, 6, (len(alive), 1)) / 5
    wanted = bounds.copy()
    wanted[alive] = np.maximum(bounds[alive], figures)
    higher = bool((figures > bounds[alive]).any())
    assert raise_bounds(bounds, alive, figures) == higher
    assert bounds.tolist() == wanted.tolist()
    most, least, winner = 0.6, 0.4, int(rng.integers(size))
    poor = (bounds[alive, 0] > most) | ((bounds[alive, 0] >= least) & (alive > winner))
    assert still_alive(bounds, alive, most, least, winner).tolist() == alive[~poor].tolist()
    nodes, top = rng.integers(0, 3, (size, 2)).astype(np.int16), rng.integers(0, 3, 2).astype(np.int16)
    sizes, held = rng.integers(1, 5, size), int(rng.integers(0, size + 1))
    under = [at for at in range(held) if (nodes[at] <= top).all()]
    assert smallest_below(nodes, sizes, held, top) == min(under, key=lambda at: (sizes[at], at), default=-1)


@given(SEEDS, st.integers(1, 30), st.integers(1, 4))
def test_witnesses_are_the_rarest_and_then_those_unlike_all_before(seed: int, t: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 5, t).astype(np.int32)
    asked, sizes, rarity = rng.random(t) < 0.6, rng.integers(1, 4, 5), rng.integers(0, 3, t) / 2
    codes = rng.integers(0, 3, (t, 3)).astype(np.int32)
    order = sorted(np.flatnonzero(asked).tolist(), key=lambda row: (sizes[numbers[row]], rarity[row], row))
    wanted: list[int] = []
    while len(wanted) < min(most, len(order)):
        apart = {row: min((int((codes[row] != codes[one]).sum()) for one in wanted), default=4) for row in order}
        left = [row for row in order if row not in wanted]
        wanted.append(max(left, key=lambda row: apart[row]))  # the first of equal ones
    assert chosen_witnesses(asked, numbers, sizes, rarity, codes, most).tolist() == wanted
    figures = rng.random(9)
    sums = figures[:3][codes[:, 0]] + figures[3:6][codes[:, 1]] + figures[6:][codes[:, 2]]
    assert added_up(codes, figures, np.array([0, 3, 6])).tolist() == sums.tolist()

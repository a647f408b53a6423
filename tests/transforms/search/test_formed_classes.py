"""Classes formed by any route, of combinations or of finer classes, are those of plain keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks.arrays import read_only
from privpipe.kernels.columns.codes import PackedColumns
from privpipe.kernels.lattice.node_cells import cells_of, tallied, tallied_cells, tallies_merged
from privpipe.kernels.lattice.node_classes import class_cells, numbered
from privpipe.transforms.recoding import formed_classes
from privpipe.transforms.recoding.encoded_table import encode
from privpipe.transforms.recoding.formed_classes import PackedTable
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def first_met(numbers: Any) -> Any:
    """Numbers again, in the order in which they first occur."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize(("space", "t"), [(3, 40), (40, 400), (700, 3000), (3000, 500), (60_000, 90)])
def test_packed_classes_are_those_of_plain_keys(columns: int, space: int, t: int, in_order: bool) -> None:
    """A dense table, one a run of the first group (in order or not), and a hash table where keys are too many."""
    rng = np.random.default_rng(columns)
    codes = rng.integers(0, space, (columns, t)).astype(np.int32)
    if in_order:
        codes = codes[:, np.lexsort(codes[::-1])]
    radices = [max(1, space // step) for step in range(2, 2 + columns)]
    labels = [rng.integers(0, radix, space) for radix in radices]
    counts = rng.integers(1, 9, t)
    numbers, sizes, first = numbered([read_only(row, np.uint16) for row in codes], labels, radices, counts)
    keys = np.stack([own[row] for own, row in zip(labels, codes, strict=True)])
    wanted = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    assert (first_met(numbers) == first_met(wanted)).all()
    assert (sizes == np.bincount(numbers, weights=counts)).all()
    assert first.tolist() == [int(np.flatnonzero(numbers == number)[0]) for number in range(len(sizes))]


def test_cells_are_the_same_by_every_route() -> None:
    rng = np.random.default_rng(0)
    for t, classes in [(30, 4), (400, 40)]:
        numbers = np.concatenate([np.arange(classes), rng.integers(0, classes, t - classes)]).astype(np.int32)
        ills, counts = rng.integers(0, 5, t).astype(np.int32), rng.integers(1, 9, t)
        kept = np.flatnonzero(rng.random(classes) < 0.5)
        places = np.full(classes, -1, dtype=np.int32)
        places[kept] = np.arange(len(kept))
        order = np.argsort(ills, kind="stable")
        offsets, codes, held = class_cells(numbers.astype(np.int64), classes, order, ills.astype(np.int64), counts)
        tallies = tallied(numbers, classes, ills, counts, 5)
        for found in (cells_of(numbers, places, len(kept), ills, counts, 5), tallied_cells(tallies, kept)):
            assert np.diff(found[0]).tolist() == np.diff(offsets)[kept].tolist()
            assert found[1].tolist() == [code for c in kept for code in codes[offsets[c] : offsets[c + 1]]]
            assert found[2].tolist() == [count for c in kept for count in held[offsets[c] : offsets[c + 1]]]
        coarser = rng.integers(0, 3, classes).astype(np.int32)
        merged = tallies_merged(coarser, 3, tallies)
        assert (merged == tallied(coarser[numbers], 3, ills, counts, 5)).all()


@settings(max_examples=at_most(100), suppress_health_check=SLOW)
@given(st.data())
def test_classes_of_classes_are_those_of_combinations(
    plain: Any, random_problems: Any, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    """Whatever was formed before, over any keys, and whether it is remembered or forgotten at once."""
    problem = data.draw(random_problems)
    monkeypatch.setattr(formed_classes, "ROOM", data.draw(st.sampled_from([0, 500, 1 << 26])))
    table = encode(plain, problem.table, problem.stage, problem.context)
    packed = PackedTable(table)
    ill = table.rows.sensitive.get("ill", np.zeros(len(table), dtype=np.int64)).astype(np.int32)
    counts, every = table.rows.counts, (*table.columns, *table.fixed)
    for node in data.draw(st.lists(st.sampled_from(problem.nodes()), max_size=12)):
        keys = tuple(data.draw(st.permutations(every))[: data.draw(st.integers(0, len(every)))])
        found, wanted = packed.classes(keys, node), table.classes(keys, node)
        assert (first_met(found.numbers) == first_met(wanted.numbers)).all()
        assert (found.sizes == np.bincount(found.numbers, weights=counts)).all()
        assert found.rows.tolist() == [int(np.argmax(found.numbers == c)) for c in range(len(found))]
        chosen = np.arange(len(found)) % 2 == 0
        assert (found.spread(chosen) == chosen[found.numbers]).all()
        assert (found.tallies("ill", ill, counts, 4) == tallied(found.numbers, len(found), ill, counts, 4)).all()


@settings(max_examples=at_most(50))
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(0, 60))
def test_totals_are_those_of_each_column(seed: int, columns: int, t: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 5, 300, 9000], columns).tolist()
    codes = np.stack([rng.integers(0, size, t) for size in sizes], axis=1).astype(np.int32)
    counts, chosen = rng.integers(1, 9, t), rng.random(t) < 0.5
    packed = PackedColumns(codes, sizes)
    for mask in (None, chosen):
        inside = np.ones(t, dtype=bool) if mask is None else mask
        weights = counts * inside
        wanted = [np.bincount(codes[:, at], weights=weights, minlength=size) for at, size in enumerate(sizes)]
        assert packed.totals(counts, mask).tolist() == np.concatenate(wanted).tolist()
    for members, own, leaves in zip(packed.members, packed.codes, packed.leaves, strict=True):
        assert (codes[:, members] == leaves[:, own].T).all()

"""Nested differences: pairs by their definition on random records, strips between cuts, tables of subgroups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from privpipe.errors import UsageError
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.differencing import Differencing, atoms_of_leaves


@pytest.mark.parametrize("seed", range(20))
def test_pairs_by_their_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    atoms = draw.integers(0, 5, 9)
    member = draw.random((14, 9)) < 0.5
    people = np.repeat(np.arange(9), atoms)
    sets = [frozenset(np.flatnonzero(member[cell][people]).tolist()) for cell in range(14)]
    published = draw.random(14) < 0.8
    expected = {
        (a, b)
        for a in range(14)
        for b in range(14)
        if published[a] and published[b] and sets[b] and sets[b] <= sets[a] and 0 < len(sets[a] - sets[b]) < 5
    }
    inside = sparse.csr_array(member.astype(np.int64))
    found = Differencing(at_least=5).failures(inside, atoms.astype(np.int64), published)
    assert set(zip(found.outer.tolist(), found.inner.tolist(), strict=True)) == expected


def test_runs_of_cells_give_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    inside = sparse.csr_array((draw.random((40, 30)) < 0.6).astype(np.int64))
    populations = draw.integers(0, 3, 30).astype(np.int64)
    whole = Differencing(at_least=9).failures(inside, populations)
    monkeypatch.setattr("privpipe.tables.differencing.PRODUCTS", 50)
    parts = Differencing(at_least=9).failures(inside, populations)
    pairs = [sorted(zip(found.outer.tolist(), found.inner.tolist(), strict=True)) for found in (whole, parts)]
    assert pairs[0]
    assert pairs[0] == pairs[1]


def ages() -> Dimension:
    return Dimension.tree("age", {str(age): "Total" for age in range(15, 30)})


def test_recodes_with_other_cuts_give_the_strip_between_them() -> None:
    leaves = Cells.complete([ages()])
    populations = np.array([0] + [100] * 5 + [1] * 5 + [100] * 5, dtype=np.int64)
    member = np.zeros((4, 16), dtype=np.int64)
    member[0, 1:6] = 1  # below 20
    member[1, 1:11] = 1  # below 25
    member[2, 6:] = 1
    member[3, 11:] = 1
    found = Differencing(at_least=10).failures(sparse.csr_array(member), populations)
    assert sorted(zip(found.outer.tolist(), found.inner.tolist(), strict=True)) == [(1, 0), (2, 3)]
    assert len(leaves) == 16


def test_a_difference_of_n_is_safe() -> None:
    inside = sparse.csr_array(np.array([[1, 1], [0, 1]]))
    populations = np.array([5, 50], dtype=np.int64)
    assert len(Differencing(at_least=5).failures(inside, populations)) == 0
    assert len(Differencing(at_least=6).failures(inside, populations)) == 1


def test_what_several_parts_of_one_level_leave() -> None:
    cells = Cells.complete([Dimension.tree("region", {"a": "Total", "b": "Total", "c": "Total"})])
    inside = atoms_of_leaves([cells], _leaves_only(cells))
    populations = np.array([30, 20, 3], dtype=np.int64)
    published = np.array([True, True, True, False])
    found = Differencing(at_least=10).failures(inside, populations, published, cells.relations)
    assert (found.outer.tolist(), found.rests.tolist()) == ([], [0])
    published[2] = False
    assert len(Differencing(at_least=10).failures(inside, populations, published, cells.relations)) == 0


def _leaves_only(cells: Cells) -> Cells:
    inner = [~np.isin(np.arange(len(d.labels)), d.leaves) for d in cells.dimensions]
    kept = np.array([not any(inner[p][code] for p, code in enumerate(row)) for row in cells.codes])
    return Cells(cells.dimensions, cells.codes[kept])


def test_subgroups_are_part_of_the_definition_of_a_cell() -> None:
    region = Dimension.tree("region", {"north": "Total", "south": "Total"})
    sex = Dimension.tree("sex", {"f": "Total", "m": "Total"})
    leaves = _leaves_only(Cells.complete([region, sex]))
    everyone = Cells.complete([region])
    women = Cells(everyone.dimensions, everyone.codes, {"sex": "f"})
    inside = atoms_of_leaves([everyone, women], leaves)
    assert inside.toarray().tolist() == [
        [1, 1, 1, 1],
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [1, 0, 1, 0],
        [1, 0, 0, 0],
        [0, 0, 1, 0],
    ]
    found = Differencing(at_least=5).failures(inside, np.array([40, 2, 40, 40], dtype=np.int64))
    assert list(zip(found.outer.tolist(), found.inner.tolist(), strict=True)) == [(1, 4)]


def test_trees_reach_every_level() -> None:
    place = Dimension.tree("place", {"b": "Total", "a": "Total", "b1": "b", "b2": "b"})
    cells = Cells.complete([place])
    inside = atoms_of_leaves([cells], _leaves_only(cells))
    assert inside.toarray().tolist() == [[1, 1, 1], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_a_table_with_another_dimension() -> None:
    other = Cells.complete([Dimension.tree("sex", {"f": "Total"})])
    with pytest.raises(UsageError, match="not dimensions of the common grouping"):
        atoms_of_leaves([other], Cells.complete([ages()]))
    with pytest.raises(UsageError, match="at least 1"):
        Differencing(at_least=0)

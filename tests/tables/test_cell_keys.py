"""Noise by cell keys: the reference tables and keys, and what must hold for every noise table."""

from __future__ import annotations

import hashlib
import hmac
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from privpipe.draws import Seed
from privpipe.errors import DataError, UsageError
from privpipe.tables.cell_keys import NoiseRow, NoiseTable, averaged_variance, averages
from privpipe.tables.cells import Cells
from privpipe.tables.contribution_rows import cell_key, key_of_sums, record_keys
from tests.tables.random_tables import flat

ONE = 2**32
HANDBOOK = NoiseTable(
    (
        NoiseRow.of([0], [Fraction(1)]),
        NoiseRow.of([-1, 1], [Fraction(1, 2)] * 2),
        NoiseRow.of([0, 1], [Fraction(4, 5), Fraction(1, 5)]),
        NoiseRow.of([-1, 0, 1], [Fraction(3, 10), Fraction(4, 10), Fraction(3, 10)]),
    )
)


def test_reference_noise_tables(ptable_row: dict[str, Any]) -> None:
    options = ptable_row["options"]
    table = NoiseTable.of_greatest_entropy(
        options["D"], options["V"], options.get("js", 0), options.get("pstay"), monotone=options.get("monotone", False)
    )
    assert [row["v"] for row in ptable_row["expected"]["rows"]] == [list(row.values) for row in table.rows]
    for row, expected in zip(table.rows, ptable_row["expected"]["rows"], strict=True):
        assert [weight / ONE for weight in row.weights] == pytest.approx(expected["p"], abs=1e-5)
        assert float(row.variance) == pytest.approx(expected["variance"], abs=1e-5)


def test_reference_cell_keys(cell_key_row: dict[str, Any]) -> None:
    rows = [NoiseRow.of(row["v"], [Fraction(p) for p in row["p"]]) for row in cell_key_row["options"]["ptable"]]
    table = NoiseTable(tuple(rows))
    counts = np.array([len(cell) for cell in cell_key_row["cells"]])
    keys = cell_key(np.array([sum(cell) for cell in cell_key_row["cells"]]))
    expected = cell_key_row["expected"]["cells"]
    assert keys.tolist() == [cell["cell_key"] for cell in expected]
    assert table.noisy_counts(counts, keys).tolist() == [cell["published"] for cell in expected]


def test_the_published_table_of_cellkey() -> None:
    """Source: sdcTools/cellKey 80bb032, tests/testthat/test_countvars.R."""
    table = NoiseTable.of_greatest_entropy(5, 3.0, 2, 0.5)
    bounds = [bound / ONE for row in table.rows for bound in row.bounds]
    assert len(bounds) == 66
    assert np.mean([v for row in table.rows for v in row.values]) == pytest.approx(1.045, abs=1e-3)
    assert np.mean(bounds) == pytest.approx(0.698, abs=1e-3)


def test_the_handbook_sums() -> None:
    """Source: handbook 5.4: 300 with a largest contribution of 200 and u = .8."""
    key = np.array([int(0.8 * ONE)])
    sums, largest = np.array([300]), np.array([200])
    assert HANDBOOK.noisy_sums(sums, largest, key, Fraction(1, 2)).tolist() == [400]
    assert HANDBOOK.noisy_sums(sums, largest, key, Fraction(3, 5)).tolist() == [360]
    assert HANDBOOK.noisy_sums(-sums, largest, key, Fraction(3, 5)).tolist() == [-360]


@given(
    D=st.integers(1, 8),
    V=st.floats(0.2, 20.0),
    js=st.integers(0, 3),
    stay=st.sampled_from([None, 0.2, 0.5]),
    monotone=st.booleans(),
)
def test_a_noise_table_keeps_its_conditions(D: int, V: float, js: int, stay: float | None, monotone: bool) -> None:
    assume(js < D)
    try:
        table = NoiseTable.of_greatest_entropy(D, V, js, stay, monotone=monotone)
    except UsageError:
        assume(False)
    assert len(table.rows) - 1 == (D + js + 1 if js else D)
    for count, row in enumerate(table.rows):
        assert row.bounds[-1] == ONE
        assert abs(row.mean) <= Fraction(1, 10**8)
        assert row.variance <= Fraction(V) + Fraction(1, 10**6)
        for value, weight in zip(row.values, row.weights, strict=True):
            assert abs(value) <= D
            assert weight >= 0
            assert count + value == 0 or count + value > js
            if stay and value == 0 and count:
                assert weight >= stay * ONE - 2
        if monotone and count:
            left = [weight for value, weight in zip(row.values, row.weights, strict=True) if value <= 0]
            # Bounds are moved by parts of 2^-32, so that the mean stays 0.
            assert all(b - a >= -4 * (js + 1) for a, b in pairwise(left))


def test_no_row_is_more_even() -> None:
    """Steps that keep the conditions of a row only lower its entropy."""
    row = NoiseTable.of_greatest_entropy(3, 2.0, monotone=False).rows[2]
    p = np.array(row.weights) / ONE
    values = np.array(row.values)
    _, _, space = np.linalg.svd(np.vstack([np.ones(len(p)), values, values**2]))
    for direction in space[3:]:
        for size in (1e-3, -1e-3):
            q = p + size * direction
            assert -(q * np.log(q)).sum() < -(p * np.log(p)).sum()


def test_the_least_variance_is_named() -> None:
    with pytest.raises(UsageError, match="needs a variance V above 2"):
        NoiseTable.of_greatest_entropy(5, 1.0, 2)


def test_record_keys_by_their_definition() -> None:
    seed = Seed.insecure(7)
    key = hmac.new(seed.secret, b'["privpipe/record-key/1","counts"]', hashlib.sha256).digest()
    wanted = int.from_bytes(hmac.new(key, b"anna", hashlib.sha256).digest()[:4], "big")
    assert record_keys(key_of_sums(seed, "counts", "count"), ["anna"]).tolist() == [wanted]
    assert record_keys(key_of_sums(seed, "cost", "count"), ["anna"]).tolist() != [wanted]


def test_noise_of_many_cells_is_unbiased() -> None:
    """Within four standard deviations over 100,000 keyed cells, for every row."""
    table = NoiseTable.of_greatest_entropy(5, 3.0, 2, 0.3)
    keys = record_keys(key_of_sums(Seed.insecure("cells"), "counts", "count"), [str(at) for at in range(100_000)])
    for count, row in enumerate(table.rows):
        noise = table.noisy_counts(np.full(len(keys), count), keys) - count
        assert abs(noise.mean()) <= 4 * (float(row.variance) / len(keys)) ** 0.5
        assert set(noise.tolist()) <= set(row.values)


def test_the_same_people_get_the_same_noise_in_any_order() -> None:
    people = [f"p{at}" for at in range(50)]
    keys = record_keys(key_of_sums(Seed.insecure(1), "counts", "count"), people)
    again = record_keys(key_of_sums(Seed.insecure(1), "counts", "count"), people[::-1])
    assert cell_key(np.array([keys.sum()])).tolist() == cell_key(np.array([again.sum()])).tolist()


@given(st.integers(0, 2), st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_reader_intervals_are_all_counts_that_give_a_figure(js: int, counts: list[int]) -> None:
    table = NoiseTable.of_greatest_entropy(4, 4.0, js, monotone=False)
    last = len(table.rows) - 1
    for count in counts:
        for value in table.rows[min(count, last)].values:
            figure = count + value
            able = [true for true in range(figure + 5) if figure - true in table.rows[min(true, last)].values]
            low, high = table.reader_intervals(np.array([figure]))
            assert (int(low[0]), int(high[0])) == (min(able), max(able))


def test_a_figure_that_no_count_gives_is_an_error() -> None:
    with pytest.raises(DataError, match="1 published counts"):
        NoiseTable.of_greatest_entropy(4, 4.0, 2).reader_intervals(np.array([1, 5]))


def test_sums_that_are_too_large_are_an_error() -> None:
    with pytest.raises(DataError, match="larger units"):
        HANDBOOK.noisy_sums(np.array([2**62]), np.array([2**61]), np.array([5]), Fraction(1, 2))


def test_averages_of_two_dimensions_use_every_combination_of_levels() -> None:
    """A total of 2 by 3 cells is published as 1, 2, 3 and 6 figures."""
    cells = Cells.complete([flat("a", 2), flat("b", 3)])
    counts = np.array([600, 200, 200, 200, 300, 100, 100, 100, 300, 100, 100, 100])
    table = NoiseTable.of_greatest_entropy(6, 2.0)
    found = averaged_variance(variance for _, variance in averages(cells, counts, table))
    assert found[0] == pytest.approx(2 / (1 + 1 / 2 + 1 / 3 + 1 / 6), rel=1e-6)
    assert found[5] == pytest.approx(2.0, rel=1e-6)

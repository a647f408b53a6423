"""Figures of classes against their definitions, published numbers, and what re-ordering must not change."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.classes.cells import (
    distinct_by_class,
    largest_by_class,
    recursive_ratio_by_class,
    recursive_tail_by_class,
    top_share_by_class,
)
from privpipe.kernels.classes.distance import emd_equal_by_class, emd_ordered_by_class
from privpipe.kernels.classes.information import capped_gain_by_class, entropy_by_class, grassberger_by_class

Table = list[dict[int, int]]  # a class: its value codes with their counts
Arrays = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

CLASSES = st.lists(
    st.dictionaries(st.integers(0, 8), st.integers(1, 10**6), min_size=1, max_size=9), min_size=1, max_size=12
)


def cells(table: Table) -> Arrays:
    codes = [code for row in table for code in sorted(row)]
    counts = [row[code] for row in table for code in sorted(row)]
    offsets = list(accumulate((len(row) for row in table), initial=0))
    return np.array(offsets, np.int64), np.array(codes, np.int64), np.array(counts, np.int64)


def base_of(table: Table, m: int) -> NDArray[np.float64]:
    counts = np.array([sum(row.get(code, 0) for row in table) for code in range(m)])
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def entropy_oracle(row: dict[int, int]) -> float:
    size = sum(row.values())
    return -math.fsum(count / size * math.log(count / size) for count in row.values())


def grassberger_oracle(row: dict[int, int]) -> float:
    def g(n: int) -> float:
        start = -np.euler_gamma - math.log(2)
        return float(start + math.fsum(2 / (2 * i - 1) for i in range(1, n // 2 + 1)))

    size = sum(row.values())
    return g(size) - math.fsum(count * g(count) for count in row.values()) / size


def equal_oracle(row: dict[int, int], p: NDArray[np.float64]) -> float:
    size = sum(row.values())
    return 0.5 * math.fsum(abs(row.get(code, 0) / size - share) for code, share in enumerate(p))


def ordered_oracle(row: dict[int, int], p: NDArray[np.float64]) -> float:
    size = sum(row.values())
    extras = [row.get(code, 0) / size - share for code, share in enumerate(p)]
    if len(p) == 1:
        return 0.0
    return math.fsum(abs(math.fsum(extras[: i + 1])) for i in range(len(p) - 1)) / (len(p) - 1)


@given(CLASSES, st.integers(1, 6))
def test_every_figure_follows_its_definition(table: Table, l: int) -> None:
    offsets, codes, counts = cells(table)
    p = base_of(table, 9)
    sizes = np.array([sum(row.values()) for row in table], dtype=np.int64)
    assert distinct_by_class(offsets).tolist() == [len(row) for row in table]
    assert largest_by_class(offsets, counts).tolist() == [max(row.values()) for row in table]
    tops = [max(row.values()) / sum(row.values()) for row in table]
    assert top_share_by_class(offsets, counts, sizes).tolist() == tops
    assert entropy_by_class(offsets, counts) == pytest.approx([entropy_oracle(row) for row in table], abs=1e-12)
    for row, ratio in zip(table, recursive_ratio_by_class(offsets, counts, l), strict=True):
        descending = sorted(row.values(), reverse=True)
        tail = sum(descending[l - 1 :])
        assert ratio == (descending[0] / tail if tail else math.inf)
    expected = [equal_oracle(row, p) for row in table]
    assert emd_equal_by_class(offsets, codes, counts, p) == pytest.approx(expected, abs=1e-12)
    expected = [ordered_oracle(row, p) for row in table]
    assert emd_ordered_by_class(offsets, codes, counts, p) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.dictionaries(st.integers(0, 8), st.integers(1, 700), min_size=1), min_size=1, max_size=6))
def test_the_corrected_entropy_follows_its_definition(table: Table) -> None:
    offsets, _, counts = cells(table)
    expected = [grassberger_oracle(row) for row in table]
    assert grassberger_by_class(offsets, counts) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_corrected_entropy_of_large_classes() -> None:
    row = {0: 257, 1: 256, 2: 255, 3: 1_000_003, 4: 1}
    offsets, _, counts = cells([row])
    assert grassberger_by_class(offsets, counts) == pytest.approx([grassberger_oracle(row)], rel=1e-12)


@pytest.mark.parametrize("size", [*range(250, 264), 400])
def test_the_corrected_entropy_is_exact_where_its_table_ends(size: int) -> None:
    """A class of as many values as records: G(size) - G(1), where the series takes over from the table."""
    row = dict.fromkeys(range(size), 1)
    offsets, _, counts = cells([row])
    wanted = math.fsum([math.fsum(2 / (2 * i - 1) for i in range(1, size // 2 + 1))])
    assert grassberger_by_class(offsets, counts) == pytest.approx([wanted], abs=5e-15)


def test_the_distance_over_many_values_keeps_its_last_digits() -> None:
    """Sums over 3,000 shares, from 1e-9 to .1, against fractions."""
    p = np.random.default_rng(3).lognormal(0, 3, 3000)
    p /= p.sum()
    row = {7: 2, 1500: 3}
    offsets, codes, counts = cells([row])
    extra, total = Fraction(0), Fraction(0)
    for code, share in enumerate(p[:-1].tolist()):
        extra += Fraction(row.get(code, 0), 5) - Fraction(share)
        total += abs(extra)
    assert emd_ordered_by_class(offsets, codes, counts, p)[0] == pytest.approx(float(total / 2999), abs=2e-16)


@given(CLASSES, st.randoms(use_true_random=False))
def test_codes_and_cell_order_leave_the_bits_of_the_entropy_alone(table: Table, shuffler: Any) -> None:
    offsets, _, counts = cells(table)
    shuffled = counts.copy()
    generator = np.random.default_rng(shuffler.getrandbits(32))
    for first, stop in pairwise(offsets):
        generator.shuffle(shuffled[first:stop])
    for figure in (entropy_by_class, grassberger_by_class):
        assert (figure(offsets, counts) == figure(offsets, shuffled)).all()
    ratios = [recursive_ratio_by_class(offsets, c, 2) for c in (counts, shuffled)]
    assert (ratios[0] == ratios[1]).all()


@given(CLASSES, st.integers(1, 5))
def test_splitting_the_table_into_blocks_changes_no_bit(table: Table, parts: int) -> None:
    p = base_of(table, 9)
    size = -(-len(table) // parts)
    blocks = [cells(table[i : i + size]) for i in range(0, len(table), size)]
    whole = cells(table)
    for figure in (emd_equal_by_class, emd_ordered_by_class):
        split = np.concatenate([figure(*block, p) for block in blocks])
        assert (split == figure(*whole, p)).all()


@given(CLASSES.filter(lambda table: len(table) > 1))
def test_merging_two_classes_brings_them_nearer_to_the_base(table: Table) -> None:
    p = base_of(table, 9)
    merged = [{code: table[0].get(code, 0) + table[1].get(code, 0) for code in table[0] | table[1]}]
    for figure in (emd_equal_by_class, emd_ordered_by_class):
        assert figure(*cells(merged), p)[0] <= figure(*cells(table[:2]), p).max() + 1e-12


def test_classes_of_many_values_are_sorted_too() -> None:
    generator = np.random.default_rng(1)
    table = [dict(enumerate(generator.integers(1, 1000, 500).tolist())) for _ in range(3)]
    offsets, codes, counts = cells(table)
    assert entropy_by_class(offsets, counts) == pytest.approx([entropy_oracle(row) for row in table], rel=1e-13)
    p = base_of(table, 500)
    expected = [ordered_oracle(row, p) for row in table]
    assert emd_ordered_by_class(offsets, codes, counts, p) == pytest.approx(expected, rel=1e-9)
    _, tail = recursive_tail_by_class(offsets, counts, 300)
    assert tail.tolist() == [sum(sorted(row.values())[:201]) for row in table]


def test_one_record_one_value_and_no_class() -> None:
    offsets, codes, counts = cells([{0: 1}])
    assert entropy_by_class(offsets, counts).tolist() == [0.0]
    assert grassberger_by_class(offsets, counts).tolist() == [0.0]
    assert emd_equal_by_class(offsets, codes, counts, [1.0]).tolist() == [0.0]
    assert emd_ordered_by_class(offsets, codes, counts, [1.0]).tolist() == [0.0]
    none = np.zeros(1, np.int64)
    assert len(entropy_by_class(none, none[:0])) == 0


def test_two_values_make_the_distances_coincide() -> None:
    arrays = cells([{0: 3, 1: 1}, {1: 7}, {0: 2}])
    p = [0.4, 0.6]
    assert emd_equal_by_class(*arrays, p) == pytest.approx(emd_ordered_by_class(*arrays, p))


def test_counts_beyond_32_bits_do_not_overflow() -> None:
    offsets, codes, counts = cells([{0: 3 * 10**12, 1: 10**12}])
    assert top_share_by_class(offsets, counts, np.array([4 * 10**12])).tolist() == [0.75]
    assert emd_equal_by_class(offsets, codes, counts, [0.5, 0.5]).tolist() == [0.25]


def test_codes_out_of_order_or_range_are_refused() -> None:
    offsets, counts = np.array([0, 2]), np.array([1, 1])
    for codes in ([1, 0], [1, 1], [0, 3], [-1, 0]):
        for figure in (emd_equal_by_class, emd_ordered_by_class):
            with pytest.raises(ValueError, match="ascend"):
                figure(offsets, np.array(codes), counts, [0.5, 0.5])
    with pytest.raises(UsageError):
        recursive_ratio_by_class(offsets, counts, 0)


def test_published_examples() -> None:
    """Source: the salary example of Li, Li, Venkatasubramanian, ICDE 2007: 0.375 and 0.167."""
    p = np.full(9, 1 / 9)
    arrays = cells([{0: 1, 1: 1, 2: 1}, {3: 1, 5: 1, 8: 1}])
    assert emd_ordered_by_class(*arrays, p) == pytest.approx([0.375, 1 / 6])
    offsets, _, counts = cells([{0: 98, 1: 1, 2: 1}, {0: 6, 1: 3, 2: 1}, {0: 4, 1: 4, 2: 4}])
    assert recursive_ratio_by_class(offsets, counts, 3).tolist() == [98.0, 6.0, 1.0]
    assert recursive_ratio_by_class(offsets, counts, 2).tolist() == [49.0, 1.5, 0.5]


def adult_classes(shared: Path, case: dict[str, Any]) -> tuple[Arrays, NDArray[np.float64]]:
    """The cells of one case of pycanon.json, by its own recipe."""
    frame: Any = pd.read_csv(shared / "data/adult/adult.csv", sep=";", dtype=str)
    for column, level in case["generalization_levels"].items():
        file = shared / f"data/adult/adult_hierarchy_{column}.csv"
        ladder: Any = pd.read_csv(file, sep=";", header=None, dtype=str)
        frame[column] = frame[column].map(dict(zip(ladder[0], ladder[level], strict=True)))
    keys = case["quasi_identifiers"]
    smallest = case["drop_classes_smaller_than"]
    if smallest is not None:
        frame = frame[frame.groupby(keys)["sex"].transform("size") >= smallest]
    assert len(frame) == case["rows"]
    values = frame[case["sensitive"]]
    if case["sensitive_type"] == "numeric":
        values = values.astype(int)
    codes, uniques = pd.factorize(values, sort=True)
    groups = frame.groupby(keys).ngroup().to_numpy()
    counted: Any = pd.Series(1, index=[groups, codes]).groupby(level=[0, 1]).sum()
    offsets = np.concatenate([[0], np.cumsum(np.bincount(counted.index.get_level_values(0)))])
    inside = counted.index.get_level_values(1).to_numpy()
    return (offsets, inside, counted.to_numpy()), np.bincount(codes, minlength=len(uniques)) / len(frame)


def test_figures_of_adult_agree_with_the_reference(shared: Path) -> None:
    """Source: reference/pycanon.json, figures by definition, tolerance 1e-9."""
    reference = json.loads((shared / "reference/pycanon.json").read_text())
    for case in reference["adult"]:
        (offsets, codes, counts), p = adult_classes(shared, case)
        expected = case["reference"]
        sizes = np.add.reduceat(counts, offsets[:-1])
        assert (sizes.min(), sizes.max(), len(sizes)) == (
            expected["k"],
            expected["max_class"],
            expected["n_classes"],
        )
        assert distinct_by_class(offsets).min() == expected["l_distinct"]
        assert np.exp(entropy_by_class(offsets, counts)).min() == pytest.approx(expected["l_entropy_real"], rel=1e-9)
        assert top_share_by_class(offsets, counts, sizes).max() == pytest.approx(expected["alpha"], rel=1e-9)
        distances = emd_equal_by_class(offsets, codes, counts, p), emd_ordered_by_class(offsets, codes, counts, p)
        assert distances[0].max() == pytest.approx(expected["t_equal"], rel=1e-9)
        assert distances[1].max() == pytest.approx(expected["t_ordered"], rel=1e-9)
        for l, infimum in expected["recursive_c_infimum_by_l"].items():
            worst = recursive_ratio_by_class(offsets, counts, int(l)).max()
            assert worst == (math.inf if infimum is None else pytest.approx(infimum, rel=1e-9))


def test_a_gain_of_all_that_a_value_may_gain_is_within_its_cap() -> None:
    """Half of the table carries the value and all of the class: a gain of 1, exact in floating point."""
    arrays = np.array([0, 1]), np.array([0]), np.array([4]), np.array([4]), [0.5, 0.5]
    for most, wanted in ((1.0, 1.0), (np.nextafter(1.0, 0.0), math.inf)):
        largest, capped = capped_gain_by_class(*arrays, [most, 9.0])
        assert (largest.tolist(), capped.tolist()) == ([1.0], [wanted])

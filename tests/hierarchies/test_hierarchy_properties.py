"""What holds for every hierarchy: random trees, through rows and files."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.hierarchies import Hierarchy
from privpipe.hierarchies.levels import Levels

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff\x00"), max_size=4).filter(
    lambda text: text != "*"
)


@st.composite
def rows_of_hierarchies(draw: st.DrawFn) -> list[list[str]]:
    """Distinct raw values, each level a random merge of the one below, a root, rows in random order."""
    raws = draw(st.lists(TEXTS, min_size=1, max_size=12, unique=True))
    columns, groups = [raws], list(range(len(raws)))
    for level in range(draw(st.integers(0, 3))):
        merged = draw(st.lists(st.integers(0, 3), min_size=max(len(raws), 4), max_size=16))
        groups = [merged[group] for group in groups]
        columns.append([f"{level}:{group}" for group in groups])
    columns.append(["*"] * len(raws))
    return [list(row) for row in zip(*columns, strict=True)]


@given(rows_of_hierarchies())
def test_every_level_is_a_function_of_the_one_below(rows: list[list[str]]) -> None:
    hierarchy = Hierarchy.from_rows(rows)
    for level in range(hierarchy.height):
        pairs = set(zip(hierarchy.texts(level), hierarchy.texts(level + 1), strict=True))
        assert len(pairs) == len(hierarchy.labels(level))
    assert [dict(zip(hierarchy.values, hierarchy.texts(level), strict=True)) for level in range(len(rows[0]))] == [
        {row[0]: row[level] for row in rows} for level in range(len(rows[0]))
    ]


@given(rows_of_hierarchies())
def test_shares_sum_to_one_over_the_labels_of_a_level(rows: list[list[str]]) -> None:
    for hierarchy in (Hierarchy.from_rows(rows), Hierarchy.from_rows(rows).cover([None])):
        for level in range(hierarchy.height + 1):
            _, firsts = np.unique(hierarchy.codes(level), return_index=True)
            assert np.isclose(hierarchy.shares(level)[firsts].sum(), 1.0)
        assert (np.diff([hierarchy.shares(level) for level in range(hierarchy.height + 1)], axis=0) >= 0).all()


@given(rows_of_hierarchies())
def test_every_label_covers_a_contiguous_range(rows: list[list[str]]) -> None:
    hierarchy = Hierarchy.from_rows(rows)
    for level in range(hierarchy.height + 1):
        codes = hierarchy.codes(level)
        assert (np.diff(codes) >= 0).all()
        for code, label in enumerate(hierarchy.labels(level)):
            start, stop = hierarchy.span(level, code)
            assert hierarchy.texts(level)[start:stop] == [label] * int((codes == code).sum())


@given(rows_of_hierarchies(), st.data())
def test_the_common_level_is_the_least_with_one_label(rows: list[list[str]], data: st.DataObject) -> None:
    hierarchy = Hierarchy.from_rows(rows)
    ends = st.integers(0, len(rows) - 1)
    low, high = sorted((data.draw(ends), data.draw(ends)))
    expected = next(
        level for level in range(hierarchy.height + 1) if len(set(hierarchy.texts(level)[low : high + 1])) == 1
    )
    assert hierarchy.common_level(low, high).tolist() == expected


@given(rows_of_hierarchies(), st.randoms())
def test_the_order_of_rows_changes_no_label(rows: list[list[str]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Hierarchy.from_rows(rows), Hierarchy.from_rows(shuffled)
    assert all(one.mapping(level) == other.mapping(level) for level in range(one.height + 1))
    assert sorted(one.shares(1)) == sorted(other.shares(1))


@given(rows_of_hierarchies(), st.sampled_from([";", ",", "\t", "|"]))
def test_a_file_written_and_read_is_the_same_hierarchy(rows: list[list[str]], delimiter: str) -> None:
    hierarchy = Hierarchy.from_rows(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.csv"
        hierarchy.to_csv(path, delimiter=delimiter)
        again = Hierarchy.read_csv(path, delimiter=delimiter)
    assert again == Hierarchy.from_rows(rows, source="h.csv")


@given(rows_of_hierarchies(), st.lists(TEXTS, max_size=6, unique=True))
def test_encode_and_texts_agree(rows: list[list[str]], seen: list[str]) -> None:
    values = [*seen, None]
    raws = {row[0] for row in rows}
    covered = Hierarchy.from_rows(rows, unknown="root").cover(values)
    expected = ["null" if value is None else value if value in raws else "*" for value in values]
    assert [covered.values[code] for code in covered.encode(values)] == expected


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3), st.data())
def test_collisions_are_labels_of_two_levels_over_other_values(merges: list[list[int]], data: st.DataObject) -> None:
    groups, columns = list(range(4)), []
    for merged in [list(range(4)), *merges]:
        groups = [merged[group] for group in groups]
        names = data.draw(st.permutations("abcd"))  # a level has distinct labels, and shares them with others
        columns.append([names[group] for group in groups])
    levels, _ = Levels.from_columns(columns).in_leaf_order()
    found = []
    for low, high in itertools.combinations(range(len(columns)), 2):
        for text in set(columns[low]) & set(columns[high]):
            below, above = ({at for at in range(4) if columns[level][at] == text} for level in (low, high))
            found += [(low, high)] * (not below <= above)
    assert sorted(levels.collisions()) == sorted(found)

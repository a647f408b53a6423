"""No line of a shown distribution rests on few records, and none follows from the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from privpipe.judging.report_counts import joined_bins, pooled_cells

COUNTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)
LEAST = st.integers(1, 12)


def totals(counts: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(a for a, _ in counts), sum(b for _, b in counts)


@given(COUNTS, LEAST)
def test_bins_are_joined_until_each_may_be_shown(counts: list[tuple[int, int]], least: int) -> None:
    cells = joined_bins(counts, least)
    assert all(not count or count >= least for cell in cells for count in cell.counts)
    if cells:
        assert tuple(map(sum, zip(*(cell.counts for cell in cells), strict=True))) == totals(counts)
        places = [at for cell in cells for at in cell.labels]
        assert places == sorted(places)
    elif any(map(any, counts)):
        assert any(0 < count < least for count in totals(counts))


@given(COUNTS, LEAST, st.integers(1, 5))
def test_rare_labels_are_pooled_until_they_may_be_shown(counts: list[tuple[int, int]], least: int, most: int) -> None:
    shown, others = pooled_cells(counts, least, most)
    assert len(shown) <= most
    assert all(not count or count >= least for at in shown for count in counts[at])
    if others is not None:
        assert all(not count or count >= least for count in others.counts)
        assert sorted([*shown, *others.labels]) == list(range(len(counts)))
    elif shown:
        assert sorted(shown) == list(range(len(counts)))

"""Compositions and parts of households, partners by ids, and keys of persons."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import RowBlock
from privpipe.kernels.households import COMPOSITION, Composed, parts_of
from privpipe.kernels.ids.record_ids import normalised, partners


@pytest.mark.parametrize("keys", [("age", "sex"), ("age",), ()])
@pytest.mark.parametrize("person", [None, "who"])
@pytest.mark.parametrize("seed", range(3))
def test_compositions_are_multisets_of_members(seed: int, person: str | None, keys: tuple[str, ...]) -> None:
    """A member is a row, or the multiset of a person's rows in a household."""
    rng = np.random.default_rng(seed)
    n = 60
    columns = {
        "home": rng.integers(0, 22, n).tolist(),
        "age": [None if rng.random() < 0.2 else int(each) for each in rng.integers(0, 2, n)],
        "sex": rng.choice(["f", "m"], n).tolist(),
        "who": rng.integers(0, 3, n).tolist(),
    }
    made = Composed(keys, "home", person)(RowBlock(pa.record_batch(columns)), 0)
    homes: dict[Any, dict[Any, Counter[Any]]] = {}
    for at in range(n):
        member = at if person is None else columns["who"][at]
        row = tuple(columns[name][at] for name in keys)
        homes.setdefault(columns["home"][at], {}).setdefault(member, Counter())[row] += 1
    sizes = dict(zip(made.column("home").to_pylist(), made.column(COMPOSITION[2]).to_pylist(), strict=True))
    assert sizes == {home: len(members) for home, members in homes.items()}
    words = zip(*(made.column(name).to_pylist() for name in COMPOSITION[:2]), strict=True)
    told = dict(zip(made.column("home").to_pylist(), words, strict=True))
    multisets = {
        home: frozenset(Counter(frozenset(rows.items()) for rows in members.values()).items())
        for home, members in homes.items()
    }
    for one in homes:
        for other in homes:
            assert (told[one] == told[other]) == (multisets[one] == multisets[other])


def test_households_that_lost_one_record_or_all() -> None:
    before = pa.table({"home": ["a", "b", "c", "d", None], "__count": [2, 3, 1, 4, 5]})
    after = pa.table({"home": [None, "d", "b", "a"], "__count": [2, 1, 3, 1]})
    assert parts_of(before, after, "home").to_pydict() == {"home": ["d", "a"], "missing": [3, 1]}
    assert parts_of(before, after.slice(0, 0), "home").num_rows == 0


@pytest.mark.parametrize("seed", range(4))
def test_partners_are_rows_of_one_id(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(40)
    first, second = (
        np.column_stack([side // 7, side % 7]) for side in (rng.permutation(ids[:25]), rng.permutation(ids[15:]))
    )
    left, right = partners(first, second)
    places = {tuple(row): at for at, row in enumerate(first.tolist())}
    wanted = [(places[tuple(row)], at) for at, row in enumerate(second.tolist()) if tuple(row) in places]
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == wanted
    assert len(wanted) == 10
    assert [len(each) for each in partners(first, second[:0])] == [0, 0]


COMPOSED, TAKEN_APART = "\u00e9", "e\u0301"


def test_keys_are_composed_before_and_after_case_is_folded_where_that_is_asked() -> None:
    texts = pa.array([COMPOSED, TAKEN_APART, None])
    assert normalised(texts, ["nfc"]).to_pylist() == [COMPOSED, COMPOSED, None]
    assert normalised(texts, ["trim", "casefold"]).to_pylist() == [COMPOSED, TAKEN_APART, None]
    # Folded, these two have their marks in one order alone when they were composed before.
    j = pa.array(["\u01f0"])
    assert normalised(j, ["casefold"]).to_pylist() == ["j\u030c"]
    assert normalised(j, ["casefold", "nfc"]).to_pylist() == ["\u01f0"]
    iota = pa.array(["\u1fb3\u0301", "\u03b1\u0301\u0345"])
    first, second = normalised(iota, ["casefold", "nfc"]).to_pylist()
    assert first == second, "an accent and an iota below, in either order"
    chunks = pa.chunked_array([[" A "], ["b"]])
    assert normalised(chunks, ["casefold", "trim"]).to_pylist() == ["a", "b"]

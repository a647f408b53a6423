"""Matching with wildcards: against all pairs, and figures of reference tools."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.local_suppression.wildcard_matching import mask_count, matching_sizes


def by_pairs(rows: list[tuple[int, ...]]) -> list[int]:
    """Straight from the definition: every row against every row."""

    def match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True))

    return [sum(match(one, other) for other in rows) for one in rows]


def by_row(rows: list[tuple[int, ...]], width: int) -> list[int]:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), width)
    patterns, owner, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    return matching_sizes(patterns, counts)[owner.ravel()].tolist()  # type: ignore[no-any-return]


@given(st.integers(1, 4).flatmap(lambda m: st.lists(st.tuples(*[st.integers(-1, 3)] * m), min_size=1, max_size=40)))
def test_all_pairs_of_rows_say_the_same(rows: list[tuple[int, ...]]) -> None:
    assert by_row(rows, len(rows[0])) == by_pairs(rows)


def test_wide_keys_do_not_overflow() -> None:
    """Sixteen columns of 2^20 values each do not fit one word."""
    draw = np.random.default_rng(3)
    base = draw.integers(0, 2**20, (6, 16))
    rows = [tuple(row) for row in np.where(draw.random((60, 16)) < 0.2, -1, base[draw.integers(0, 6, 60)]).tolist()]
    assert by_row(rows, 16) == by_pairs(rows)


def test_no_wildcard_means_own_records() -> None:
    counts = np.array([3, 1], dtype=np.int64)
    assert matching_sizes(np.array([[0, 1], [1, 1]]), counts).tolist() == [3, 1]
    assert matching_sizes(np.zeros((1, 0), np.int64), counts[:1]).tolist() == [3]
    assert mask_count(np.zeros((0, 2), np.int64)) == 0


def coded(columns: list[list[Any]], wildcard: Any) -> list[tuple[int, ...]]:
    codes = []
    for column in columns:
        seen = {value: place for place, value in enumerate(sorted({v for v in column if v != wildcard}, key=str))}
        codes.append([-1 if value == wildcard else seen[value] for value in column])
    return list(zip(*codes, strict=True))


def test_reference_of_arx(shared: Path) -> None:
    """ARX 3.9.2: class size of each row under wildcard matching."""
    cases = json.loads((shared / "reference" / "arx.json").read_text())["wildcard_matching"]
    assert len(cases) >= 2
    for case in cases:
        rows = coded([list(column) for column in zip(*case["rows"], strict=True)], case["wildcard"])
        assert by_row(rows, len(case["columns"])) == case["class_size_a_row"], case["id"]


def test_reference_of_sdcmicro(shared: Path) -> None:
    """sdcMicro 5.8.1: fk with alpha = 1, where blanks match anything."""
    import pandas as pd

    checked = 0
    for case in json.loads((shared / "reference" / "sdcmicro.json").read_text())["cases"]:
        if case.get("fn") != "freqCalc+indivRisk" or case.get("alpha") != 1 or "fk" not in case["expected"]:
            continue
        if case.get("inline"):
            frame = pd.DataFrame(case["inline"], dtype=object)
        else:
            frame = pd.read_csv(shared / "data" / "casc" / case["data"], dtype=str)
        for row, key in re.findall(r"\((\d+),(\w+)\)", case.get("na_rule") or ""):
            frame.loc[int(row) - 1, key] = None
        columns = [[None if value != value else value for value in frame[key].tolist()] for key in case["keys"]]
        assert by_row(coded(columns, None), len(columns)) == case["expected"]["fk"], case["id"]
        checked += 1
    assert checked >= 2

"""Shares of disclosed records, a column by itself and jointly, counted record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import FilePair, Verdict
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.measures import RankIntervalDisclosure, SdIntervalDisclosure
from privpipe.measures.risk.attribute.interval_disclosure import Joint

ORIGINAL = {"a": [1.0, 2.0, 3.0, 4.0, None], "b": [1.0, 2.0, 3.0, 4.0, 5.0], "c": [9.0, 9.0, None, 9.0, 9.0]}
RELEASED = {"a": [1.0, 2.0, 0.0, 0.0, 5.0], "b": [1.0, 0.0, 3.0, 0.0, 5.0], "c": [9.0, 0.0, 9.0, 9.0, 9.0]}


def judged(names: str, joint: Joint, most: float | None) -> Verdict:
    """Of a percentage of 0, which discloses what is equal."""
    sides = [pa.record_batch({name: rows[name] for name in names}) for rows in (ORIGINAL, RELEASED)]
    files = FilePair(
        original=sides[0], released=sides[1], ids=np.zeros((5, 2), dtype=np.int64), records=5, released_records=5
    )
    return RankIntervalDisclosure(columns=tuple(names), percent=0, joint=joint, at_most=most).judge_files(files)


def equal(name: str, rows: list[int]) -> list[bool | None]:
    pairs = [(ORIGINAL[name][at], RELEASED[name][at]) for at in rows]
    return [None if None in pair else pair[0] == pair[1] for pair in pairs]


@pytest.mark.parametrize("names", ["a", "ab", "bc", "abc"])
def test_shares_are_counted_record_by_record(names: str) -> None:
    columns = {}
    for name in names:
        known = [each for each in equal(name, list(range(5))) if each is not None]
        columns[name] = sum(known) / len(known)
    whole = [at for at in range(5) if all(equal(name, [at]) != [None] for name in names)]
    rows = [[equal(name, [at])[0] for name in names] for at in whole]
    shares: dict[Joint, float] = {
        "each": max(columns.values()),
        "all": sum(map(all, rows)) / len(rows),
        "any": sum(map(any, rows)) / len(rows),
    }
    for joint, share in shares.items():
        verdict = judged(names, joint, None)
        assert verdict.passed, "a measure judges nothing"
        assert verdict.observed == {"share": share, "columns": columns, "all": shares["all"], "any": shares["any"]}
        assert f"{5 - len(whole)} of them without a value in some column" in verdict.reason
        for most in (0.0, 0.3, 0.5, 0.7, 1.0):
            assert judged(names, joint, most).passed == (share <= most)


def test_a_column_without_a_pair_of_values_is_an_error_whatever_is_asked() -> None:
    original = pa.record_batch({"a": [1.0, 2.0], "b": pa.array([None, None], pa.float64())})
    released = pa.record_batch({"a": [0.0, 0.0], "b": [1.0, 2.0]})
    files = FilePair(
        original=original, released=released, ids=np.zeros((2, 2), dtype=np.int64), records=2, released_records=2
    )
    joints: tuple[Joint, ...] = ("each", "all", "any")
    for joint in joints:
        verdict = RankIntervalDisclosure(columns=("a", "b"), joint=joint, at_most=1.0).judge_files(files)
        assert (verdict.outcome, verdict.observed) == ("error", None)


@pytest.mark.parametrize("entry", [RankIntervalDisclosure, SdIntervalDisclosure])
def test_columns_are_named_once_or_left_out(entry: type[RankIntervalDisclosure | SdIntervalDisclosure]) -> None:
    assert entry(percent=10).columns is None
    for columns in (("a", "a"), ()):
        with pytest.raises(UsageError, match=entry.__name__):
            entry(columns=columns, percent=10)


@pytest.mark.parametrize("joint", ["each", "all", "any"])
def test_values_that_are_missing_in_most_records_are_an_error(embedded: Engine, judged_pair: Any, joint: Joint) -> None:
    """What the original misses as well is nothing to disclose."""
    original = pa.table({"a": [float(at) for at in range(20)], "b": [float(at) for at in range(20)]})
    for kept, outcome in ((20, "pass"), (10, "pass"), (9, "error"), (0, "error")):
        shown = [float(at) + 100 if at < kept else None for at in range(20)]
        released = original.set_column(0, "a", pa.array(shown, pa.float64()))
        entry = SdIntervalDisclosure(percent=1, joint=joint, at_most=1.0)
        assert judged_pair(embedded, entry, original, released).outcome == outcome, kept
        both = original.set_column(0, "a", pa.array([None if each is None else each - 100 for each in shown]))
        if kept:
            assert judged_pair(embedded, entry, both, released).outcome == "pass"

"""Sorted words: every row once, in order, the words of one key in one slice, whatever the parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, sorted_words
from privpipe.engines.embedded.sorted_words import sorted_words as words_of
from privpipe.errors import EngineError
from tests.tiers import at_most

WORDS = st.lists(st.integers(0, 60), min_size=1, max_size=90)


@pytest.fixture(scope="module")
def engine() -> Any:
    with EmbeddedEngine.open({"threads": 2}) as opened:
        yield opened


@given(words=WORDS, radix=st.sampled_from([1, 2, 7, 100]), parts=st.integers(1, 4), most=st.integers(1, 20))
@settings(max_examples=at_most(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_key_is_in_one_slice(engine: EmbeddedEngine, words: list[int], radix: int, parts: int, most: int) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": words}))), None, Seed.insecure(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_words, "parts_of", lambda *_: parts)
        patch.setattr(sorted_words, "SLICE_ROWS", most)
        slices = [each.tolist() for each in words_of(engine.session, table, "w", radix=radix)]
    assert sorted(word for each in slices for word in each) == sorted(words)
    assert all(each == sorted(each) and each for each in slices)
    keys = [{word // radix for word in each} for each in slices]
    assert sum(map(len, keys)) == len(set().union(*keys))
    if parts == 1:  # no slice goes on longer than its last key asks for
        assert all(len(each) <= most or each[most - 1] // radix == each[-1] // radix for each in slices)


@given(words=WORDS, parts=st.integers(2, 4))
@settings(max_examples=at_most(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_slices_of_one_part_outlive_it(engine: EmbeddedEngine, words: list[int], parts: int) -> None:
    """Threads look at slices while the next part is read into the same array; none of them holds that array."""
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": words}))), None, Seed.insecure(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_words, "parts_of", lambda *_: parts)
        patch.setattr(sorted_words, "SLICE_ROWS", 5)
        slices = list(words_of(engine.session, table, "w"))
    assert sorted(np.concatenate(slices).tolist()) == sorted(words)
    assert all(each.base is None for each in slices)


def test_numbers_are_words_too(engine: EmbeddedEngine) -> None:
    rows = pa.table({"w": [1.5, -0.0, 0.0, -7.25, 1.5]})
    table = engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(1))
    [found] = words_of(engine.session, table, "w", kind=np.float64)
    assert found.tolist() == [-7.25, 0.0, 0.0, 1.5, 1.5]


def test_rows_that_were_not_counted_are_told_all_the_same(engine: EmbeddedEngine) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": [3, 1, 2]}))), None, Seed.insecure(1))
    table.tell_records(1)
    assert np.concatenate(list(words_of(engine.session, table, "w"))).tolist() == [1, 2, 3]


@given(
    numbers=st.lists(st.sampled_from([0.0, -0.0, 1.5, -7.25, 1e300, -1e300, 5e-324]), min_size=1, max_size=60),
    parts=st.integers(2, 5),
)
@settings(max_examples=at_most(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_equal_numbers_are_in_one_slice(engine: EmbeddedEngine, numbers: list[float], parts: int) -> None:
    """Both zeros are one number."""
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": numbers}))), None, Seed.insecure(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_words, "parts_of", lambda *_: parts)
        slices = [set(each.tolist()) for each in words_of(engine.session, table, "w", kind=np.float64)]
    assert sum(map(len, slices)) == len(set(numbers))


@given(words=st.lists(st.sampled_from([-(2**62), -1, 0, 1, 2**61]), min_size=1, max_size=60))
@settings(max_examples=at_most(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_words_of_both_signs_are_dealt(engine: EmbeddedEngine, words: list[int]) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": words}))), None, Seed.insecure(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_words, "parts_of", lambda *_: 3)
        slices = [each.tolist() for each in words_of(engine.session, table, "w")]
    assert sorted(word for each in slices for word in each) == sorted(words)
    assert all(each == sorted(each) for each in slices)
    assert sum(len(set(each)) for each in slices) == len(set(words))


def test_rows_are_scanned_once_whatever_the_parts(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": list(range(500))}))), None, Seed.insecure(1))
    scans: list[str] = []
    stream = engine.session.stream

    def watched(sql: str, *given: Any) -> Any:
        scans.append(sql)
        return stream(sql, *given)

    monkeypatch.setattr(engine.session, "stream", watched)
    monkeypatch.setattr(sorted_words, "parts_of", lambda *_: 4)
    slices = list(words_of(engine.session, table, "w"))
    assert len(scans) == 1
    sizes = [len(each) for each in slices]
    assert len(sizes) == 4
    assert max(sizes) < 2 * min(sizes)  # neighbours are spread over all parts


def test_what_is_dealt_is_gone_with_its_reader(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=pa.table({"w": list(range(500))}))), None, Seed.insecure(1))
    monkeypatch.setattr(sorted_words, "parts_of", lambda *_: 4)
    opened = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    reader = words_of(engine.session, table, "w")
    next(reader)
    reader.close()
    assert not opened or len(list(Path("/proc/self/fd").iterdir())) == opened


def test_a_row_without_a_word_is_not_a_row_less(engine: EmbeddedEngine) -> None:
    """Who left missing cells out of a word knew of none: the source has other ones now."""
    rows = pa.table({"w": [3, None, 2]})
    table = engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(1))
    with pytest.raises(EngineError, match="misses values that it had before"):
        list(words_of(engine.session, table, "w"))

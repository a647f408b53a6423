"""Columns of one count stand in the same parts, whatever room other threads take meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassQuery
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, packed_keys, session, sorted_words
from privpipe.engines.embedded.packed_keys import PackedClasses
from privpipe.errors import EngineError
from tests.engines.embedded.test_class_table import shape

RNG = np.random.default_rng(8)
ROWS = pa.table(
    {
        "zip": RNG.choice(["a", "b", "c", "d", "e", "f"], 4000),
        "age": RNG.integers(0, 90, 4000),
        "ill": RNG.choice(["gout", "flu", "none"], 4000),
        "pay": RNG.choice(["low", "high"], 4000),
    }
)
QUERY = ClassQuery(keys=("zip", "age"), columns=("ill", "pay"))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedEngine]:
    monkeypatch.setattr(session, "CODED_ROWS", 0)
    with EmbeddedEngine.open({"threads": 2}) as opened:
        yield opened


def packed(engine: EmbeddedEngine) -> PackedClasses:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(4))
    found = PackedClasses.of(engine.session, table, QUERY)
    assert found is not None
    return found


def test_room_that_comes_and_goes_changes_nothing(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = packed(engine)
    whole = shape(classes.blocks())
    rooms = itertools.cycle([1 << 14, 1 << 30, 1 << 15])
    monkeypatch.setattr(sorted_words, "LEAST_ROOM", 1)
    monkeypatch.setattr(engine.session, "room", lambda: next(rooms))
    for _ in range(3):
        assert shape(classes.blocks()) == whole


def test_columns_of_other_classes_are_not_put_together(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their cells would be those of other records: a class with one illness would look like one with several."""
    classes = packed(engine)
    words: Any = packed_keys.sorted_words
    numbers = itertools.count()

    def shifted(*given: Any, radix: int, **more: Any) -> Iterator[Any]:
        late = next(numbers) % 2
        return (each + late * radix for each in words(*given, radix=radix, **more))

    monkeypatch.setattr(packed_keys, "sorted_words", shifted)
    with pytest.raises(EngineError, match="columns have other classes"):
        list(classes.blocks())

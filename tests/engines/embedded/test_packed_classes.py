"""Packed keys are the numbers that they should be, and columns of one count are in the same parts of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import ClassQuery
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, class_table, session, sorted_words
from privpipe.engines.embedded.class_table import PackedClasses, PackedKeys
from privpipe.engines.embedded.file_codes import Digits
from privpipe.errors import EngineError
from tests.engines.embedded.test_class_table import shape
from tests.tiers import at_most

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
    words: Any = class_table.sorted_words
    numbers = itertools.count()

    def shifted(*given: Any, radix: int, **more: Any) -> Iterator[Any]:
        late = next(numbers) % 2
        return (each + late * radix for each in words(*given, radix=radix, **more))

    monkeypatch.setattr(class_table, "sorted_words", shifted)
    with pytest.raises(EngineError, match="columns have other classes"):
        list(classes.blocks())


@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([3, 4, 90, None])), min_size=1),
    exact=st.sampled_from([0, class_table.EXACT]),
)
@settings(max_examples=at_most(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_keys_are_the_same_numbers_however_they_are_packed(
    engine: EmbeddedEngine, rows: list[tuple[str | None, int | None]], exact: int
) -> None:
    """As integers or as floating-point numbers, of columns with missing values and without."""
    names = pa.schema([("zip", pa.string()), ("age", pa.int64())])
    rows = rows * 16  # texts that hardly repeat become no enumeration
    table = pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=names)
    loaded = engine.with_record_ids(engine.scan(Source(data=table)), None, Seed.insecure(4))
    query = ClassQuery(keys=("zip", "age"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_table, "EXACT", exact)
        classes = PackedClasses.of(engine.session, loaded, query)
        if classes is None:  # an integer column without any value has no digits
            assert all(age is None for _, age in rows)
            return
        found = [(keys.tolist(), block.sizes.tolist()) for block, keys in classes.keyed_blocks()]
    texts = sorted({text for text, _ in rows if text is not None})
    ages = [age for _, age in rows if age is not None]
    size = max(ages) - min(ages) + 2

    def key(text: str | None, age: int | None) -> int:
        first = len(texts) if text is None else texts.index(text)
        return first * size + (size - 1 if age is None else age - min(ages))

    wanted = sorted(Counter(key(*row) for row in rows).items())
    assert [pair for keys, sizes in found for pair in zip(keys, sizes, strict=True)] == wanted


@pytest.mark.parametrize(
    "sizes", [(3, (1 << 53) // 3), (1 << 26, 1 << 27), (1 << 27, (1 << 27) + 1), (1 << 30, 1 << 31)]
)
def test_keys_are_exact_up_to_the_largest(sizes: tuple[int, int]) -> None:
    """Floating-point numbers hold every integer to 2^53; beyond, keys are packed as integers."""
    least = -(1 << 40)
    keys = PackedKeys(("a", "b"), tuple(Digits(size, None, least, missing=False) for size in sizes))
    assert (keys.size <= class_table.EXACT) == ("DOUBLE" in keys.sql)
    first, second = (sorted({0, 1, size // 2, size - 2, size - 1}) for size in sizes)
    cells = pa.table({"a": [least + x for x in first for _ in second], "b": [least + y for _ in first for y in second]})
    with duckdb.connect() as database:
        database.register("cells", cells)
        found = [row[0] for row in database.execute(f"SELECT {keys.sql} FROM cells").fetchall()]
    assert found == [x * sizes[1] + y for x in first for y in second]

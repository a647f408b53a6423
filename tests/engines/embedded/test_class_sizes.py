"""Sizes of counted classes are reported again, exactly, and never for other rows."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts
from privpipe.engines import Engine, Source
from privpipe.engines.base import class_blocks
from privpipe.engines.base.class_blocks import KnownSizes
from privpipe.engines.embedded import class_table
from privpipe.engines.embedded.class_table import JointCells
from privpipe.engines.embedded.session import OutOfMemory

Told = list[tuple[int, bool | None]]


class Listed:
    """The size and the flag of each class."""

    def measure(self, block: ClassBlock, facts: Facts) -> Told:
        marked = [None] * len(block) if block.marked is None else block.marked.tolist()
        return list(zip(block.sizes.tolist(), marked, strict=True))

    def merge(self, left: Told, right: Told) -> Told:
        return left + right


def drawn(seed: int, rows: int = 400) -> pa.Table:
    draw = np.random.default_rng(seed)
    towns, ages = ["1*", "2*", "*", None, ""], [1.5, None, 0.0, 7.0]
    return pa.table(
        {
            "town": pa.array([towns[at] for at in draw.integers(0, 5, rows)], pa.string()),
            "age": pa.array([ages[at] for at in draw.integers(0, 4, rows)], pa.float64()),
            "ill": pa.array([str(at) for at in draw.integers(0, 4, rows)]),
        }
    )


def expected(rows: pa.Table, keys: tuple[str, ...], mark: str | None) -> Told:
    """By the definition: records alike on the keys; the class of nothing but marks has the flag."""
    found = Counter(zip(*(rows.column(name).to_pylist() for name in keys), strict=True))
    bare = tuple(mark if name != "age" else None for name in keys)
    return sorted((size, None if mark is None else key == bare) for key, size in found.items())


def told(engine: Engine, table: Any, query: ClassQuery) -> Told:
    return sorted(engine.reduce_classes(table, query, Listed(), Facts()) or [])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keys", [("town",), ("age",), ("town", "age")], ids="+".join)
def test_sizes_are_those_of_the_definition(embedded: Engine, seed: int, keys: tuple[str, ...]) -> None:
    rows = drawn(seed)
    for mark in (None, "*"):
        table = embedded.scan(Source(data=rows))
        assert told(embedded, table, ClassQuery(keys=keys, mark=mark)) == expected(rows, keys, mark)


@pytest.mark.parametrize(("size", "wanted"), [(1, 1), (2, 4), (5, 16), (17, 64), (100, 64)])
def test_classes_that_memory_may_not_hold_are_counted_in_rounds(
    embedded: Any, monkeypatch: pytest.MonkeyPatch, size: int, wanted: int
) -> None:
    """As many classes as records would take `size` halves of the memory."""
    rows, rounds, sql = drawn(3), [], JointCells.sql

    def noted(self: JointCells, *given: int) -> str:
        rounds.append(given)
        return sql(self, *given)

    monkeypatch.setattr(class_table, "CELL_BYTES", size * (embedded.session.memory // 2) / len(rows))
    monkeypatch.setattr(JointCells, "sql", noted)
    keys = ("town", "age")
    table = embedded.scan(Source(data=rows))
    assert told(embedded, table, ClassQuery(keys=keys, mark="*")) == expected(rows, keys, "*")
    assert sorted(rounds) == [(wanted, number) for number in range(wanted)]


@pytest.mark.parametrize("columns", [(), ("ill",)], ids=["sizes", "cells"])
def test_a_count_is_told_again(embedded: Engine, monkeypatch: pytest.MonkeyPatch, columns: tuple[str, ...]) -> None:
    rows = drawn(9)
    table: Any = embedded.scan(Source(data=rows))
    keys = ("town", "age")
    first = told(embedded, table, ClassQuery(keys=keys, columns=columns, mark="*"))
    fewer = embedded.map_rows(table, lambda each: each.take(np.arange(len(each))[:100]), table.schema)
    with monkeypatch.context() as patch:
        patch.setattr(class_table, "_counted", lambda *_: pytest.fail("counted again"))
        assert told(embedded, table, ClassQuery(keys=keys, mark="*")) == first == expected(rows, keys, "*")
        assert told(embedded, table, ClassQuery(keys=keys[::-1])) == expected(rows, keys, None)
        assert told(embedded, embedded.select(table, keys), ClassQuery(keys=keys)) == expected(rows, keys, None)
    assert told(embedded, table, ClassQuery(keys=keys, mark="2*")) == expected(rows, keys, "2*")
    assert told(embedded, fewer, ClassQuery(keys=keys)) == expected(rows.slice(0, 100), keys, None)
    books = {"town": (pa.array(["1*", "2*", "*", "", None]), pa.array(["*", "*", "*", "*", "*"]))}
    recoded = embedded.recode(table, books)
    coarse = rows.set_column(0, "town", pa.array(["*"] * len(rows)))
    assert told(embedded, recoded, ClassQuery(keys=keys, mark="*")) == expected(coarse, keys, "*")


def test_many_classes_come_in_blocks(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_blocks, "BLOCK_CLASSES", 7)
    rows = pa.table({"town": [str(at) for at in range(50)] + ["0", "*"]})
    table = embedded.scan(Source(data=rows))
    assert told(embedded, table, ClassQuery(keys=("town",), mark="*")) == expected(rows, ("town",), "*")


def test_without_records_there_is_no_class(embedded: Engine) -> None:
    table: Any = embedded.scan(Source(data=drawn(1).slice(0, 0)))
    for columns in ((), ("ill",)):
        query = ClassQuery(keys=("town",), columns=columns, mark="*")
        assert embedded.reduce_classes(table, query, Listed(), Facts()) is None
        assert table.sizes.get(frozenset(("town",)), KnownSizes("*", {})).classes == {}


def test_who_asks_for_a_count_that_is_being_made_waits_for_it(embedded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, begun, going_on, made = drawn(6), Event(), Event(), class_table._counted

    def slow(*given: Any) -> Any:
        assert not begun.is_set(), "counted twice"
        begun.set()
        assert going_on.wait(60)
        return made(*given)

    monkeypatch.setattr(class_table, "_counted", slow)
    table = embedded.scan(Source(data=rows))
    query = ClassQuery(keys=("town", "age"), mark="*")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(told, embedded, table, query)
        assert begun.wait(60)
        second = pool.submit(told, embedded, table, query)
        other = class_table.known_sizes(table, ClassQuery(keys=("ill",)))
        going_on.set()
        found = first.result(60), second.result(60)
    assert other is None
    assert found[0] == found[1] == expected(rows, query.keys, "*")


def test_a_count_that_failed_is_made_by_the_next(embedded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn(7)
    table = embedded.scan(Source(data=rows))
    query = ClassQuery(keys=("town",))
    with monkeypatch.context() as patch:
        patch.setattr(class_table, "_counted", _failing)
        with pytest.raises(OutOfMemory):
            told(embedded, table, query)
    assert told(embedded, table, query) == expected(rows, ("town",), None)


def _failing(*given: Any) -> KnownSizes:
    raise OutOfMemory("too little")

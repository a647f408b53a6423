"""The class table against a plain-Python oracle, under several partitionings, on threads and on processes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest
from privpipe.engines.dask import DaskEngine
from privpipe.errors import DataError

from .conftest import hostile, rows_of

Shape = tuple[Any, ...]


def oracle(table: pa.Table, query: ClassQuery, values: dict[str, list[Any]] | None = None) -> Counter[Shape]:
    """Multiset of classes: size, counts of each column's values (with codes where a dictionary is given), weight."""
    members: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(table):
        members[tuple(row[name] for name in query.keys)].append(row)
    found: Counter[Shape] = Counter()
    for key, rows in members.items():
        shape: list[Any] = [len({row[query.person] for row in rows}) if query.person else len(rows)]
        for name in query.columns:
            pairs = [(row[name], row[query.person] if query.person else number) for number, row in enumerate(rows)]
            counts = Counter(value for value, _person in set(pairs))
            if values and name in values:
                shape.append(tuple(sorted((values[name].index(value), count) for value, count in counts.items())))
            else:
                shape.append(tuple(sorted(counts.values())))
        if query.weight:
            shape.append(round(sum(row[query.weight] for row in rows), 6))
        if query.mark is not None:
            texts = [pa.types.is_string(table.schema.field(name).type) for name in query.keys]
            shape.append(all(a == (query.mark if text else None) for a, text in zip(key, texts, strict=True)))
        found[tuple(shape)] += 1
    return found


def shapes(blocks: list[ClassBlock], query: ClassQuery) -> Counter[Shape]:
    """The same of an engine's blocks."""
    found: Counter[Shape] = Counter()
    for block in blocks:
        for at in range(len(block)):
            shape: list[Any] = [int(block.sizes[at])]
            for name in query.columns:
                cells = block.cells[name]
                own = slice(int(cells.offsets[at]), int(cells.offsets[at + 1]))
                codes, counts = cells.codes[own], cells.counts[own]
                assert (np.diff(codes) > 0).all()
                if name in query.dictionaries:
                    shape.append(tuple(zip(codes.tolist(), counts.tolist(), strict=True)))
                else:
                    shape.append(tuple(sorted(counts.tolist())))
            if block.weights is not None:
                shape.append(round(float(block.weights[at]), 6))
            if query.mark is not None:
                shape.append(bool(block.marked is not None and block.marked[at]))
            found[tuple(shape)] += 1
    return found


QUERIES = [
    ClassQuery(keys=("zip",)),
    ClassQuery(keys=("zip", "age", "x", "pay", "day", "ok"), columns=("ill",)),
    ClassQuery(keys=("x",), columns=("ill", "pay", "day")),
    ClassQuery(keys=(), columns=("ill",)),
    ClassQuery(keys=("zip", "ill"), columns=("x",), mark="*"),
    ClassQuery(keys=("zip", "ok"), mark="*"),
    ClassQuery(keys=("zip",), columns=("ill", "x"), person="who"),
    ClassQuery(keys=("zip", "day"), columns=("ill",), weight="w"),
    ClassQuery(keys=("zip", "zip"), columns=("zip",)),
]


@pytest.mark.parametrize("query", QUERIES, ids=[f"query{number}" for number in range(len(QUERIES))])
def test_classes_are_those_of_the_definition(dasks, scan, query):
    frame = hostile()
    table = scan(dasks, frame)
    assert shapes(list(dasks.classes(table, query)), query) == oracle(frame, query)


@pytest.mark.parametrize("npartitions", [1, 2, 7, 40])
def test_partitioning_changes_nothing(npartitions, scan):
    frame = hostile(90)
    query = QUERIES[1]
    with DaskEngine.open({"scheduler": "threads", "npartitions": npartitions}) as engine:
        assert shapes(list(engine.classes(scan(engine, frame), query)), query) == oracle(frame, query)


def test_codes_are_positions_in_the_dictionary(dasks, scan):
    frame = hostile()
    table = scan(dasks, frame)
    columns = ("ill", "x", "pay")
    facts = dasks.facts(table, FactsRequest(histograms=columns))
    query = ClassQuery(keys=("zip", "day"), columns=columns, dictionaries=facts.histograms)
    values = {name: [None if v is None else v for v in facts.histograms[name].values.to_pylist()] for name in columns}
    assert shapes(list(dasks.classes(table, query)), query) == oracle(frame, query, values)


def test_a_value_the_base_lacks_is_counted_over_all_partitions(dasks, scan):
    base = dasks.facts(scan(dasks, pa.table({"ill": ["flu"]})), FactsRequest(histograms=("ill",)))
    frame = pa.table({"zip": ["1"] * 6, "ill": ["flu", "canary-a", "canary-b", "canary-a", "flu", "canary-b"]})
    query = ClassQuery(keys=("zip",), columns=("ill",), dictionaries=base.histograms)
    with pytest.raises(DataError, match="base does not cover the released values: column 'ill' holds 2") as raised:
        list(dasks.classes(scan(dasks, frame), query))
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("role", "said"), [("person", "person column 'p' has 2"), ("weight", "weight column 'p' has 2")]
)
def test_a_record_needs_its_person_and_weight(threads, scan, role, said):
    frame = pa.table({"zip": ["1", "1", "2", "2"], "p": [1.0, None, 2.0, None]})
    with pytest.raises(DataError, match=said):
        list(threads.classes(scan(threads, frame), ClassQuery(keys=("zip",), **{role: "p"})))


class SumOfSquares:
    """A reduction that is sensitive to a class judged twice."""

    def measure(self, block: ClassBlock, facts: Facts) -> tuple[int, int, int]:
        return len(block), int((block.sizes**2).sum()), block.records

    def merge(self, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(a + b for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("where", ["auto", "driver", "engine"])
def test_a_reduction_sees_every_class_once(dasks, scan, where):
    frame = hostile()
    query = ClassQuery(keys=("zip", "age"))
    sizes = Counter(tuple(row[name] for name in query.keys) for row in rows_of(frame)).values()
    found = dasks.reduce_classes(scan(dasks, frame), query, SumOfSquares(), Facts(), where=where)
    assert found == (len(sizes), sum(size**2 for size in sizes), len(frame))


def test_an_empty_table_has_no_class(dasks, scan):
    table = scan(dasks, hostile().slice(0, 0))
    query = ClassQuery(keys=("zip", "x"), columns=("ill",))
    assert list(dasks.classes(table, query)) == []
    assert dasks.reduce_classes(table, query, SumOfSquares(), Facts()) is None


class AtLeast:
    """Classes of so many records."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, block: ClassBlock) -> np.ndarray:
        return block.sizes >= self.k


def test_records_of_passing_classes_are_kept(dasks, scan):
    frame = hostile()
    keys = ("zip", "x", "ok")
    table = dasks.keep_classes(scan(dasks, frame), ClassQuery(keys=keys), AtLeast(5))
    sizes = Counter(tuple(row[name] for name in keys) for row in rows_of(frame))
    expected = Counter(
        tuple(map(repr, row.values())) for row in rows_of(frame) if sizes[tuple(row[name] for name in keys)] >= 5
    )
    assert 0 < expected.total() < len(frame)
    assert Counter(tuple(map(repr, row.values())) for row in rows_of(dasks.collect(table))) == expected


def test_keys_of_near_unique_columns_do_not_overflow(threads, scan):
    rows = 3000
    rng = np.random.default_rng(1)
    frame = pa.table({f"k{i}": rng.permutation(rows) for i in range(8)})
    query = ClassQuery(keys=tuple(frame.column_names))
    found = threads.reduce_classes(scan(threads, pa.concat_tables([frame, frame])), query, SumOfSquares(), Facts())
    assert found == (rows, 4 * rows, 2 * rows)

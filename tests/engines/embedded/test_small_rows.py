"""Small tables are worked on where they lie; every answer is the one the database gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, stored_rows
from privpipe.engines.embedded.stored_rows import SmallRows
from privpipe.errors import DataError
from privpipe.models import DistinctLDiversity

SEED = Seed.insecure(7)


@pytest.fixture
def both() -> Iterator[tuple[EmbeddedEngine, EmbeddedEngine]]:
    """An engine that asks no query about small rows, and one that asks about all."""
    with EmbeddedEngine.open({"threads": 2}) as small, EmbeddedEngine.open({"threads": 2}) as whole:
        small.session.small_rows = 10_000
        yield small, whole


def table_of(engine: EmbeddedEngine, rows: pa.Table, *, ids: bool = True) -> Any:
    table = engine.scan(Source(data=rows))
    return engine.with_record_ids(table, None, SEED) if ids else table


def counted(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def multiset(rows: pa.Table) -> Counter[Any]:
    return Counter(tuple(map(counted, row.values())) for row in rows.to_pylist())


def classes_of(blocks: Iterator[ClassBlock]) -> Counter[Any]:
    """Each class by its size, mark and the counts in its columns, codes of no dictionary left out."""
    found: Counter[Any] = Counter()
    for block in blocks:
        for at, size in enumerate(block.sizes.tolist()):
            cells = tuple(
                tuple(sorted(own.counts[own.offsets[at] : own.offsets[at + 1]].tolist()))
                for own in block.cells.values()
            )
            marked = None if block.marked is None else bool(block.marked[at])
            weight = None if block.weights is None else float(block.weights[at])
            found[size, marked, weight, cells] += 1
    return found


def test_record_ids_and_rows(both: Any, hostile: Any) -> None:
    one, other = (table_of(engine, hostile.rows) for engine in both)
    assert one.schema == other.schema
    mine, theirs = (
        engine.reduce_rows(table, list(table.schema.names), Rows(), Facts())
        for engine, table in zip(both, (one, other), strict=True)
    )
    assert (mine is None) == (theirs is None)
    assert mine is None or multiset(mine) == multiset(theirs)


class Rows:
    """A reduction that gathers rows with their ids."""

    def measure(self, block: Any, facts: Facts) -> pa.Table:
        return pa.Table.from_batches([block.to_batch()])

    def merge(self, left: pa.Table, right: pa.Table) -> pa.Table:
        return pa.concat_tables([left, right])


def test_facts_and_distinct(both: Any, hostile: Any) -> None:
    names = tuple(hostile.rows.column_names)
    one, other = (table_of(engine, hostile.rows) for engine in both)
    facts = [
        engine.facts(table, FactsRequest(histograms=names, nulls=names))
        for engine, table in zip(both, (one, other), strict=True)
    ]
    assert facts[0].records == facts[1].records
    assert facts[0].nulls == facts[1].nulls
    for name in names:
        mine, theirs = facts[0].histograms[name], facts[1].histograms[name]
        assert mine.values.equals(theirs.values)
        assert mine.counts.tolist() == theirs.counts.tolist()
    for columns in (list(names), list(reversed(names)), [names[0]], []):
        mine, theirs = (engine.distinct(table, columns) for engine, table in zip(both, (one, other), strict=True))
        assert mine.schema == theirs.schema
        assert mine.to_pylist() == theirs.to_pylist()


def test_classes(both: Any, hostile: Any) -> None:
    one, other = (table_of(engine, hostile.rows) for engine in both)
    for mark in (None, "*"):
        query = ClassQuery(keys=hostile.keys, columns=hostile.columns, mark=mark)
        mine, theirs = (
            classes_of(engine.classes(table, query)) for engine, table in zip(both, (one, other), strict=True)
        )
        assert mine == theirs


@pytest.mark.parametrize(
    "query",
    [
        ClassQuery(keys=("zip", "age"), columns=("ill",), person="who"),
        ClassQuery(keys=("zip",), weight="wt"),
        ClassQuery(keys=(), columns=("ill",), person="who"),
    ],
)
def test_persons_and_weights(both: Any, ordinary: Any, query: ClassQuery) -> None:
    mine, theirs = (classes_of(engine.classes(table_of(engine, ordinary(11, 120)), query)) for engine in both)
    assert mine == theirs


def test_kept_classes(both: Any, hostile: Any) -> None:
    def large(block: ClassBlock) -> Any:
        return block.sizes >= 2

    query = ClassQuery(keys=hostile.keys, columns=hostile.columns)
    mine, theirs = (
        engine.collect(engine.keep_classes(table_of(engine, hostile.rows), query, large)) for engine in both
    )
    assert mine.schema == theirs.schema
    assert list(map(str, mine.to_pylist())) == list(map(str, theirs.to_pylist()))


def test_recoded_columns(both: Any, hostile: Any) -> None:
    name = hostile.rows.column_names[0]
    made = []
    for engine in both:
        table = table_of(engine, hostile.rows)
        values = engine.facts(table, FactsRequest(histograms=(name,))).histograms[name].values
        labels = pa.array([f"label {at}" for at in range(len(values))], pa.string())
        made.append(engine.collect(engine.recode(table, {name: (values, labels)})))
        if len(values):
            with pytest.raises(DataError, match="1 records|records hold a value"):
                engine.collect(engine.recode(table, {name: (values.slice(1), labels.slice(1))}))
    assert made[0].schema == made[1].schema
    assert list(map(str, made[0].to_pylist())) == list(map(str, made[1].to_pylist()))


def test_a_base_that_lacks_a_value_is_refused_alike(both: Any, ordinary: Any) -> None:
    said = []
    for engine in both:
        table = table_of(engine, ordinary(12, 60))
        whole = engine.facts(table, FactsRequest(histograms=("ill",))).histograms["ill"]
        short = type(whole)(whole.values.slice(1), whole.counts[1:])
        query = ClassQuery(keys=("zip",), columns=("ill",), dictionaries={"ill": short})
        with pytest.raises(DataError) as error:
            list(engine.classes(table, query))
        said.append(str(error.value))
    assert said[0].split("holds")[0] == said[1].split("holds")[0]


def test_what_is_judged_is_no_longer_the_callers(both: Any) -> None:
    small, _ = both
    frame = pd.DataFrame({"age": np.arange(5)})
    table = table_of(small, pa.Table.from_pandas(frame))
    frame.loc[:, "age"] = 7
    frame["age"].to_numpy()[:] = 7
    assert sorted(small.collect(table).column("age").to_pylist()) == list(range(5))


def test_no_database_is_opened_for_them(ordinary: Any) -> None:
    with EmbeddedEngine.open({}) as engine:
        pass  # its options are known from here on
    with EmbeddedEngine.open({}) as engine:
        engine.session.small_rows = 10_000
        table = table_of(engine, ordinary(13, 40))
        model = DistinctLDiversity(column="ill", l=1)
        query = ClassQuery(keys=("zip",), columns=("ill",))
        engine.collect(engine.keep_classes(table, query, lambda block: model.passing(block, Facts())))
        assert engine.session._opened is None
    with EmbeddedEngine.open({}) as engine:
        engine.session.small_rows = 10
        assert engine.count(table_of(engine, ordinary(14, 11))) == 11
        assert engine.session._opened is not None


def test_few_rows_of_many_bytes_are_given_to_the_database(
    both: tuple[EmbeddedEngine, EmbeddedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"word": ["long " * 20, None, "long " * 20, "short"]})
    small, whole = (table_of(engine, rows) for engine in both)
    assert SmallRows.of(both[0].session, small) is not None
    monkeypatch.setattr(stored_rows, "SMALL_BYTES", rows.nbytes - 1)
    large = table_of(both[0], rows)
    assert SmallRows.of(both[0].session, small) is SmallRows.of(both[0].session, large) is None
    assert both[0].collect(small).equals(both[1].collect(whole))
    assert both[0].collect(large).equals(both[1].collect(whole))


def test_ids_of_equal_records_are_those_of_the_database(both: tuple[EmbeddedEngine, EmbeddedEngine]) -> None:
    rng = np.random.default_rng(3)
    rows = pa.table({"word": rng.choice(["a", "b", "c", None], 500), "number": rng.integers(0, 4, 500)})
    small, whole = (
        sorted(zip(*(found.column(name).to_pylist() for name in found.column_names), strict=True), key=repr)
        for found in (table_of(engine, rows).rows for engine in both)
    )
    assert small == whole
    assert len({ids[2:] for ids in small}) == 500

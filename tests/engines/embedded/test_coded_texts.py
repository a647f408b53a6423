"""Tables stored with texts as enumerations: the same ids, classes, rows and files as of texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, FactsRequest
from privpipe.draws import RunKey, Seed
from privpipe.engines import Source
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.embedded import EmbeddedEngine, class_table, joins, record_ids, session, sorted_words
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.errors import DataError, EngineError
from privpipe.models import CATALOGUE
from privpipe.testing import HOSTILE_TABLES, Case, Conformance, HostileTable, examples_of
from tests.engines.embedded.class_rows import classes
from tests.hostile_kinds import each_table

SEED = Seed.insecure(3)
RNG = np.random.default_rng(8)
N = 6000
TEXTS = ["", "*", "a", "a ", "A", "Ä", "日本", "b'x", 'say "hi"', "\x00z", "null"]
ROWS = pa.table(
    {
        "zip": pa.array(RNG.choice(TEXTS, N), mask=RNG.random(N) < 0.1),
        'odd {0} "name"': pa.array(RNG.choice(["*", "q"], N)),
        "age": pa.array(RNG.integers(-3, 40, N), mask=RNG.random(N) < 0.05),
        "key": pa.array([f"{at:06d}" for at in RNG.permutation(N)]),
        "far": pa.array(RNG.choice([-(2**63), 2**63 - 1, 5], N)),
        "income": pa.array(RNG.choice([0.0, -0.0, 1.5, 7.25, np.nan], N)),
        "ill": pa.array(RNG.choice(["gout", "flu", "none"], N), mask=RNG.random(N) < 0.1),
        "seen": pa.array(RNG.integers(0, 900, N), pa.timestamp("us", "UTC")),
        "born": pa.array(RNG.integers(0, 900, N).astype(np.int32), pa.date32()),
        "paid": pa.array(RNG.integers(0, 99, N)).cast(pa.decimal128(38, 2)),
        "yes": pa.array(RNG.random(N) < 0.5),
        "raw": pa.array([b"x", b"", None] * (N // 3), pa.binary()),
    }
)
KEYS = ("zip", 'odd {0} "name"', "age")
QUERIES = [
    ClassQuery(keys=KEYS, columns=("ill",), mark="*"),
    ClassQuery(keys=KEYS, mark="*"),
    ClassQuery(keys=("zip",), columns=("ill", "age")),
    ClassQuery(keys=("zip", "income"), columns=("ill",)),
    ClassQuery(keys=("far", "zip"), columns=("ill",), mark="*"),
    ClassQuery(keys=(), columns=("ill",)),
    ClassQuery(keys=("income",), mark="*"),
    ClassQuery(keys=("key",)),
]


@pytest.fixture
def plain() -> Iterator[EmbeddedEngine]:
    with EmbeddedEngine.open({"threads": 2}) as engine:
        yield engine


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedEngine]:
    """An engine to which no table is too small to be stored, and no text too rarely repeated."""
    monkeypatch.setattr(session, "CODED_ROWS", 0)
    with EmbeddedEngine.open({"threads": 2}) as engine:
        yield engine


def loaded(engine: EmbeddedEngine, rows: pa.Table = ROWS, column: str | None = None) -> EmbeddedTable:
    return engine.with_record_ids(engine.scan(Source(data=rows)), column, SEED)


def ids_and_rows(engine: EmbeddedEngine, table: EmbeddedTable) -> list[dict[str, Any]]:
    found = engine.session.table(f"SELECT * FROM {table.source} ORDER BY __privpipe_id_hi", table.frames)
    return found.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("column", [None, "key"])
def test_ids_and_fingerprint_are_those_of_the_texts(
    plain: EmbeddedEngine, coded: EmbeddedEngine, column: str | None
) -> None:
    one, other = loaded(plain, column=column), loaded(coded, column=column)
    assert one.coded is None
    assert other.coded is not None
    assert set(other.digits) == {"zip", 'odd {0} "name"', "age", "ill"}
    assert ids_and_rows(plain, one) == ids_and_rows(coded, other)
    assert fingerprint(plain, one, SEED) == fingerprint(coded, other, SEED)
    assert (coded.known(other).content(SEED) is None) == (column is not None)
    assert coded.known(other).content(Seed.insecure(4)) is None


@pytest.mark.parametrize("column", [None, "n"])
def test_rows_of_many_groups_get_their_own_ids_with_and_without_room(coded: EmbeddedEngine, column: str | None) -> None:
    many = 300_000  # DuckDB stores 122,880 rows a group, and threads read several at once
    rows = pa.table(
        {"n": RNG.permutation(many), "ward": pa.array(["a", "b", None]).take(pa.array(RNG.integers(0, 3, many)))}
    )
    table = loaded(coded, rows, column)
    held = coded.session.hold(coded.session.room())  # no room: ids come by a function of the query
    other = loaded(coded, rows, column)
    assert held is not None
    both = f"SELECT * FROM {table.source} EXCEPT SELECT * FROM {other.source}"
    assert coded.session.value(f"SELECT count(*) FROM ({both})") == 0
    assert coded.session.value(f"SELECT count(DISTINCT __privpipe_id_hi) FROM {table.source}") == many
    assert fingerprint(coded, table, SEED) == fingerprint(coded, other, SEED)


def test_a_source_that_changes_meanwhile_is_an_error(coded: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = coded.scan(Source(data=ROWS))
    monkeypatch.setattr(EmbeddedTable, "records", lambda self, session: N + 1)
    with pytest.raises(EngineError, match="changed while it was read"):
        coded.with_record_ids(table, None, SEED)


def test_equal_records_are_numbered(plain: EmbeddedEngine, coded: EmbeddedEngine) -> None:
    few = pa.table({"zip": ["a", "b", "a", "a", None, None] * 50, "n": [1, 2, 1, 1, 3, None] * 50})
    one, other = loaded(plain, few), loaded(coded, few)
    found = ids_and_rows(coded, other)
    assert len({(row["__privpipe_id_hi"], row["__privpipe_id_lo"]) for row in found}) == len(few)
    assert found == ids_and_rows(plain, one)
    assert fingerprint(plain, one, SEED) == fingerprint(coded, other, SEED)


@pytest.mark.parametrize("query", QUERIES, ids=repr)
@pytest.mark.parametrize("room", [None, 0])
def test_class_tables_are_those_of_the_texts(
    plain: EmbeddedEngine, coded: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch, query: ClassQuery, room: int | None
) -> None:
    if room is not None:  # the words of keys are sorted in several parts
        monkeypatch.setattr(sorted_words, "LEAST_ROOM", 1 << 14)
        monkeypatch.setattr(sorted_words, "SLICE_ROWS", 100)
        coded.session.hold(coded.session.room())
    expected = classes(plain.classes(loaded(plain), query))
    assert classes(coded.classes(loaded(coded), query)) == expected
    for table in (loaded(coded), loaded(plain)):  # sizes alone, where they are sorted words
        engine = coded if table.coded else plain
        alone = ClassQuery(keys=query.keys, mark=query.mark)
        sized = engine.reduce_classes(table, alone, Gathered(), engine.facts(table, FactsRequest()))
        assert sorted(sized or []) == sorted((size, marked) for size, marked, _ in expected)


class Gathered:
    """A reduction that returns all classes."""

    def measure(self, block: ClassBlock, facts: Any) -> list[tuple[int, bool]]:
        marked = np.zeros(len(block), np.bool_) if block.marked is None else block.marked
        return list(zip(block.sizes.tolist(), marked.tolist(), strict=True))

    def merge(self, left: list[tuple[int, bool]], right: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
        return left + right


def test_codes_are_places_in_the_dictionary_asked_for(coded: EmbeddedEngine) -> None:
    table = loaded(coded)
    facts = coded.facts(table, FactsRequest(histograms=("ill", "age")))
    asked = ClassQuery(keys=(), columns=("ill", "age"), dictionaries=facts.histograms)
    [block] = coded.classes(table, asked)
    for name in ("ill", "age"):
        assert block.cells[name].codes.tolist() == list(range(len(facts.histograms[name].values)))
        assert block.cells[name].counts.tolist() == facts.histograms[name].counts.tolist()


def test_a_dictionary_in_another_order_and_one_that_lacks_a_value(coded: EmbeddedEngine) -> None:
    table = loaded(coded)
    found = coded.facts(table, FactsRequest(histograms=("ill",))).histograms["ill"]
    turned = type(found)(found.values.take(pa.array([3, 1, 0, 2])), found.counts[[3, 1, 0, 2]])
    [block] = coded.classes(table, ClassQuery(keys=(), columns=("ill",), dictionaries={"ill": turned}))
    assert block.cells["ill"].counts.tolist() == turned.counts.tolist()
    less = type(found)(found.values[:2], found.counts[:2])
    with pytest.raises(DataError, match="holds 2 distinct values") as refused:
        list(coded.classes(table, ClassQuery(keys=(), columns=("ill",), dictionaries={"ill": less})))
    assert not any(text in str(refused.value) for text in ("gout", "none"))


def released(engine: EmbeddedEngine, folder: Path) -> tuple[Any, ...]:
    """A small release by hand: labels, passing classes, columns, keyed order, files."""
    table = loaded(engine)
    values = engine.facts(table, FactsRequest(histograms=("zip", "age"))).histograms
    zips = pc.if_else(pc.less(pc.utf8_length(values["zip"].values), 2), "short", values["zip"].values)
    ages = pa.array([None if age is None else f"{age // 10}x" for age in values["age"].values.to_pylist()])
    recoded = engine.recode(table, {"zip": (values["zip"].values, zips), "age": (values["age"].values, ages)})
    kept = engine.keep_classes(recoded, ClassQuery(keys=KEYS, columns=("ill",)), lambda block: block.sizes > 40)
    seen = engine.facts(kept, FactsRequest(histograms=KEYS)).histograms
    told = [(name, each.values.to_pylist(), each.counts.tolist()) for name, each in seen.items()]
    chosen = engine.select(kept, [name for name in ROWS.column_names if name != "key"])
    folder.mkdir()
    engine.write(chosen, str(folder), "parquet", RunKey.of(SEED, "policy", "source").rows("plan"))
    thin = engine.session.value(f"SELECT count(*) FROM {engine.thinned(chosen, 0.3).source}", chosen.frames)
    return engine.count(kept), told, thin, (folder / "part-00000.parquet").read_bytes()


def test_a_release_has_the_same_bytes(plain: EmbeddedEngine, coded: EmbeddedEngine, tmp_path: Path) -> None:
    one, other = released(plain, tmp_path / "plain"), released(coded, tmp_path / "coded")
    assert one[0] < N
    assert one == other


@pytest.mark.parametrize("most_digits", [0, 1 << 20])
def test_lost_classes_are_stored_some_at_a_time(
    most_digits: int, plain: EmbeddedEngine, coded: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and histograms are those of one piece, and of the engine that stores no codes."""
    stored = []

    def kept(engine: EmbeddedEngine) -> tuple[Any, ...]:
        table = loaded(engine)
        seen = engine.facts(table, FactsRequest(histograms=KEYS)).histograms
        left: Any = engine.keep_classes(table, ClassQuery(keys=KEYS), lambda block: block.sizes % 3 > 0)
        told = [
            (name, left.histograms[name].values.to_pylist(), left.histograms[name].counts.tolist()) for name in seen
        ]
        return engine.count(left), told, engine.collect(left)

    def running(own: Any, sql: str, *more: Any) -> None:
        stored.append(sql)
        real(own, sql, *more)

    whole = kept(plain)
    real = session.Session.run
    monkeypatch.setattr(session.Session, "run", running)
    monkeypatch.setattr(class_table, "MOST_DIGITS", most_digits)
    monkeypatch.setattr(sorted_words, "SLICE_ROWS", 400)
    monkeypatch.setattr(joins, "LOST_AT_ONCE", 5)
    assert 0 < whole[0] < N
    assert kept(coded) == whole
    assert sum(sql.startswith("INSERT INTO kept") for sql in stored) > 3


def test_files_show_no_text_that_no_row_has(coded: EmbeddedEngine, tmp_path: Path) -> None:
    kept = coded.keep_classes(loaded(coded), ClassQuery(keys=("zip",)), lambda block: block.sizes != block.sizes.max())
    gone = set(ROWS.column("zip").to_pylist()) - set(coded.collect(kept).column("zip").to_pylist())
    assert gone
    chosen = coded.select(kept, ["zip", "ill"])
    coded.write(chosen, str(tmp_path), "parquet", RunKey.of(SEED, "p", "s").rows("x"))
    [path] = tmp_path.iterdir()
    column = pq.ParquetFile(path).read(["zip"]).column("zip")
    assert set(column.to_pylist()).isdisjoint(gone)
    read = pq.read_table(path, read_dictionary=["zip"]).column("zip")
    assert {value for chunk in read.chunks for value in chunk.dictionary.to_pylist()}.isdisjoint(gone)


def test_near_unique_texts_stay_as_they_are(coded: EmbeddedEngine) -> None:
    assert "key" not in loaded(coded).digits
    keys = ROWS.select(["key", "age"])
    assert loaded(coded, keys).coded is None


def test_a_text_of_too_many_values_is_not_an_enumeration(
    coded: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_ids, "MOST_VALUES", 5)
    monkeypatch.setattr(record_ids, "PROBED", 3)
    monkeypatch.setattr(record_ids, "REPEATED", 1)
    table = loaded(coded)
    assert set(table.digits) >= {'odd {0} "name"', "ill"}
    assert "zip" not in table.digits
    assert "zip" not in table.histograms


class StoredEngine(EmbeddedEngine):
    """Every table that is scanned is stored with its ids."""

    def scan(self, source: Source) -> EmbeddedTable:
        table = super().scan(source)
        return self.with_record_ids(table, None, SEED) if self.count(table) else table


STORED: dict[str, Conformance] = {}


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Conformance:
    if not STORED:
        monkeypatch.setattr(session, "CODED_ROWS", 0)
        monkeypatch.setattr(record_ids, "REPEATED", 1)
        STORED["checks"] = Conformance(StoredEngine.open({"threads": 2}))
    return STORED["checks"]


@each_table
def test_stored_tables_get_the_oracle_verdict(
    stored: Conformance, table: HostileTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_ids, "REPEATED", 1)
    found = stored.report(Case(model, table) for model in examples_of(CATALOGUE, population=True)[::3])
    assert not found.failures, str(found)


def test_hostile_tables_are_stored(stored: Conformance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_ids, "REPEATED", 1)
    engine = stored.engine
    found = [engine.scan(Source(data=table.frame())) for table in HOSTILE_TABLES.values() if table.refused is None]
    assert sum(getattr(table, "coded", None) is not None for table in found) > 5

"""Large Parquet files read by the numbers of their dictionaries: ids, classes and histograms as of their texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.embedded import (
    EmbeddedEngine,
    class_table,
    coded_files,
    file_codes,
    record_ids,
    session,
    sorted_words,
)
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.file_codes import CodedColumn, FileCodes
from privpipe.errors import DataError, EngineError
from privpipe.models import CATALOGUE
from privpipe.testing import Case, Conformance, HostileTable, examples_of
from tests.engines.embedded.class_rows import classes
from tests.hostile_kinds import each_table
from tests.tiers import at_most

SEED = Seed.insecure(3)
RNG = np.random.default_rng(8)
N = 4000
TEXTS = ["", "*", "a", "a ", "A", "Ä", "日本", "b'x", 'say "hi"', "\x00z", "null", "\N{COMBINING ACUTE ACCENT}"]
ROWS = pa.table(
    {
        "zip": pa.array(RNG.choice(TEXTS, N), mask=RNG.random(N) < 0.1),
        'odd {0} "name"': pa.array(RNG.choice(["*", "q"], N)),
        "a.b": pa.array(RNG.choice(["x", "y"], N)),
        "age": pa.array(RNG.integers(-3, 40, N), mask=RNG.random(N) < 0.05),
        "far": pa.array(RNG.choice([-(2**63), 2**63 - 1, 5], N)),
        "key": pa.array([f"{at:06d}" for at in RNG.permutation(N)]),
        "income": pa.array(RNG.choice([0.0, -0.0, 1.5, 7.25, np.nan], N)),
        "ill": pa.array(RNG.choice(["gout", "flu", "none"], N), mask=RNG.random(N) < 0.1),
        "born": pa.array(RNG.integers(0, 900, N).astype(np.int32), pa.date32()),
        "paid": pa.array(RNG.integers(0, 99, N)).cast(pa.decimal128(38, 2)),
        "short": pa.array(RNG.integers(0, 9, N).astype(np.int16)),
        "yes": pa.array(RNG.random(N) < 0.5),
        "none": pa.nulls(N, pa.string()),
    }
)
KEYS = ("zip", 'odd {0} "name"', "age", "a.b")
QUERIES = [
    ClassQuery(keys=KEYS, columns=("ill",), mark="*"),
    ClassQuery(keys=KEYS, mark="*"),
    ClassQuery(keys=("zip", "none"), columns=("ill", "age")),
    ClassQuery(keys=("zip", "income"), columns=("ill",)),
    ClassQuery(keys=("far", "zip"), columns=("ill",), mark="*"),
    ClassQuery(keys=(), columns=("ill",)),
    ClassQuery(keys=("far",), columns=("far",)),
    ClassQuery(keys=("none",), mark="*"),
    ClassQuery(keys=("key", "ill")),
    ClassQuery(keys=("short", "yes", "zip")),
]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedEngine]:
    """An engine to which no file is too small, and no text too rarely repeated."""
    monkeypatch.setattr(session, "CODED_ROWS", 0)
    monkeypatch.setattr(file_codes, "PIECE_ROWS", 700)
    monkeypatch.setattr(coded_files, "PIECE_ROWS", 1500)  # several pieces are stored together, and several times
    with EmbeddedEngine.open({"threads": 2}) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The rows in three files of several row groups, one of them in dictionaries of its own order."""
    return written(tmp_path / "rows", ROWS)


def written(folder: Path, rows: pa.Table, **more: Any) -> Path:
    folder.mkdir()
    for at, (start, stop) in enumerate([(0, 1), (1, 2500), (2500, max(2500, len(rows)))]):
        part = rows.slice(start, stop - start)
        pq.write_table(part, folder / f"{at}.parquet", row_group_size=600, **more)
    return folder


def scanned(engine: EmbeddedEngine, folder: Path, *, coded: bool = True) -> EmbeddedTable:
    table = engine.scan(Source(data=str(folder), format="parquet"))
    return table if coded else replace(table, files=None)


def some_of(engine: EmbeddedEngine, table: EmbeddedTable, names: list[str]) -> dict[str, CodedColumn]:
    assert table.files is not None
    return table.files.some_of(engine.session, names, len(ROWS))


def is_packed(engine: EmbeddedEngine, table: EmbeddedTable, query: ClassQuery) -> bool:
    return class_table.PackedClasses.of(engine.session, table, query) is not None


@pytest.mark.parametrize("query", QUERIES, ids=repr)
@pytest.mark.parametrize("parts", [1, 7])
def test_class_tables_are_those_of_the_texts(
    engine: EmbeddedEngine, folder: Path, query: ClassQuery, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts > 1:  # words are sorted in several parts
        monkeypatch.setattr(class_table, "parts_of", lambda *_: parts)
        monkeypatch.setattr(sorted_words, "SLICE_ROWS", 100)
    expected = classes(engine.classes(scanned(engine, folder, coded=False), query))
    table = scanned(engine, folder)
    packable = not {"income", "far", "short", "yes"} & set(query.keys)
    assert is_packed(engine, table, query) == packable
    assert classes(engine.classes(table, query)) == expected


@pytest.mark.parametrize("room", [None, 0])
@pytest.mark.parametrize("column", [None, "key"])
@pytest.mark.parametrize("most", [65535, 5])
def test_ids_rows_and_fingerprint_are_those_of_the_texts(
    engine: EmbeddedEngine,
    folder: Path,
    room: int | None,
    column: str | None,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where some texts have no codes in the files, and are looked up."""
    monkeypatch.setattr(file_codes, "MOST_VALUES", most)
    tables = []
    for coded in (True, False):
        held = engine.session.hold(engine.session.room()) if room == 0 and coded else None
        made = engine.with_record_ids(scanned(engine, folder, coded=coded), column, SEED)
        del held
        rows = engine.session.table(f"SELECT * FROM {made.source} ORDER BY __privpipe_id_hi", made.frames)
        tables.append((rows.to_pylist(), made.schema, set(made.digits), fingerprint(engine, made, SEED)))
    assert repr(tables[0]) == repr(tables[1])  # -0.0 and 0.0 told apart
    assert {"zip", "ill", "none"} <= tables[0][2]


def test_many_values_that_are_repeated_become_an_enumeration(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many that the first rows do not show it, once all rows were estimated."""
    towns = [f"{at:03d}" for at in range(500)]
    rows = pa.table({"town": [*towns, *reversed(towns)] * 2, "ill": ["x", "y"] * 1000, "n": range(2000)})
    monkeypatch.setattr(record_ids, "PROBED", 400)
    monkeypatch.setattr(file_codes, "MOST_VALUES", 100)
    made = {}
    for estimated in (False, True):
        table = scanned(engine, written(tmp_path / f"rows {estimated}", rows))
        if estimated:
            engine.estimated_distinct(table, ["town", "n"])
        made[estimated] = engine.with_record_ids(table, None, SEED)
        assert ("town" in made[estimated].digits) is estimated
    query = ClassQuery(keys=("town",), columns=("ill",))
    assert is_packed(engine, made[True], query)
    assert not is_packed(engine, made[False], query)
    assert classes(engine.classes(made[True], query)) == classes(engine.classes(made[False], query))
    assert fingerprint(engine, made[True], SEED) == fingerprint(engine, made[False], SEED)


@pytest.mark.parametrize("room", [None, 0])
@pytest.mark.parametrize("apart", [1, 2990])
def test_equal_records_are_numbered(engine: EmbeddedEngine, tmp_path: Path, room: int | None, apart: int) -> None:
    """Next to one another, and in files far apart, with and without room for a word of each id."""
    numbers = [*range(2990), 0] if apart > 1 else [1, 1, *range(2, 2990), 5]
    rows = pa.table({"zip": ["a"] * len(numbers), "n": numbers})
    before = engine.session.room()
    held = engine.session.hold(before) if room == 0 else None
    made = engine.with_record_ids(scanned(engine, written(tmp_path / "rows", rows)), None, SEED)
    del held
    count = f"SELECT count(DISTINCT (__privpipe_id_hi, __privpipe_id_lo)), count(*) FROM {made.source}"
    assert engine.session.row(count, made.frames) == (len(rows), len(rows))
    # Ids of records that have no equal do not change by those that have.
    alone = engine.with_record_ids(engine.scan(Source(data=rows.slice(100, 50))), None, SEED)
    ids = "SELECT __privpipe_id_hi, __privpipe_id_lo FROM"
    few = set(map(tuple, engine.session.table(f"{ids} {alone.source}", alone.frames).to_pandas().to_numpy().tolist()))
    every = engine.session.table(f"{ids} {made.source}", made.frames).to_pandas().to_numpy().tolist()
    assert len(few) == 50
    assert few <= set(map(tuple, every))


def test_histograms_are_those_of_the_texts(engine: EmbeddedEngine, folder: Path) -> None:
    table, plain = scanned(engine, folder), scanned(engine, folder, coded=False)
    list(engine.classes(table, QUERIES[0]))
    names = (*KEYS, "ill")
    assert set(table.histograms) == set(names)
    expected = engine.facts(plain, FactsRequest(histograms=names)).histograms
    for name in names:
        assert table.histograms[name].values.equals(expected[name].values)
        assert table.histograms[name].counts.tolist() == expected[name].counts.tolist()


def test_a_value_of_the_dictionary_that_no_cell_has_is_not_a_value(engine: EmbeddedEngine, tmp_path: Path) -> None:
    cells = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2, None] * 9, pa.int32()), pa.array(["z", "gone", "a"]))
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"zip": cells}), tmp_path / "rows" / "0.parquet", store_schema=False)
    table = scanned(engine, tmp_path / "rows")
    assert is_packed(engine, table, ClassQuery(keys=("zip",)))
    assert table.histograms["zip"].values.to_pylist() == ["a", "z", None]
    made = engine.with_record_ids(scanned(engine, tmp_path / "rows"), None, SEED)
    kind = engine.session.value(f"SELECT typeof(zip) FROM {made.compact} LIMIT 1", made.frames)
    assert "gone" not in kind
    assert "'a', 'z'" in kind


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"use_dictionary": False}, "plain texts"),
        ({"dictionary_pagesize_limit": 1}, "a dictionary that was given up in the middle"),
        ({"version": "1.0", "data_page_version": "2.0"}, "pages of another version"),
    ],
)
def test_files_of_other_writers_give_the_same_classes(
    engine: EmbeddedEngine, folder: Path, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    other = written(tmp_path / "other", ROWS, **more)
    found = [
        classes(engine.classes(scanned(engine, place, coded=coded), QUERIES[0]))
        for place, coded in ((folder, False), (other, True), (other, False))
    ]
    assert found[0] == found[1] == found[2], why


def test_files_of_unlike_types_are_left_to_the_database(engine: EmbeddedEngine, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for at, kind in enumerate([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]):
        pq.write_table(pa.table({"zip": pa.array(["a", "b"], kind)}), tmp_path / "rows" / f"{at}.parquet")
    query = ClassQuery(keys=("zip",))
    found = classes(engine.classes(scanned(engine, tmp_path / "rows"), query))
    assert [size for size, *_ in found] == [3, 3]


def test_categories_of_pandas_have_codes(engine: EmbeddedEngine, tmp_path: Path) -> None:
    rows = pa.table({"zip": pa.array(["b", "a", None, "b"]).dictionary_encode()})
    (tmp_path / "rows").mkdir()
    pq.write_table(rows, tmp_path / "rows" / "0.parquet")
    table = scanned(engine, tmp_path / "rows")
    assert is_packed(engine, table, ClassQuery(keys=("zip",)))
    assert [size for size, *_ in classes(engine.classes(table, ClassQuery(keys=("zip",))))] == [1, 1, 2]
    made = engine.with_record_ids(scanned(engine, tmp_path / "rows"), None, SEED)
    cells = engine.session.table(f"SELECT zip FROM {made.source}", made.frames).column("zip").to_pylist()
    assert sorted(cells, key=str) == [None, "a", "b", "b"]


def test_a_text_of_too_many_values_has_no_codes(
    engine: EmbeddedEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_codes, "MOST_VALUES", 5)
    table = scanned(engine, folder)
    assert not is_packed(engine, table, ClassQuery(keys=("zip",)))
    assert is_packed(engine, table, ClassQuery(keys=("ill",)))
    expected = classes(engine.classes(scanned(engine, folder, coded=False), QUERIES[0]))
    assert classes(engine.classes(table, QUERIES[0])) == expected


def test_columns_have_codes_each_for_itself(
    engine: EmbeddedEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has too many values, or is not text, leaves the others theirs, and holds no memory."""
    alone = scanned(engine, folder)
    before = engine.session.room()
    assert list(some_of(engine, alone, ["ill"])) == ["ill"]
    held = before - engine.session.room()
    monkeypatch.setattr(file_codes, "MOST_VALUES", 5)
    table = scanned(engine, folder)
    before = engine.session.room()
    found = some_of(engine, table, ["zip", "ill", "income"])
    assert list(found) == ["ill"]
    assert before - engine.session.room() == held > 0
    expected = some_of(engine, alone, ["ill"])["ill"].histogram
    assert found["ill"].histogram.values.equals(expected.values)
    assert found["ill"].histogram.counts.tolist() == expected.counts.tolist()


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_once_full_stays_so(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Whichever piece says so, and whichever comes next: what it counted is not all there is."""
    monkeypatch.setattr(file_codes, "MOST_VALUES", 2)
    numbered = file_codes._Numbered(pa.string())
    pieces = [[pa.array(["a"])], [pa.array(["a", "b", "c", "d"])]]
    for at in (first, 1 - first, first):
        numbered.of(pieces[at], counting=True)
    assert numbered.full
    assert numbered.of(pieces[0], counting=True) is None


def test_texts_are_estimated_by_their_dictionaries_and_read_once(
    engine: EmbeddedEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = scanned(engine, folder)
    asked = ("zip", "age", "income")
    found = engine.estimated_distinct(table, asked)
    assert list(found) == list(asked)
    assert found["zip"] == len(pc.unique(ROWS.column("zip")))
    texts = [each.name for each in table.schema if pa.types.is_string(each.type)]
    monkeypatch.setattr(FileCodes, "_read", lambda *_: pytest.fail("read again"))
    assert list(some_of(engine, table, texts)) == [name for name in texts if name in table.histograms]
    assert engine.facts(table, FactsRequest(nulls=asked)).nulls == {
        name: pc.is_null(ROWS.column(name), nan_is_null=True).to_pylist().count(True) for name in asked
    }


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_codes_that_memory_has_no_room_for_are_read_again(
    engine: EmbeddedEngine, folder: Path, query: ClassQuery
) -> None:
    table = scanned(engine, folder)
    held = engine.session.hold(engine.session.room())
    expected = classes(engine.classes(scanned(engine, folder, coded=False), query))
    assert classes(engine.classes(table, query)) == expected
    assert held is not None
    assert engine.session.room() <= 0


def test_labels_are_counted_not_the_values_in_the_files(engine: EmbeddedEngine, folder: Path) -> None:
    table = scanned(engine, folder)
    query = ClassQuery(keys=("zip",), columns=("ill",))
    list(engine.classes(table, query))
    labels = pa.array(["none" if text is None else f"{len(text)} letters" for text in [*TEXTS, None]])
    recoded = engine.recode(table, {"zip": (pa.array([*TEXTS, None], pa.string()), labels)})
    plain = engine.recode(
        scanned(engine, folder, coded=False), {"zip": (pa.array([*TEXTS, None], pa.string()), labels)}
    )
    for asked in (query, ClassQuery(keys=("zip",)), ClassQuery(keys=("zip", "age"), mark="*")):
        found = classes(engine.classes(recoded, asked))
        assert found == classes(engine.classes(plain, asked))
    assert len(classes(engine.classes(recoded, query))) == len(set(labels.to_pylist()))


def test_held_codes_count_as_memory_until_their_table_goes(engine: EmbeddedEngine, folder: Path) -> None:
    before = engine.session.room()
    table = scanned(engine, folder)
    list(engine.classes(table, QUERIES[1]))
    assert before - engine.session.room() == N * len(KEYS)  # few values: a byte a cell
    del table
    assert engine.session.room() == before


def test_bytes_that_are_no_text_are_refused_without_showing_them(engine: EmbeddedEngine, tmp_path: Path) -> None:
    cells = pa.array([b"\xff\xfesecret", b"ok"] * 20)
    (tmp_path / "rows").mkdir()
    schema = pa.schema({"zip": pa.string()})
    bad = pa.Array.from_buffers(pa.string(), len(cells), cells.buffers())
    pq.write_table(pa.Table.from_arrays([bad], schema=schema), tmp_path / "rows" / "0.parquet")
    table = scanned(engine, tmp_path / "rows")
    with pytest.raises((DataError, EngineError)) as refused:
        list(engine.classes(table, ClassQuery(keys=("zip",))))
    assert "secret" not in str(refused.value)


def test_a_source_that_changes_meanwhile_is_an_error(engine: EmbeddedEngine, folder: Path) -> None:
    table = scanned(engine, folder)
    assert engine.count(table) == N
    pq.write_table(ROWS.slice(0, 7), folder / "2.parquet")
    with pytest.raises(EngineError, match="changed while it was read"):
        list(engine.classes(table, QUERIES[0]))


def test_a_count_of_missing_values_hides_no_change_of_the_source(engine: EmbeddedEngine, folder: Path) -> None:
    table = scanned(engine, folder)
    assert engine.count(table) == N
    pq.write_table(ROWS.slice(0, 7), folder / "2.parquet")
    engine.facts(table, FactsRequest(nulls=("zip",)))
    engine.estimated_distinct(table, ("income",))
    with pytest.raises(EngineError, match="changed while it was read"):
        list(engine.classes(table, QUERIES[0]))


def test_values_that_come_between_two_readings_are_an_error(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"zip": ["a", "b"] * 300, "ill": ["x", "y", "z"] * 200})
    place = written(tmp_path / "rows", rows, compression="none")
    table = scanned(engine, place)
    held = engine.session.hold(engine.session.room())  # no room: files are read twice
    names = record_ids._few_valued(engine.session, table)
    columns = record_ids._of_files(engine.session, table, names)
    assert held is not None
    assert columns is not None
    assert all(column.codes is None for column in columns.values())
    for path in place.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\x01\0\0\0b", b"\x01\0\0\0c"))
    assert "c" in pq.read_table(place).column("zip").to_pylist()
    monkeypatch.setattr(record_ids, "_few_valued", lambda *_: names)  # which would ask the database
    with pytest.raises(EngineError, match="other values than before"):
        engine.with_record_ids(table, None, SEED)


def test_texts_that_come_between_two_readings_are_an_error(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a column without codes, whose texts are looked up."""
    rows = pa.table({"zip": ["a", "b", None] * 200, "ill": ["x"] * 600})
    place, counted = written(tmp_path / "rows", rows, compression="none"), record_ids._dictionaries
    monkeypatch.setattr(file_codes, "MOST_VALUES", 1)

    def changed(*given: Any) -> dict[str, pa.Array]:
        found = counted(*given)
        for path in place.iterdir():
            path.write_bytes(path.read_bytes().replace(b"\x01\0\0\0b", b"\x01\0\0\0c"))
        return found

    engine.with_record_ids(scanned(engine, place), None, SEED)
    monkeypatch.setattr(record_ids, "_dictionaries", changed)
    with pytest.raises(EngineError, match="other values than before") as refused:
        engine.with_record_ids(scanned(engine, place), None, SEED)
    assert "c" in pq.read_table(place).column("zip").to_pylist()
    assert "'c'" not in str(refused.value)


@given(
    rows=st.lists(st.tuples(st.sampled_from([*TEXTS, None]), st.one_of(st.none(), st.integers(-4, 4))), min_size=1),
    group=st.integers(1, 9),
    piece=st.integers(1, 30),
)
@settings(max_examples=at_most(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_row_groups_and_order_change_nothing(
    engine: EmbeddedEngine, tmp_path_factory: pytest.TempPathFactory, rows: list[Any], group: int, piece: int
) -> None:
    table = pa.table(
        {"zip": pa.array([r[0] for r in rows], pa.string()), "n": pa.array([r[1] for r in rows], pa.int64())}
    )
    place = tmp_path_factory.mktemp("rows")
    pq.write_table(table.take(pa.array(np.random.permutation(len(rows)))), place / "0.parquet", row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_codes, "PIECE_ROWS", piece)
        query = ClassQuery(keys=("zip", "n"), columns=("zip",), mark="*")
        found = classes(engine.classes(scanned(engine, place), query))
    counted: dict[Any, int] = {}
    for row in rows:
        counted[row] = counted.get(row, 0) + 1
    marked = {row for row in counted if row[0] == "*" and row[1] is None}
    assert found == sorted((size, row in marked, ((size,),)) for row, size in counted.items())


class FileEngine(EmbeddedEngine):
    """Every table that is scanned is written, and read as a file."""

    def scan(self, source: Source) -> EmbeddedTable:
        table = super().scan(source)
        if not self.count(table) or table.files is not None:
            return table
        place = self.session.folder / self.session.name("source")
        place.mkdir()
        pq.write_table(self.session.table(table.sql, table.frames).cast(table.schema), place / "0.parquet")
        return super().scan(Source(data=str(place), format="parquet"))


FILES: dict[str, Conformance] = {}


@pytest.fixture
def from_files(monkeypatch: pytest.MonkeyPatch) -> Conformance:
    monkeypatch.setattr(session, "SMALL_ROWS", 0)
    if not FILES:
        monkeypatch.setattr(session, "CODED_ROWS", 0)
        FILES["checks"] = Conformance(FileEngine.open({"threads": 2}))
    return FILES["checks"]


@each_table
def test_files_get_the_oracle_verdict(from_files: Conformance, table: HostileTable) -> None:
    found = from_files.report(Case(model, table) for model in examples_of(CATALOGUE, population=True)[1::3])
    assert not found.failures, str(found)

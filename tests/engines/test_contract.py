"""What every engine must do alike: each primitive against plain Python over the rows, on hostile tables.

Functions handed to an engine are nested, so that they pickle by value: workers know nothing of the tests.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram, PairBlock, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source
from privpipe.engines.base.fingerprint import fingerprint
from privpipe.errors import DataError

Row = dict[str, Any]
NAN = float("nan")
STREAM = Stream(bytes(range(16)))


@dataclass(frozen=True)
class Hostile:
    """A table with the keys and the sensitive columns it is judged by."""

    rows: pa.Table
    keys: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def plain(self) -> list[Row]:
        """Rows with NaN as None and -0.0 as 0.0: what counting sees."""
        return [{name: counted(value) for name, value in row.items()} for row in self.rows.to_pylist()]


def counted(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


def repeated(seed: int, n: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "zip": pa.array(rng.choice(["4711", "4712", "4713", "*"], n)),
            "age": pa.array(rng.integers(20, 24, n)),
            "ill": pa.array(rng.choice(["flu", "hiv", "ulcer"], n), mask=rng.random(n) < 0.1),
            "pay": pa.array(rng.choice([0.0, -0.0, 1.5, NAN], n)),
            "who": pa.array([f"p{i}" for i in rng.integers(0, n // 2 + 1, n)]),
            "wt": pa.array(rng.choice([0.1, 0.2, 0.7], n)),
        }
    )


TABLES = {
    "ordinary": Hostile(repeated(1, 200), ("zip", "age"), ("ill", "pay")),
    "one record": Hostile(repeated(2, 1), ("zip", "age"), ("ill", "pay")),
    "empty": Hostile(repeated(3, 1).slice(0, 0), ("zip", "age"), ("ill", "pay")),
    "no keys": Hostile(repeated(4, 50), (), ("ill",)),
    "no sensitive column": Hostile(repeated(5, 50), ("zip", "pay"), ()),
    "a key that is sensitive too": Hostile(repeated(6, 50), ("zip", "ill"), ("ill", "age")),
    "null keys": Hostile(
        pa.table(
            {
                "a": pa.array([None, "x", None, "x", None, ""], pa.string()),
                "b": pa.array(["x", None, None, None, None, ""], pa.string()),
                "ill": pa.array([None, "u", "u", None, "v", "u"]),
            }
        ),
        ("a", "b"),
        ("ill",),
    ),
    "all keys null": Hostile(
        pa.table({"a": pa.nulls(4, pa.int64()), "ill": pa.array(["u", "u", "v", None])}), ("a",), ("ill",)
    ),
    "floats": Hostile(
        pa.table(
            {
                "x": pa.array([0.0, -0.0, NAN, None, 1e308, 5e-324, 0.1, 0.1]),
                "ill": pa.array([NAN, None, 0.0, -0.0, 1.0, 2.0, 3.0, 3.0]),
            }
        ),
        ("x",),
        ("ill",),
    ),
    "categories": Hostile(
        pa.table(
            {
                "a": pa.DictionaryArray.from_arrays([0, 2, None, 0], ["x", "unused", "y"]),
                "ill": pa.DictionaryArray.from_arrays([1, 1, 1, None], ["never", "u"]),
            }
        ),
        ("a",),
        ("ill",),
    ),
    "unicode": Hostile(
        pa.table(
            {
                'naïve "col"; \'': pa.array(["é", "e\u0301", "NY", "ny", "NY ", "\U0001f600", "é", "\n,"]),
                "größe": pa.array(["ß", "ss", "SS", None, "ẞ", "ß", "ß", "\t"]),
            }
        ),
        ('naïve "col"; \'',),
        ("größe",),
    ),
    "wide integers": Hostile(
        pa.table(
            {
                "n": pa.array([2**53, 2**53 + 1, None, -(2**63), 2**63 - 1, 2**53 + 1], pa.int64()),
                "ill": pa.array([2**62, 2**62 + 1, 2**62, None, 1, 2**62 + 1], pa.int64()),
            }
        ),
        ("n",),
        ("ill",),
    ),
    "other types": Hostile(
        pa.table(
            {
                "d": pa.array([19000, 19000, None, 0], pa.int32()).cast(pa.date32()),
                "t": pa.array([1, 1, 1, None], pa.int64()).cast(pa.timestamp("us")),
                "m": pa.array([Decimal("1.50"), Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(9, 2)),
                "b": pa.array([True, True, False, None]),
            }
        ),
        ("d", "t", "b"),
        ("m", "b"),
    ),
    "one huge class": Hostile(
        pa.table({"a": pa.array(["same"] * 5000 + ["other"]), "ill": pa.array(["u", "v"] * 2500 + ["u"])}),
        ("a",),
        ("ill",),
    ),
    "all unique": Hostile(
        pa.table({"a": pa.array(range(3000)), "ill": pa.array([f"v{i}" for i in range(3000)])}), ("a",), ("ill",)
    ),
    "suppressed": Hostile(
        pa.table({"a": ["*", "*", "x", "*"], "b": ["*", "*", "*", None], "ill": ["u", "v", "u", "u"]}),
        ("a", "b"),
        ("ill",),
    ),
}
EVERY = pytest.mark.parametrize("hostile", TABLES.values(), ids=TABLES.keys())


def written(rows: pa.Table, folder: Path, parts: int, *, shuffled: bool = False) -> str:
    """The rows as Parquet part files, an empty one among them."""
    if shuffled and len(rows):
        rows = rows.take(np.random.default_rng(7).permutation(len(rows)))
    folder.mkdir(parents=True, exist_ok=True)
    step = max(1, -(-len(rows) // parts))
    for part in range(parts):
        pq.write_table(rows.slice(part * step, step), folder / f"part-{part:03d}.parquet")
    pq.write_table(rows.slice(0, 0), folder / "part-999.parquet")
    (folder / "_SUCCESS").write_text("")
    return str(folder)


def scanned(engine: Engine, rows: pa.Table, folder: Path, parts: int = 1, *, shuffled: bool = False) -> Any:
    return engine.scan(Source(data=written(rows, folder / f"rows{parts}{shuffled}", parts, shuffled=shuffled)))


def described(blocks: Any, histograms: dict[str, Histogram], columns: tuple[str, ...]) -> Counter[Any]:
    """Classes as a multiset, codes told as values where the query gave a dictionary."""
    found: Counter[Any] = Counter()
    values = {name: [counted(v) for v in histograms[name].values.to_pylist()] for name in histograms}
    for block in blocks:
        marked = block.marked if block.marked is not None else np.zeros(len(block), bool)
        for c, size in enumerate(block.sizes.tolist()):
            cells = []
            for name in columns:
                own = block.cells[name]
                codes = own.codes[own.offsets[c] : own.offsets[c + 1]].tolist()
                counts = own.counts[own.offsets[c] : own.offsets[c + 1]].tolist()
                assert codes == sorted(set(codes))
                told = [values[name][code] for code in codes] if name in values else [None] * len(codes)
                cells.append(tuple(sorted(zip(map(repr, told), counts, strict=True))))
            found[(size, bool(marked[c]), tuple(cells))] += 1
    return found


def expected(hostile: Hostile, mark: str | None, coded: bool) -> Counter[Any]:
    classes: dict[tuple[Any, ...], list[Row]] = {}
    for row in hostile.plain:
        classes.setdefault(tuple(row[name] for name in hostile.keys), []).append(row)
    found: Counter[Any] = Counter()
    for key, rows in classes.items():
        cells = []
        for name in hostile.columns:
            counts = Counter(row[name] for row in rows)
            cells.append(tuple(sorted((repr(v if coded else None), n) for v, n in counts.items())))
        found[(len(rows), bool(key) and all(v == mark for v in key), tuple(cells))] += 1
    return found


@EVERY
def test_facts_are_those_of_the_rows(engine: Engine, hostile: Hostile, tmp_path: Path) -> None:
    table = scanned(engine, hostile.rows, tmp_path, 3)
    names = hostile.rows.column_names
    facts = engine.facts(table, FactsRequest(histograms=tuple(names), nulls=tuple(names)))
    assert engine.count(table) == facts.records == len(hostile.plain)
    for name in names:
        counts = Counter(row[name] for row in hostile.plain)
        assert facts.nulls[name] == counts[None], name
        ordered = sorted(value for value in counts if value is not None)
        wanted = [*ordered, *([None] if None in counts else [])]
        assert facts.histograms[name].values.to_pylist() == wanted
        assert facts.histograms[name].counts.tolist() == [counts[value] for value in wanted]


@EVERY
@pytest.mark.parametrize("coded", [True, False], ids=["dictionaries", "any codes"])
def test_the_class_table_is_that_of_the_rows(engine: Engine, hostile: Hostile, coded: bool, tmp_path: Path) -> None:
    table = scanned(engine, hostile.rows, tmp_path, 5, shuffled=True)
    histograms = dict(engine.facts(table, FactsRequest(histograms=hostile.columns)).histograms) if coded else {}
    query = ClassQuery(keys=hostile.keys, columns=hostile.columns, dictionaries=histograms, mark="*")
    found = described(engine.classes(table, query), histograms, hostile.columns)
    assert found == expected(hostile, "*", coded)


def counting() -> Any:
    """A reduction that sees every number of a class table, and nothing of its order."""

    class Counting:
        def measure(self, block: ClassBlock, facts: Facts) -> tuple[int, int, int]:
            squares = sum(int((cells.counts**2 * (cells.codes + 1)).sum()) for cells in block.cells.values())
            return len(block), block.records, squares

        def merge(self, left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
            return left[0] + right[0], left[1] + right[1], left[2] + right[2]

    return Counting()


@EVERY
def test_measuring_in_place_and_on_the_driver_agree(engine: Engine, hostile: Hostile, tmp_path: Path) -> None:
    table = scanned(engine, hostile.rows, tmp_path, 4)
    facts = engine.facts(table, FactsRequest(histograms=hostile.columns))
    query = ClassQuery(keys=hostile.keys, columns=hostile.columns, dictionaries=facts.histograms)
    places: tuple[Any, ...] = ("driver", "engine", "auto")
    found = [engine.reduce_classes(table, query, counting(), facts, where=place) for place in places]
    assert found[0] == found[1] == found[2]
    assert (found[0] is None) == (not hostile.plain)
    if found[0] is not None:
        assert found[0][0] == len({tuple(row[name] for name in hostile.keys) for row in hostile.plain})
        assert found[0][1] == len(hostile.plain)


@EVERY
def test_distinct_combinations_come_sorted(engine: Engine, hostile: Hostile, tmp_path: Path) -> None:
    table = scanned(engine, hostile.rows, tmp_path, 3)
    names = list(dict.fromkeys([*hostile.keys, *hostile.columns]))
    found = engine.distinct(table, names)
    counts = Counter(tuple(row[name] for name in names) for row in hostile.plain)
    order = sorted(counts, key=lambda key: [(value is None, 0 if value is None else value) for value in key])
    rows = list(zip(*(found.column(name).to_pylist() for name in names), strict=True))
    assert rows == order
    assert found.column("__count").to_pylist() == [counts[key] for key in order]
    assert not any(isinstance(v, float) and math.copysign(1, v) < 0 and v == 0 for row in rows for v in row)


@EVERY
def test_classes_are_kept_whole_or_not_at_all(engine: Engine, hostile: Hostile, tmp_path: Path) -> None:
    table = scanned(engine, hostile.rows, tmp_path, 3)
    kept = engine.keep_classes(table, ClassQuery(keys=hostile.keys), lambda block: block.sizes >= 2)
    sizes = Counter(tuple(row[name] for name in hostile.keys) for row in hostile.plain)
    wanted = [row for row in hostile.plain if sizes[tuple(row[name] for name in hostile.keys)] >= 2]
    assert multiset(engine.collect(kept)) == Counter(tuple(row.items()) for row in wanted)
    assert kept.schema.equals(table.schema)


def multiset(table: pa.Table) -> Counter[Any]:
    return Counter(tuple((name, counted(value)) for name, value in row.items()) for row in table.to_pylist())


@EVERY
def test_ids_are_unique_and_know_no_partition(engine: Engine, hostile: Hostile, tmp_path: Path) -> None:
    seed = Seed.of("conformance")
    found = []
    for parts, shuffled in ((1, False), (7, True)):
        table = engine.with_record_ids(scanned(engine, hostile.rows, tmp_path, parts, shuffled=shuffled), None, seed)
        assert table.has_record_ids
        found.append((ids_of(engine, table), fingerprint(engine, table, seed)))
    assert found[0] == found[1]
    assert len(set(found[0][0])) == len(hostile.plain)


def ids_of(engine: Engine, table: Any) -> list[tuple[int, int]]:
    class Ids:
        def measure(self, block: RowBlock, facts: Facts) -> list[tuple[int, int]]:
            return [tuple(pair) for pair in block.record_ids.tolist()]

        def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
            return left + right

    return sorted(engine.reduce_rows(table, [], Ids(), Facts()) or [])


def test_moments_are_exact(engine: Engine, tmp_path: Path) -> None:
    values = [1e16, 1.0, -1e16, None, 3.5, 2.0**-40, NAN]
    rows = pa.table({"x": pa.array(values), "n": pa.array([2**62, 1, -(2**62), 5, None, 7, 9])})
    present = {"x": [Fraction(v) for v in values if v is not None and v == v]}
    present["n"] = [Fraction(v) for v in rows.column("n").to_pylist() if v is not None]
    for parts in (1, 7):
        request = FactsRequest(moments=("x", "n"), products=True)
        facts = engine.facts(scanned(engine, rows, tmp_path, parts), request)
        for name, exact in present.items():
            mean = sum(exact) / len(exact)
            found = facts.moments[name]
            assert found.records == len(exact)
            assert found.nulls == 7 - len(exact)
            assert found.mean == float(mean)
            assert found.sd == pytest.approx(
                math.sqrt(sum((v - mean) ** 2 for v in exact) / (len(exact) - 1)), rel=1e-15
            )
        assert facts.covariance is not None
        assert facts.covariance.shape == (2, 2)
    none = engine.facts(scanned(engine, rows.slice(0, 0), tmp_path / "none"), FactsRequest(moments=("x",)))
    assert math.isnan(none.moments["x"].mean)


def test_persons_and_weights(engine: Engine, tmp_path: Path) -> None:
    hostile = TABLES["ordinary"]
    table = scanned(engine, hostile.rows, tmp_path, 4)
    persons: dict[Any, set[str]] = {}
    weights: dict[Any, list[float]] = {}
    cells: dict[Any, dict[Any, set[str]]] = {}
    for row in hostile.plain:
        key = (row["zip"], row["age"])
        persons.setdefault(key, set()).add(row["who"])
        weights.setdefault(key, []).append(row["wt"])
        cells.setdefault(key, {}).setdefault(row["ill"], set()).add(row["who"])
    found = described(
        engine.classes(table, ClassQuery(keys=hostile.keys, columns=("ill",), person="who")), {}, ("ill",)
    )
    wanted = Counter(
        (len(who), False, (tuple(sorted(("None", len(v)) for v in cells[key].values())),))
        for key, who in persons.items()
    )
    assert found == wanted
    blocks = list(engine.classes(table, ClassQuery(keys=hostile.keys, weight="wt")))
    sums = sorted(np.concatenate([block.weights for block in blocks]).tolist())
    assert sums == pytest.approx(sorted(math.fsum(w) for w in weights.values()), rel=1e-14)
    again = engine.classes(
        scanned(engine, hostile.rows, tmp_path, 9, shuffled=True), ClassQuery(keys=hostile.keys, weight="wt")
    )
    assert sums == sorted(np.concatenate([block.weights for block in again]).tolist())


def test_recoding_exchanges_values_for_labels(engine: Engine, tmp_path: Path) -> None:
    hostile = TABLES["null keys"]
    table = scanned(engine, hostile.rows, tmp_path, 2)
    books = {
        "a": (pa.array(["x", "", None, "spare"]), pa.array(["X", "empty", "*", "?"])),
        "b": (pa.array(["x", "", None]), pa.array(["X", "empty", None])),
    }
    labels = {name: dict(zip(*(part.to_pylist() for part in book), strict=True)) for name, book in books.items()}
    wanted = [{**row, **{name: labels[name][row[name]] for name in books}} for row in hostile.plain]
    assert multiset(engine.collect(engine.recode(table, books))) == Counter(tuple(row.items()) for row in wanted)
    with pytest.raises(DataError, match=r"'b'.* 1 "):
        engine.recode(table, {"b": (pa.array(["", None]), pa.array(["empty", "*"]))})


def test_rows_are_mapped_and_may_go(engine: Engine, tmp_path: Path) -> None:
    rows = repeated(11, 100)
    table = engine.with_record_ids(scanned(engine, rows, tmp_path, 4), None, Seed.of(1))

    def older(block: RowBlock) -> RowBlock:
        ages = block.column("age").to_numpy()
        return (
            block.drop(["pay"]).replace("age", np.where(ages == 21, np.nan, ages * 1.5)).take(np.flatnonzero(ages > 20))
        )

    schema = pa.schema(
        [f if f.name != "age" else pa.field("age", pa.float64()) for f in table.schema if f.name != "pay"]
    )
    found = engine.map_rows(table, older, schema)
    wanted = Counter(
        tuple((k, (None if v == 21 else v * 1.5) if k == "age" else v) for k, v in row.items() if k != "pay")
        for row in rows.to_pylist()
        if row["age"] > 20
    )
    assert found.schema.equals(schema)
    assert multiset(engine.collect(found)) == wanted
    assert set(ids_of(engine, found)) <= set(ids_of(engine, table))


def test_a_group_is_mapped_whole(engine: Engine, tmp_path: Path) -> None:
    rows = repeated(12, 300)
    table = engine.with_record_ids(scanned(engine, rows, tmp_path, 6, shuffled=True), None, Seed.of(1))

    def key(block: RowBlock) -> Any:
        return block.column("age").to_numpy() * 10 - 200

    def size(block: RowBlock, at: int) -> RowBlock:
        return block.replace("age", np.full(len(block), at * 1000 + len(block)))

    sizes = Counter(row["age"] for row in rows.to_pylist())
    wanted = Counter((row["age"] * 10 - 200) * 1000 + sizes[row["age"]] for row in rows.to_pylist())
    found = engine.map_groups(table, key, size, table.schema)
    assert Counter(engine.collect(found).column("age").to_pylist()) == wanted
    assert ids_of(engine, found) == ids_of(engine, table)


@pytest.mark.parametrize("column", ["pay", "ill", "age"])
def test_ranks_are_global_and_ties_keyed(engine: Engine, column: str, tmp_path: Path) -> None:
    rows = repeated(13, 300)
    table = engine.with_record_ids(scanned(engine, rows, tmp_path, 6), None, Seed.of(1))
    schema = pa.schema([*table.schema, pa.field("rank", pa.int64())])

    def ranked(block: RowBlock, ranks: Any) -> RowBlock:
        batch = block.batch
        named = pa.record_batch([*batch.columns, pa.array(ranks)], names=[*batch.schema.names, "rank"])
        return RowBlock(named, block.record_ids)

    found = engine.map_ranked(table, column, STREAM, ranked, schema)
    seen = [(counted(v), r, tuple(i)) for v, r, i in zip(*column_rank_ids(engine, found, column), strict=True)]
    order = STREAM.order(np.array([i for _, _, i in seen], dtype=np.int64)).tolist()
    rest = [(v, o, i, r) for (v, r, i), o in zip(seen, order, strict=True) if v is not None]
    assert [r for *_, r in sorted(rest)] == list(range(len(rest)))
    assert {r for v, r, _ in seen if v is None} <= {-1}
    assert len(seen) == 300


def column_rank_ids(engine: Engine, table: Any, column: str) -> list[list[Any]]:
    class Rows:
        def measure(self, block: RowBlock, facts: Facts) -> list[list[Any]]:
            return [block.column(column).to_pylist(), block.column("rank").to_pylist(), block.record_ids.tolist()]

        def merge(self, left: list[list[Any]], right: list[list[Any]]) -> list[list[Any]]:
            return [a + b for a, b in zip(left, right, strict=True)]

    return engine.reduce_rows(table, [column, "rank"], Rows(), Facts()) or [[], [], []]


def test_pairs_meet_by_id(engine: Engine, tmp_path: Path) -> None:
    rows = pa.table({"key": pa.array(range(500)), "x": pa.array([float(i % 7) for i in range(500)])})
    seed = Seed.of(3)
    original = engine.with_record_ids(scanned(engine, rows, tmp_path, 3), "key", seed)

    def masked(block: RowBlock) -> RowBlock:
        kept = np.flatnonzero(block.column("key").to_numpy() % 5 != 0)
        return block.replace("x", block["x"] + block["key"]).take(kept)

    released = engine.select(engine.map_rows(original, masked, original.schema), ["x"])

    class Pairs:
        def measure(self, block: PairBlock, facts: Facts) -> list[float]:
            assert (block.original.record_ids == block.released.record_ids).all()
            return (block.released["x"] - block.original["x"]).tolist()

        def merge(self, left: list[float], right: list[float]) -> list[float]:
            return left + right

    found = engine.reduce_pairs(original, released, ["x"], Pairs(), Facts())
    assert sorted(found or []) == [float(i) for i in range(500) if i % 5]


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_writing_hides_the_order_and_keeps_the_rows(engine: Engine, format: Any, tmp_path: Path) -> None:
    hostile = TABLES["other types"]
    types = {"d": "date", "t": "timestamp", "m": "decimal", "b": "boolean"}
    written_rows = []
    for parts, shuffled in ((1, False), (4, True)):
        table = engine.with_record_ids(
            scanned(engine, hostile.rows, tmp_path, parts, shuffled=shuffled), None, Seed.of(1)
        )
        folder = tmp_path / f"out{parts}"
        folder.mkdir()
        report = engine.write(table, str(folder), format, STREAM)
        assert report.records == len(hostile.plain)
        assert sorted(p.name for p in folder.iterdir() if p.name[0] not in "._") == sorted(report.files)
        again = engine.scan(Source(data=str(folder), format=format, types=types if format != "parquet" else {}))
        assert again.schema.names == table.schema.names
        assert multiset(engine.collect(again)) == multiset(engine.collect(table))
        written_rows.append(
            b"".join((folder / name).read_bytes() for name in report.files) if format != "parquet" else b""
        )
    assert written_rows[0].splitlines()[1:] == written_rows[1].splitlines()[1:] or len(report.files) > 1


def test_what_is_wrong_with_the_data_is_a_data_error(engine: Engine, tmp_path: Path) -> None:
    table = scanned(engine, repeated(1, 50), tmp_path)
    with pytest.raises(DataError, match="'nowhere'"):
        list(engine.classes(table, ClassQuery(keys=("nowhere",))))
    short = engine.facts(scanned(engine, repeated(1, 3), tmp_path / "short"), FactsRequest(histograms=("who",)))
    query = ClassQuery(keys=("zip",), columns=("who",), dictionaries=short.histograms)
    with pytest.raises(DataError, match="does not cover") as raised:
        engine.reduce_classes(table, query, counting(), short)
    assert "p1" not in str(raised.value)
    for column, message in (("ill", "'ill'"), ("zip", "'zip'")):
        with pytest.raises(DataError, match=message):
            engine.with_record_ids(table, column, Seed.of(1))


@pytest.mark.parametrize("names", [["age", "Age"], ["__privpipe_id_hi", "b"]])
def test_names_that_collide_are_refused(engine: Engine, names: list[str], tmp_path: Path) -> None:
    rows = pa.table([pa.array([1]), pa.array([2])], names=names)
    with pytest.raises(DataError, match=names[0]):
        scanned(engine, rows, tmp_path)

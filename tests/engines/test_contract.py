"""What every engine must count alike: each primitive against plain Python over the rows, on hostile tables.

Functions handed to an engine are nested, so that they pickle by value: workers know nothing of the tests.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError

from .conftest import TABLES, counted, multiset


def described(blocks: Any, histograms: dict[str, Histogram], columns: tuple[str, ...]) -> Counter[Any]:
    """Classes as a multiset, with codes as values where the query gave a dictionary."""
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


def expected(hostile: Any, mark: str | None, coded: bool) -> Counter[Any]:
    classes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in hostile.plain:
        classes.setdefault(tuple(row[name] for name in hostile.keys), []).append(row)
    found: Counter[Any] = Counter()
    for key, rows in classes.items():
        cells = []
        for name in hostile.columns:
            counts = Counter(row[name] for row in rows)
            cells.append(tuple(sorted((repr(v if coded else None), n) for v, n in counts.items())))
        blank = tuple(mark if hostile.text(name) else None for name in hostile.keys)
        found[(len(rows), mark is not None and bool(key) and key == blank, tuple(cells))] += 1
    return found


def test_facts_are_those_of_the_rows(engine: Engine, hostile: Any, scanned: Any) -> None:
    table = scanned(hostile.rows, 3)
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


@pytest.mark.parametrize("coded", [True, False], ids=["dictionaries", "any codes"])
def test_the_class_table_is_that_of_the_rows(engine: Engine, hostile: Any, coded: bool, scanned: Any) -> None:
    table = scanned(hostile.rows, 5, shuffled=True)
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


def test_measuring_in_place_and_on_the_driver_agree(engine: Engine, hostile: Any, scanned: Any) -> None:
    table = scanned(hostile.rows, 4)
    facts = engine.facts(table, FactsRequest(histograms=hostile.columns))
    query = ClassQuery(keys=hostile.keys, columns=hostile.columns, dictionaries=facts.histograms)
    places: tuple[Any, ...] = ("driver", "engine", "auto")
    found = [engine.reduce_classes(table, query, counting(), facts, where=place) for place in places]
    assert found[0] == found[1] == found[2]
    assert (found[0] is None) == (not hostile.plain)
    if found[0] is not None:
        assert found[0][0] == len({tuple(row[name] for name in hostile.keys) for row in hostile.plain})
        assert found[0][1] == len(hostile.plain)


def test_distinct_combinations_come_sorted(engine: Engine, hostile: Any, scanned: Any) -> None:
    table = scanned(hostile.rows, 3)
    names = list(dict.fromkeys([*hostile.keys, *hostile.columns]))
    found = engine.distinct(table, names)
    counts = Counter(tuple(row[name] for name in names) for row in hostile.plain)
    order = sorted(counts, key=lambda key: [(value is None, 0 if value is None else value) for value in key])
    rows = list(zip(*(found.column(name).to_pylist() for name in names), strict=True))
    assert rows == order
    assert found.column("__count").to_pylist() == [counts[key] for key in order]
    assert not any(isinstance(v, float) and math.copysign(1, v) < 0 and v == 0 for row in rows for v in row)


def test_classes_are_kept_whole_or_not_at_all(engine: Engine, hostile: Any, scanned: Any) -> None:
    table = scanned(hostile.rows, 3)
    kept = engine.keep_classes(table, ClassQuery(keys=hostile.keys), lambda block: block.sizes >= 2)
    sizes = Counter(tuple(row[name] for name in hostile.keys) for row in hostile.plain)
    wanted = [row for row in hostile.plain if sizes[tuple(row[name] for name in hostile.keys)] >= 2]
    assert multiset(engine.collect(kept)) == Counter(tuple(row.items()) for row in wanted)
    assert kept.schema.equals(table.schema)


def test_moments_are_exact(engine: Engine, scanned: Any) -> None:
    values = [1e16, 1.0, -1e16, None, 3.5, 2.0**-40, float("nan")]
    rows = pa.table({"x": pa.array(values), "n": pa.array([2**62, 1, -(2**62), 5, None, 7, 9])})
    present = {"x": [Fraction(v) for v in values if v is not None and v == v]}
    present["n"] = [Fraction(v) for v in rows.column("n").to_pylist() if v is not None]
    for parts in (1, 7):
        request = FactsRequest(moments=("x", "n"), products=True)
        facts = engine.facts(scanned(rows, parts), request)
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
    none = engine.facts(scanned(rows.slice(0, 0)), FactsRequest(moments=("x",)))
    assert math.isnan(none.moments["x"].mean)


def test_persons_and_weights(engine: Engine, scanned: Any) -> None:
    hostile = TABLES["ordinary"]
    table = scanned(hostile.rows, 4)
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
    again = engine.classes(scanned(hostile.rows, 9, shuffled=True), ClassQuery(keys=hostile.keys, weight="wt"))
    assert sums == sorted(np.concatenate([block.weights for block in again]).tolist())


def test_recoding_exchanges_values_for_labels(engine: Engine, scanned: Any) -> None:
    hostile = TABLES["null keys"]
    table = scanned(hostile.rows, 2)
    books = {
        "a": (pa.array(["x", "", None, "spare"]), pa.array(["X", "empty", "*", "?"])),
        "b": (pa.array(["x", "", None]), pa.array(["X", "empty", None])),
    }
    labels = {name: dict(zip(*(part.to_pylist() for part in book), strict=True)) for name, book in books.items()}
    wanted = [{**row, **{name: labels[name][row[name]] for name in books}} for row in hostile.plain]
    assert multiset(engine.collect(engine.recode(table, books))) == Counter(tuple(row.items()) for row in wanted)
    with pytest.raises(DataError, match=r"'b'.* 1 "):
        engine.recode(table, {"b": (pa.array(["", None]), pa.array(["empty", "*"]))})


def test_what_is_wrong_with_the_data_is_a_data_error(engine: Engine, scanned: Any, ordinary: Any) -> None:
    table = scanned(ordinary(1, 50))
    with pytest.raises(DataError, match="'nowhere'"):
        list(engine.classes(table, ClassQuery(keys=("nowhere",))))
    short = engine.facts(scanned(ordinary(1, 3)), FactsRequest(histograms=("who",)))
    query = ClassQuery(keys=("zip",), columns=("who",), dictionaries=short.histograms)
    with pytest.raises(DataError, match="does not cover") as raised:
        engine.reduce_classes(table, query, counting(), short)
    assert "p1" not in str(raised.value)
    for column, message in (("ill", "'ill'"), ("zip", "'zip'")):
        with pytest.raises(DataError, match=message):
            engine.with_record_ids(table, column, Seed.insecure(1))


@pytest.mark.parametrize("names", [["age", "Age"], ["__privpipe_id_hi", "b"]])
def test_names_that_collide_are_refused(engine: Engine, names: list[str], scanned: Any) -> None:
    rows = pa.table([pa.array([1]), pa.array([2])], names=names)
    with pytest.raises(DataError, match=names[0]):
        scanned(rows)


TEXT = """n,t,d,m,b,x
7,"a ""q"", b",2024-02-29,1.50,TRUE,1e3
 -7 , x ,2024-02-29T00:00,-2,f,
,"two
lines",,,,.5
"",NA,,,,-0
"""
TYPES = {"n": "integer", "d": "date", "m": "decimal", "b": "boolean", "x": "number"}
VALUES = [
    {"n": 7, "t": 'a "q", b', "d": dt.date(2024, 2, 29), "m": Decimal("1.50"), "b": True, "x": 1000.0},
    {"n": -7, "t": " x ", "d": dt.date(2024, 2, 29), "m": Decimal("-2.00"), "b": False, "x": None},
    {"n": None, "t": "two\nlines", "d": None, "m": None, "b": None, "x": 0.5},
    {"n": None, "t": None, "d": None, "m": None, "b": None, "x": 0.0},
]


def test_csv_is_read_alike(engine: Engine, tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"part-{at}.csv").write_text(TEXT)
    (tmp_path / "part-3.csv").write_text(TEXT.split("\n")[0] + "\n")
    (tmp_path / "part-4.csv").write_text("")
    source = Source(data=str(tmp_path), format="csv", types=TYPES, null_values=("", "NA"))
    found = engine.collect(engine.scan(source))
    assert found.schema.field("m").type == pa.decimal128(38, 2)
    assert multiset(found) == Counter({tuple(row.items()): 3 for row in VALUES})
    single = engine.scan(Source(data=str(tmp_path / "part-0.csv")))
    assert set(single.schema.types) == {pa.string()}
    assert engine.count(single) == 4


def test_json_is_read_alike(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n": 7, "t": "x"}\n{"t": 1.50, "n": null}\n')
    (tmp_path / "b.json").write_text('[{"n": 9007199254740993, "t": true}]')
    source = Source(data=str(tmp_path), format="json", types={"n": "integer"})
    rows = [{"n": 7, "t": "x"}, {"n": None, "t": "1.5"}, {"n": 2**53 + 1, "t": "true"}]
    assert multiset(engine.collect(engine.scan(source))) == Counter(tuple(row.items()) for row in rows)


SECRET = "Zebulon"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a,b\n1,2\n{SECRET},2,3\n", "number of fields"),
        (f"a,b\n1,2\n{SECRET}\n", "number of fields"),
        (f'a,b\n1,"{SECRET}\n', "inside a quoted field"),
        (f"a;b\n{SECRET};2\n", "is that the delimiter"),
        (f"a,b\n{SECRET},2\n7,1\n{SECRET},2\n", "'a' is declared integer, and 2 cells are not"),
        (f"a,A\n{SECRET},2\n", "differ only in case"),
        ("", "empty"),
        (f"b,c\n{SECRET},2\n", "'a' not in the data"),
    ],
    ids=["too many", "too few", "open quote", "delimiter", "types", "case", "no header", "missing"],
)
def test_a_bad_csv_file_is_told_alike(
    engine: Engine, text: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "privpipe")
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message) as raised:
        table = engine.scan(Source(data=str(tmp_path / "a.csv"), types={"a": "integer"}))
        engine.collect(table)
    assert SECRET not in str(raised.value) + caplog.text


def methods_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and (callable(getattr(kind, name)) or name in PARTS)}


PARTS = {"resources", "frames"}


def test_an_engine_implements_fourteen_methods_and_no_verb(engine: Engine) -> None:
    verbs = {name for name in methods_of(Engine) if getattr(getattr(Engine, name), "__final__", False)}
    of_tables = {"aggregate", "contributions", "ranked"}  # an engine without them refuses tables of cells
    assert methods_of(Engine) - verbs - of_tables == Engine.__abstractmethods__
    assert len(Engine.__abstractmethods__) == 14
    assert [name for name in verbs if getattr(type(engine), name) is not getattr(Engine, name)] == []

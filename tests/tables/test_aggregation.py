"""Aggregation on every engine against its definition: contributors, trees, signs, weights, nulls."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import Hierarchy
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec, aggregated
from privpipe.tables.responses import responses_of
from tests.tables.definition import Cell, cells_by_definition
from tests.tiers import third_on_spark

AGES = Hierarchy.from_rows([[str(age), f"{age // 2 * 2}+", "young" if age < 4 else "old", "*"] for age in range(8)])


def rows_of(seed: int, records: int, persons: int | None = None) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    towns = ["x", "y", "zz", None]
    home = [towns[at] for at in draw.integers(0, 4, 1000)]
    age = draw.integers(0, 8, 1000).tolist()
    rows = []
    for _ in range(records):
        who = int(draw.integers(0, persons or 1000))
        row = {"person": who, "town": home[who], "age": age[who], "sex": "fm"[who % 2]}
        if draw.random() < 0.3:
            row["town"] = towns[int(draw.integers(0, 4))]
        row["cost"] = None if draw.random() < 0.1 else int(draw.integers(-3, 6))
        row["weight"] = who % 3 + 1
        rows.append(row)
    return rows


def in_one_leaf(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first: dict[int, Any] = {}
    return [{**row, "town": first.setdefault(row["person"], row["town"])} for row in rows]


LABELS = {
    "town": lambda value: {"(missing)" if value is None else value},
    "age": lambda value: {str(value), f"{value // 2 * 2}+", "young" if value < 4 else "old"},
    "sex": lambda value: {value},
}


def load(engine: Engine, rows: Sequence[Mapping[str, Any]], **types: pa.DataType) -> Any:
    names = list(rows[0])
    columns = {name: pa.array([row[name] for row in rows], types.get(name)) for name in names}
    return engine.scan(Source(data=pa.table(columns)))


def compare(figures: CellFigures, expected: Sequence[Cell], *, weighted: bool = False) -> None:
    """All that is in `CellFigures`."""
    held = [cell.values for cell in expected]
    assert figures.contributors.tolist() == [len(values) for values in held]
    assert figures.records.tolist() == [sum(cell.records.values()) for cell in expected]
    assert figures.nonzero.tolist() == [sum(v != 0 for v in values.values()) for values in held]
    assert figures.negative.tolist() == [sum(v < 0 for v in values.values()) for values in held]
    assert figures.largest.tolist() == [cell.largest(figures.largest.shape[1]) for cell in expected]
    added = [cell.products if weighted else cell.values for cell in expected]
    assert figures.totals.tolist() == [sum(values.values()) for values in added]
    assert figures.magnitudes.tolist() == [sum(map(abs, values.values())) for values in added]


def compare_codes(figures: CellFigures, expected: Sequence[Cell]) -> None:
    """A contributor has one code wherever it occurs, and another contributor another one."""
    code_of: dict[Any, int] = {}
    for cell, single in zip(expected, figures.single.tolist(), strict=True):
        if len(cell.values) == 1:
            assert single
            assert code_of.setdefault(next(iter(cell.values)), single) == single
        else:
            assert single == 0
    assert len(set(code_of.values())) == len(code_of)
    for cell, codes, largest in zip(expected, figures.holders.tolist(), figures.largest.tolist(), strict=True):
        for code, value in zip(codes, largest, strict=True):
            assert (code == 0) == (value == 0)
            for who, known in code_of.items():
                if code == known and value:
                    assert abs(cell.values[who]) == value


RESPONSES = responses_of(["count", {"sum": "cost"}])


@pytest.mark.parametrize("persons", third_on_spark([15, None, 200]), ids=["few persons", "records", "many persons"])
@pytest.mark.parametrize("alone", [True, False], ids=["one leaf", "several leaves"])
def test_cells_by_their_definition(engine: Engine, persons: int | None, alone: bool) -> None:
    rows = rows_of(7, 90, persons)
    rows = in_one_leaf(rows) if alone else rows
    spec = TableSpec(by=("town", "age"), responses=RESPONSES)
    person = None if persons is None else "person"
    found = aggregated(engine, load(engine, rows), spec, person=person, hierarchies={"age": AGES})
    assert found.cells.dimensions[1].labels[:3] == ("Total", "young", "old")
    expected = cells_by_definition(found.cells, rows, LABELS, "cost", person=person)
    compare(found.figures["cost"], expected)
    count = found.figures[COUNT]
    assert count.contributors.tolist() == [len(cell.records) for cell in expected]
    assert found.additive == (alone or person is None)
    if person is not None:
        compare_codes(found.figures["cost"], expected)


@pytest.mark.parametrize("person", [None, "person"])
@pytest.mark.parametrize("tied", [True, False], ids=["ties", "distinct values"])
def test_the_largest_of_cells_with_many_contributions(engine: Engine, person: str | None, tied: bool) -> None:
    draw = np.random.default_rng(3)
    towns = draw.integers(0, 3, 4000).tolist()
    rows = [
        {"person": at, "town": [None, "x", "y"][town], "cost": at % 5 if tied else int(draw.integers(-900, 900))}
        for at, town in enumerate(towns)
    ]
    spec = TableSpec(by=("town",), responses=RESPONSES)
    found = aggregated(engine, load(engine, rows), spec, person=person)
    expected = cells_by_definition(found.cells, rows, {"town": LABELS["town"]}, "cost", person=person)
    compare(found.figures["cost"], expected)


def test_contributors_in_several_leaves_are_counted_once_in_totals(engine: Engine) -> None:
    rows = [
        {"person": who, "town": town, "cost": cost}
        for who, town, cost in [(1, "x", 5), (1, "y", 7), (2, "x", 6), (1, "x", -5), (3, "y", 1)]
    ]
    spec = TableSpec(by=("town",), responses=RESPONSES)
    figures = aggregated(engine, load(engine, rows), spec, person="person").figures["cost"]
    assert figures.contributors.tolist() == [3, 2, 2]
    assert figures.largest.tolist() == [[7, 6, 1], [6, 0, 0], [7, 1, 0]]  # +5 and -5 are nothing, 5 - 5 + 7 is 7
    assert figures.negative.tolist() == [0, 0, 0]
    assert not figures.additive


def test_levels_may_be_picked(engine: Engine) -> None:
    rows = rows_of(2, 60, 20)
    for levels in ([1], [2], [0, 2], [1, 2], ["level 1", 3]):
        spec = TableSpec(by=("town", "age"), responses=RESPONSES, levels={"age": levels})
        found = aggregated(engine, load(engine, rows), spec, person="person", hierarchies={"age": AGES})
        compare(found.figures["cost"], cells_by_definition(found.cells, rows, LABELS, "cost", person="person"))
        shown = {"level 1": 1}
        depth = len({shown.get(level, level) for level in levels} - {3})
        assert found.cells.dimensions[1].depth.max() == depth


def test_nulls_are_a_label_or_left_out(engine: Engine) -> None:
    rows = rows_of(4, 50)
    spec = TableSpec(by=("town",), responses=RESPONSES)
    found = aggregated(engine, load(engine, rows), spec)
    assert "(missing)" in found.cells.dimensions[0].labels
    count = found.figures[COUNT].contributors
    assert count[0] == count[1:].sum() == 50
    without = [row for row in rows if row["town"] is not None]
    dropping = TableSpec(by=("town",), responses=RESPONSES, drop_nulls=True)
    found = aggregated(engine, load(engine, rows), dropping)
    compare(found.figures["cost"], cells_by_definition(found.cells, without, LABELS, "cost"))
    assert found.dropped == len(rows) - len(without) > 0
    assert "(missing)" not in found.cells.dimensions[0].labels


def test_a_population_is_part_of_the_definition(engine: Engine) -> None:
    rows = rows_of(5, 60)
    spec = TableSpec(by=("town",), responses=RESPONSES, only={"sex": "f"}, drop_nulls=True)
    found = aggregated(engine, load(engine, rows), spec)
    women = [row for row in rows if row["sex"] == "f" and row["town"] is not None]
    compare(found.figures["cost"], cells_by_definition(found.cells, women, LABELS, "cost"))
    assert found.cells.only == {"sex": "f"}
    assert ("sex", "f") in found.cells.restriction(1)
    assert found.dropped == sum(row["sex"] == "f" and row["town"] is None for row in rows)


def test_weights(engine: Engine) -> None:
    rows = rows_of(6, 60, 25)
    spec = TableSpec(by=("town", "sex"), responses=RESPONSES, weight="weight")
    for person in (None, "person"):
        found = aggregated(engine, load(engine, rows), spec, person=person)
        expected = cells_by_definition(found.cells, rows, LABELS, "cost", person=person, weight="weight")
        compare(found.figures["cost"], expected, weighted=True)
        population = [_population(cell, rows, person) for cell in expected]
        assert found.figures[COUNT].totals.tolist() == population
        for cell, values, products in zip(
            expected, found.figures["cost"].largest, found.figures["cost"].weighted, strict=True
        ):
            pairs = sorted(((abs(v), abs(cell.products[who])) for who, v in cell.values.items() if v), reverse=True)[:3]
            assert [(int(v), int(p)) for v, p in zip(values, products, strict=True) if v] == pairs


def _population(cell: Cell, rows: Sequence[Mapping[str, Any]], person: str | None) -> int:
    if person is None:
        return sum(rows[at]["weight"] for at in cell.records)
    weight_of = {row["person"]: row["weight"] for row in rows}
    return sum(weight_of[who] for who in cell.records)


def test_weights_with_fractions_are_never_rounded(engine: Engine) -> None:
    table = pa.table({"town": ["x", "x"], "cost": [100, 10], "weight": [2.5, 0.25]})
    spec = TableSpec(by=("town",), responses=RESPONSES, weight="weight", weight_decimals=2)
    figures = aggregated(engine, engine.scan(Source(data=table)), spec).figures["cost"]
    assert (figures.totals.tolist(), figures.weight_unit) == ([25250, 25250], 100)
    spec = TableSpec(by=("town",), responses=RESPONSES, weight="weight", weight_decimals=1)
    with pytest.raises(DataError, match="more than 1 decimals"):
        aggregated(engine, engine.scan(Source(data=table)), spec)


def test_a_person_has_one_weight(engine: Engine) -> None:
    rows = [{"person": 1, "town": "x", "cost": 1, "weight": 1}, {"person": 1, "town": "x", "cost": 1, "weight": 2}]
    spec = TableSpec(by=("town",), responses=RESPONSES, weight="weight")
    with pytest.raises(DataError, match="one weight|each person one"):
        aggregated(engine, load(engine, rows), spec, person="person")


def test_waivers_hold_where_all_records_have_them(engine: Engine) -> None:
    table = pa.table(
        {
            "person": [1, 1, 2, 3, 4],
            "town": ["x", "x", "x", "x", "y"],
            "cost": [50, 60, 90, 10, 5],
            "waived": pa.array([True, False, True, None, True]),
        }
    )
    spec = TableSpec(by=("town",), responses=RESPONSES, waived="waived")
    figures = aggregated(engine, engine.scan(Source(data=table)), spec, person="person").figures["cost"]
    assert figures.unwaived is not None
    assert figures.unwaived.tolist() == [110, 110, -1]


def test_decimals_and_floats(engine: Engine) -> None:
    floats = [0.125, 1.115, 0.1, 0.2, -0.005, 2.675, None]
    decimals = [Decimal("0.10"), Decimal("-7.25"), Decimal("3.00"), None, Decimal("0.01"), Decimal("0.20"), None]
    table = pa.table({"town": list("xxxyyyy"), "f": floats, "d": pa.array(decimals, pa.decimal128(9, 2))})
    spec = TableSpec(by=("town",), responses=responses_of([{"sum": "f", "decimals": 2}, {"sum": "d"}]))
    found = aggregated(engine, engine.scan(Source(data=table)), spec)
    assert found.figures["f"].totals.tolist() == [12 + 111 + 10 + 20 - 1 + 267, 133, 286]
    assert found.figures["d"].totals.tolist() == [-394, -415, 21]
    assert found.figures["d"].decimals == 2
    with pytest.raises(UsageError, match="write how many decimals"):
        aggregated(
            engine, engine.scan(Source(data=table)), TableSpec(by=("town",), responses=responses_of([{"sum": "f"}]))
        )


def test_sums_beyond_64_bits_are_an_error(engine: Engine) -> None:
    table = pa.table({"person": [1, 2, 3], "town": ["x", "x", "y"], "cost": [2**62, 2**62, 2**62]})
    for person in (None, "person"):
        with pytest.raises(DataError, match="64 bits"):
            aggregated(
                engine,
                engine.scan(Source(data=table)),
                TableSpec(by=("town",), responses=RESPONSES),
                person=person,
            )
    table = pa.table({"town": ["x"], "cost": [1e300]})
    with pytest.raises(DataError, match="1 values"):
        aggregated(
            engine,
            engine.scan(Source(data=table)),
            TableSpec(by=("town",), responses=responses_of([{"sum": "cost", "decimals": 2}])),
        )


def test_missing_persons_are_an_error(engine: Engine) -> None:
    table = pa.table({"person": pa.array([1, None], pa.int64()), "town": ["x", "x"], "cost": [1, 2]})
    with pytest.raises(DataError, match="1 missing values"):
        aggregated(
            engine, engine.scan(Source(data=table)), TableSpec(by=("town",), responses=RESPONSES), person="person"
        )


def test_contribution_bound_restores_relations(engine: Engine) -> None:
    rows = rows_of(9, 120, 30)
    spec = TableSpec(by=("town", "sex"), responses=RESPONSES, contribution_bound=1)
    found = aggregated(engine, load(engine, rows), spec, person="person")
    count = found.figures[COUNT]
    assert found.additive
    assert count.contributors[0] == len({row["person"] for row in rows})
    assert not (found.cells.relations @ count.contributors).any()
    again = aggregated(engine, load(engine, rows[::-1]), spec, person="person")
    assert again.figures["cost"].totals.tolist() == found.figures["cost"].totals.tolist()
    two = TableSpec(by=("town", "sex"), responses=RESPONSES, contribution_bound=2)
    assert not aggregated(engine, load(engine, rows), two, person="person").additive


def test_relations_hold_for_sums(engine: Engine) -> None:
    rows = rows_of(11, 100, 40)
    spec = TableSpec(by=("town", "age", "sex"), responses=RESPONSES)
    found = aggregated(engine, load(engine, rows), spec, person="person", hierarchies={"age": AGES})
    assert not (found.cells.relations @ found.figures["cost"].totals).any()
    assert (found.cells.relations @ found.figures[COUNT].contributors).any()


def test_the_order_of_records_changes_nothing(engine: Engine) -> None:
    rows = rows_of(12, 80, 30)
    spec = TableSpec(by=("town", "sex"), responses=RESPONSES)
    first, second = (
        aggregated(engine, load(engine, each), spec, person="person").figures["cost"] for each in (rows, rows[::-1])
    )
    for name in ("contributors", "totals", "largest", "holders", "single"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()


def test_splitting_the_records_of_a_contributor_changes_nothing(engine: Engine) -> None:
    rows = rows_of(13, 50, 30)
    halves = [{**row, "cost": part} for row in rows for part in (2, None if row["cost"] is None else row["cost"] - 2)]
    halves = [
        row
        for row, origin in zip(halves, itertools.chain(*zip(rows, rows, strict=True)), strict=True)
        if origin["cost"] is not None
    ]
    rows = [row for row in rows if row["cost"] is not None]
    spec = TableSpec(by=("town",), responses=RESPONSES)
    first, second = (aggregated(engine, load(engine, each), spec, person="person") for each in (rows, halves))
    for name in ("contributors", "totals", "largest", "holders", "nonzero"):
        assert getattr(first.figures["cost"], name).tolist() == getattr(second.figures["cost"], name).tolist()


def test_labels_that_read_as_the_total_are_refused(engine: Engine) -> None:
    for value in ("All", " all", "ALL"):
        table = pa.table({"town": [value, "x"], "cost": [1, 2]})
        with pytest.raises(DataError, match="reads as the label of the total"):
            aggregated(
                engine, engine.scan(Source(data=table)), TableSpec(by=("town",), responses=RESPONSES, total="All")
            )
    table = pa.table({"town": ["x", None], "cost": [1, 2]})
    with pytest.raises(DataError, match="reads as the label of the total"):
        spec = TableSpec(by=("town",), responses=RESPONSES, total="(missing)")
        aggregated(engine, engine.scan(Source(data=table)), spec)
    table = pa.table({"town": ["(missing)", None], "cost": [1, 2]})
    with pytest.raises(DataError, match="label of missing values"):
        aggregated(engine, engine.scan(Source(data=table)), TableSpec(by=("town",), responses=RESPONSES))


def test_no_record_gives_a_table_of_zeros(engine: Engine) -> None:
    table = pa.table(
        {"town": pa.array([], pa.string()), "cost": pa.array([], pa.int64()), "person": pa.array([], pa.int64())}
    )
    for person in (None, "person"):
        found = aggregated(
            engine, engine.scan(Source(data=table)), TableSpec(by=("town",), responses=RESPONSES), person=person
        )
        assert found.figures["cost"].totals.tolist() == [0]
        assert found.figures[COUNT].contributors.tolist() == [0]


def test_dimensions_named_like_figures(engine: Engine) -> None:
    table = pa.table({"contributors": ["x", "y", "x"], "key_0": ["a", "a", "b"], "total_0": [1, 2, 3]})
    spec = TableSpec(by=("key_0", "contributors"), responses=responses_of(["count", {"sum": "total_0"}]))
    found = aggregated(engine, engine.scan(Source(data=table)), spec)
    assert found.figures["total_0"].totals.tolist() == [6, 4, 2, 3, 1, 2, 3, 3, 0]


def test_dates_truth_values_and_numbers_are_dimensions(engine: Engine) -> None:
    import datetime

    table = pa.table(
        {
            "day": pa.array([datetime.date(2024, 2, 29), None, datetime.date(2024, 2, 29)]),
            "yes": [True, False, None],
            "size": [0.0, -0.0, 1.5],
        }
    )
    spec = TableSpec(by=("day", "yes", "size"), responses=responses_of("count"))
    found: Aggregated = aggregated(engine, engine.scan(Source(data=table)), spec)
    labels = [dimension.labels for dimension in found.cells.dimensions]
    assert labels == [
        ("Total", "2024-02-29", "(missing)"),
        ("Total", "false", "true", "(missing)"),
        ("Total", "0", "1.5"),
    ]
    names = {found.cells.name(at): int(n) for at, n in enumerate(found.figures[COUNT].contributors) if n}
    assert names["size=0"] == 2


def test_values_outside_a_hierarchy_share_a_label(engine: Engine) -> None:
    table = pa.table({"person": [1, 2, 3, 1], "age": [1, 77, 88, 99], "cost": [1, 2, 4, 8]})
    ages = Hierarchy.from_rows([[str(age), "young", "*"] for age in range(8)], unknown="root")
    for person, total in ((None, 4), ("person", 3)):
        spec = TableSpec(by=("age",), responses=RESPONSES)
        found = aggregated(engine, engine.scan(Source(data=table)), spec, person=person, hierarchies={"age": ages})
        names = {found.cells.name(at): n for at, n in enumerate(found.figures["cost"].totals.tolist())}
        assert names == {"total": 15, "age=young": 1, "age=1": 1, "age=(unknown)": 14}
        counts = {found.cells.name(at): n for at, n in enumerate(found.figures[COUNT].contributors.tolist())}
        assert counts == {"total": total, "age=young": 1, "age=1": 1, "age=(unknown)": 3}

"""Extremes, quantiles, modes, variances and percentages: by their definition on every engine, and what is published."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, Refused, UsageError
from privpipe.hierarchies import Hierarchy
from privpipe.tables.aggregation import COUNT, TableSpec, aggregated, squares_of
from privpipe.tables.order_statistics import OrderStatistic
from privpipe.tables.responses import responses_of
from tests.tables.definition import cells_by_definition
from tests.tiers import deep_beyond

AGES = Hierarchy.from_rows([[str(age), "young" if age < 3 else "old", "*"] for age in range(6)])
LABELS = {
    "town": lambda value: {"(missing)" if value is None else value},
    "age": lambda value: {str(value), "young" if value < 3 else "old"},
}
GIVEN = [
    "count",
    {"minimum": "cost"},
    {"maximum": "cost", "structural": 5},
    {"mode": "cost"},
    {"quantile": "cost", "q": 0.5, "smoothed": 3},
    {"quantile": "cost", "q": 0.25, "unit": 2},
    {"quantile": "cost", "q": 0.9, "unit": 2},
    {"variance": "cost"},
]
AROUND = 10


def rows_of(seed: int, records: int, persons: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    rows = []
    for _ in range(records):
        who = int(draw.integers(0, persons))
        town = ["x", "y", None][who % 3 if draw.random() < 0.7 else int(draw.integers(0, 3))]
        cost = None if draw.random() < 0.1 else int(draw.integers(-4, 6))
        rows.append({"person": who, "town": town, "age": who % 6, "cost": cost})
    return rows


def load(engine: Engine, rows: Sequence[Mapping[str, Any]]) -> Any:
    return engine.scan(Source(data=pa.table({name: pa.array([row[name] for row in rows]) for name in rows[0]})))


def by_definition(response: Any, values: list[int], n: int) -> tuple[Any, bool]:
    """The figure of contributors' values, and whether it may be published alone."""
    values, total = sorted(values), len(values)
    if not total:
        return None, True
    if response.kind in ("minimum", "maximum"):
        figure = values[0 if response.kind == "minimum" else -1]
        return figure, values.count(figure) >= n
    if response.kind == "mode":
        figure = min(values, key=lambda value: (-values.count(value), value))
        return figure, values.count(figure) >= n
    rank = response.q * (total - 1)
    if response.smoothed:
        start = floor(rank - Fraction(response.smoothed - 1, 2) + Fraction(1, 2))
        if start < 0 or start + response.smoothed > total:
            return None, False
        window = values[start : start + response.smoothed]
        figure = Fraction(sum(window), len(window))
        sides = figure
        enough = len(window) >= n
    else:
        low = floor(rank)
        exact = values[low] + (rank - low) * (values[min(low + 1, total - 1)] - values[low])
        figure = floor(exact / response.unit + Fraction(1, 2)) * response.unit
        sides = exact
        enough = sum(floor(value / response.unit + Fraction(1, 2)) * response.unit == figure for value in values) >= n
    below = sum(value < sides for value in values)
    return figure, enough and below >= n and total - below >= n


def compare(statistic: OrderStatistic, held: Sequence[Sequence[int]], cells: Any, n: int) -> None:
    unsafe = statistic.unsafe(n)
    for at, values in enumerate(held):
        figure, alone = by_definition(statistic.response, list(values), n)
        assert statistic.values[at] == figure
        assert int(statistic.present[at]) == len(values)
        if statistic.response.structural is None or figure != statistic.response.structural:
            assert bool(unsafe[at]) == (not alone), (statistic, at)
        else:
            below = [
                other
                for other, codes in enumerate(cells.codes)
                if all(
                    above in ancestors(dimension, code)
                    for above, dimension, code in zip(cells.codes[at], cells.dimensions, codes, strict=True)
                )
            ]
            small = any(0 < len(held[other]) < n and max(held[other]) == figure for other in below)
            assert bool(unsafe[at]) == (not alone and small)


def ancestors(dimension: Any, code: int) -> set[int]:
    found = set()
    while code >= 0:
        found.add(int(code))
        code = dimension.parent[code]
    return found


@pytest.mark.parametrize("persons", [None, 25, 400], ids=["records", "few persons", "many persons"])
@pytest.mark.parametrize("seed", deep_beyond(1, [1, 2]))
def test_figures_by_their_definition(engine: Engine, persons: int | None, seed: int) -> None:
    rows = rows_of(seed, 220, persons or 300)
    spec = TableSpec(by=("town", "age"), responses=responses_of(GIVEN), around=AROUND)
    person = None if persons is None else "person"
    found = aggregated(engine, load(engine, rows), spec, person=person, hierarchies={"age": AGES})
    expected = cells_by_definition(found.cells, rows, LABELS, "cost", person=person)
    held = [list(cell.values.values()) for cell in expected]
    assert len(found.statistics) == 6
    for statistic in found.statistics.values():
        for n in (1, 3, 10):
            compare(statistic, held, found.cells, n)
    squares = found.figures[squares_of("cost")].totals.tolist()
    assert squares == [sum(value * value for value in values) for values in held]


def frame(costs: Mapping[str, Sequence[int | None]]) -> pd.DataFrame:
    rows = [(region, cost) for region, values in costs.items() for cost in values]
    return pd.DataFrame(rows, columns=["region", "cost"]).astype({"cost": "Int64"})


ASKED = [pp.tables.MinimumFrequency(at_least=3), pp.tables.TableAudit()]


def released(costs: Mapping[str, Sequence[int | None]], responses: Sequence[Any]) -> pd.DataFrame:
    table = pp.tables.Aggregate(by=["region"], responses=responses).apply(frame(costs), guarantees=ASKED)
    safe = pp.tables.SuppressTable().apply(table, guarantees=ASKED)
    assert pp.check(safe, ASKED).passed
    return safe.public().set_index("region")


def test_an_extreme_of_one_person_is_never_published() -> None:
    costs = {"N": [1, 1, 1, 9], "S": [1, 1, 1, 1, 4, 4, 4]}
    found = released(costs, ["count", {"minimum": "cost"}, {"maximum": "cost"}])
    assert found["minimum_cost"].tolist() == [1, 1, 1]
    assert found["maximum_cost"].isna().tolist() == [True, True, False]
    assert found["maximum_cost_status"].tolist() == ["c", "c", "published"]
    assert found["count"].tolist() == [11, 4, 7]


def test_without_the_stage_the_guarantee_refuses() -> None:
    table = pp.tables.Aggregate(by=["region"], responses=["count", {"maximum": "cost"}]).apply(
        frame({"N": [1, 1, 1, 9], "S": [4, 4, 4]}), guarantees=ASKED
    )
    with pytest.raises(Refused, match="2 of 6 published figures are unsafe"):
        pp.check(table, ASKED)


@pytest.mark.parametrize(
    "response",
    [{"maximum": "cost"}, {"mode": "cost"}, {"quantile": "cost", "q": 0.5, "unit": 1}, {"variance": "cost"}],
    ids=lambda response: next(iter(response)),
)
@pytest.mark.parametrize(
    "rules",
    [
        [pp.tables.PPercent(at_least=10)],
        [pp.tables.MinimumFrequency(at_least=3, response="count")],
        [pp.tables.MinimumFrequency(at_least=3, severity="warn"), pp.tables.TableAudit()],
    ],
    ids=["another rule", "of counts alone", "a warning"],
)
def test_what_no_binding_rule_judges_is_refused(response: Mapping[str, Any], rules: list[Any]) -> None:
    table = pp.tables.Aggregate(by=["region"], responses=["count", response, {"sum": "cost"}]).apply(
        frame({"N": [1, 1, 1, 9], "S": [4, 4, 4]}), guarantees=rules
    )
    with pytest.raises(UsageError, match="no binding minimum_frequency"):
        pp.check(table, rules)


def test_a_bound_that_a_small_cell_reaches_is_not_published_above_it() -> None:
    costs = {"N": [100], "S": [1, 2, 3, 4], "W": [1, 2]}
    found = released(costs, ["count", {"maximum": "cost", "structural": 100}])
    assert found["maximum_cost"].isna().all()
    costs = {"N": [100, 5, 6, 7], "S": [1, 2, 3, 4]}
    found = released(costs, ["count", {"maximum": "cost", "structural": 100}])
    assert found["maximum_cost"].isna().tolist() == [False, False, True]


def test_rounding_to_a_unit_that_rounds_nothing_hides_nothing() -> None:
    costs = {"N": [10 * at for at in range(20)], "S": list(range(20))}
    fine = released(costs, ["count", {"quantile": "cost", "q": 0.5, "unit": 1}])
    assert fine["quantile_0.5_cost"].isna().tolist() == [True, True, True]
    coarse = released(costs, ["count", {"quantile": "cost", "q": 0.5, "unit": 5}])
    assert coarse["quantile_0.5_cost"].isna().tolist() == [False, True, False]
    assert coarse.loc["S", "quantile_0.5_cost"] == 10.0


def test_an_interpolated_value_between_two_persons_is_not_a_figure_of_many() -> None:
    costs = {"N": [0] * 5 + [1000] * 5, "S": [1] * 9}
    found = released(costs, ["count", {"quantile": "cost", "q": 0.5, "unit": 100}])
    assert np.isnan(found.loc["N", "quantile_0.5_cost"])


def test_overlapping_windows_are_not_both_published() -> None:
    given = [{"quantile": "cost", "q": q, "smoothed": 5} for q in (0.5, 0.52, 0.2)]
    found = released({"N": [at * at for at in range(60)], "S": list(range(60))}, ["count", *given])
    assert found["quantile_0.5_cost"].notna().all()
    assert found["quantile_0.52_cost"].isna().all()
    assert found["quantile_0.2_cost"].notna().all()


def test_windows_of_other_tables_count_too() -> None:
    tables = {
        "a": {"by": ["region"], "responses": ["count", {"quantile": "cost", "q": 0.5, "smoothed": 5}]},
        "b": {"by": ["sex"], "responses": ["count", {"quantile": "cost", "q": 0.52, "smoothed": 5}]},
    }
    rows = frame({"N": list(range(60)), "S": list(range(60))}).assign(sex=["f", "m"] * 60)
    made = pp.tables.Aggregate(tables=tables).apply(rows, guarantees=ASKED)
    safe = pp.tables.SuppressTable().apply(made, guarantees=ASKED)
    assert safe["a"].public()["quantile_0.5_cost"].notna().all()
    assert safe["b"].public()["quantile_0.52_cost"].isna().all()


def test_more_contributions_than_were_kept_are_an_error() -> None:
    table = pp.tables.Aggregate(by=["region"], responses=["count", {"quantile": "cost", "q": 0.5, "unit": 5}]).apply(
        frame({"N": list(range(90))})
    )
    with pytest.raises(DataError, match="were kept"):
        pp.check(table, [pp.tables.MinimumFrequency(at_least=20)])


def test_variances_of_fewer_than_three_hide_the_row() -> None:
    rule = [pp.tables.MinimumFrequency(at_least=1), pp.tables.TableAudit()]
    rows = frame({"N": [1, 5], "S": [1, 2, 3, 4], "W": [4, 4, 6, 6]})
    table = pp.tables.Aggregate(by=["region"], responses=["count", {"mean": "cost"}, {"sd": "cost"}]).apply(
        rows, guarantees=rule
    )
    with pytest.raises(Refused):
        pp.check(table, rule)
    safe = pp.tables.SuppressTable().apply(table, guarantees=rule)
    assert pp.check(safe, rule).passed
    shown = safe.public().set_index("region")
    assert shown.loc["N", ["count", "mean_cost", "sd_cost"]].isna().all()
    assert shown["count"].isna().sum() == 2  # one more, else the difference shows both
    other = (set("SW") & set(shown.index[shown["sd_cost"].notna()])).pop()
    values = {"S": [1, 2, 3, 4], "W": [4, 4, 6, 6]}[other]
    assert shown.loc[other, "sd_cost"] == pytest.approx(statistics.stdev(values))


def test_variances_are_of_contributors() -> None:
    rows = pd.DataFrame({"region": ["N"] * 6, "who": [1, 1, 2, 3, 4, 4], "cost": [1, 2, 5, 7, 4, -4]})
    table = pp.tables.Aggregate(by=["region"], responses=["count", {"variance": "cost"}]).apply(rows, person_id="who")
    assert table.public()["variance_cost"].tolist() == pytest.approx([statistics.variance([3, 5, 7, 0])] * 2)


def test_percentages_need_their_published_base() -> None:
    rows = pd.DataFrame(
        {"region": ["N"] * 9 + ["S"] * 2 + ["W"] * 8, "sex": list("fffffmmmm") + list("fm") + list("ffffmmmm")}
    )
    given = ["count", {"percentage": "count", "of": "sex", "digits": 1}]
    table = pp.tables.Aggregate(by=["region", "sex"], responses=given).apply(rows, guarantees=ASKED)
    assert [str(each) for each in table.public().query("region == 'N'")["percentage_count"]] == [
        "100.0",
        "55.6",
        "44.4",
    ]
    safe = pp.tables.SuppressTable().apply(table, guarantees=ASKED)
    assert pp.check(safe, ASKED).passed
    shown = safe.public()
    bases = shown[shown["sex"] == "Total"].set_index("region")["count"]
    hidden = shown["count"].isna() | shown["region"].map(bases).isna()
    assert hidden.any()
    assert shown["percentage_count"].isna().tolist() == hidden.tolist()


def test_rounded_tables_show_no_exact_statistic() -> None:
    table = pp.tables.Aggregate(by=["region"], responses=["count", {"mode": "cost"}]).apply(frame({"N": [1] * 9}))
    with pytest.raises(UsageError, match="table of its own"):
        pp.tables.RoundTable(base=5).apply(table).public()
    shares = pp.tables.Aggregate(by=["region"], responses=[{"percentage": "count", "of": "region"}]).apply(
        frame({"N": [1] * 9, "S": [1] * 4})
    )
    rounded = pp.tables.RoundTable(base=5).apply(shares).public()["percentage_count"]
    assert [float(each) for each in rounded] == [100.0, 66.7, 33.3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"maximum": "cost"}], "add `count`"),
        (["count", {"quantile": "cost"}], "give q"),
        (["count", {"quantile": "cost", "q": 1, "unit": 5}], "between 0 and 1"),
        (["count", {"quantile": "cost", "q": 0.5}], "smoothed"),
        (["count", {"quantile": "cost", "q": 0.5, "smoothed": 5, "unit": 3}], "smoothed"),
        (["count", {"quantile": "cost", "q": 0.5, "smoothed": 1}], "at least 2"),
        (["count", {"quantile": "cost", "q": 0.123456789, "smoothed": 3}], "decimals"),
        (["count", {"quantile": "cost", "q": 0.5, "unit": 0.5}], "finer"),
        (["count", {"quantile": "cost", "q": 0.5, "unit": 5}, {"quantile": "cost", "q": 0.2, "unit": 7}], "two units"),
        (["count", {"percentage": "count", "of": ["cost"]}], "not a dimension"),
        (["count", {"percentage": "count"}], "`of`"),
        (["count", {"maximum": "cost", "smoothed": 3}], "unknown key"),
        (["count", {"sum": "count"}], "another figure"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_wrong_responses(given: list[Any], message: str) -> None:
    rows = frame({"N": [1, 2]}).assign(count=1)
    with pytest.raises(UsageError, match=message):
        pp.tables.Aggregate(by=["region"], responses=given).apply(rows)


def test_squares_beyond_64_bits_are_an_error(engine: Engine) -> None:
    rows = [{"town": "x", "cost": 3_100_000_000}, {"town": "x", "cost": 3}, {"town": "x", "cost": -3_000_000_000}]
    spec = TableSpec(by=("town",), responses=responses_of([{"variance": "cost"}]))
    with pytest.raises(DataError, match="64 bits"):
        aggregated(engine, load(engine, rows), spec)


def test_no_contribution_beyond_those_around_the_rank_comes_to_the_driver(engine: Engine) -> None:
    rows = [{"town": "x", "cost": at} for at in range(1000)]
    spec = TableSpec(by=("town",), responses=responses_of(["count", {"quantile": "cost", "q": 0.5, "unit": 50}]))
    came: Counter[str] = Counter()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        def ranked(self, *given: Any) -> pa.Table:
            found = engine.ranked(*given)
            came["rows"] += len(found)
            came["calls"] += 1
            return found

    found = aggregated(Watched(), load(engine, rows), spec)  # type: ignore[arg-type]
    assert found.figures[COUNT].contributors.tolist() == [1000, 1000]
    assert came == {"rows": 2 * 2 * spec.around, "calls": 2}

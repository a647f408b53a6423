"""Tables of frames: every kind of frame in, the same kind out, and nothing private in what is public."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.blocks.aggregate_query import AggregateQuery
from privpipe.errors import DataError, Refused, UsageError
from privpipe.tables.cells import Dimension
from privpipe.tables.leaf_totals import Grid
from privpipe.tables.table import STATUSES, Table

FRAME = pd.DataFrame(
    {
        "person": [1, 1, 2, 3, 4, 5],
        "region": ["north", "south", "south", "south", "north", None],
        "sex": ["f", "f", "m", "m", "f", "m"],
        "cost": [10.25, 20.5, 915148800.0, 7.0, 1.0, 2.0],
        "hours": [1, 2, 3, 4, 0, 0],
    }
)
RESPONSES = ["count", {"sum": "cost", "decimals": 2}, {"mean": "cost", "decimals": 2}, {"ratio": ["cost", "hours"]}]


def table(frame: Any = FRAME, **options: Any) -> Table:
    return pp.tables.Aggregate(by=["region", "sex"], responses=RESPONSES).apply(frame, person_id="person", **options)


def test_rows_are_in_the_order_of_labels() -> None:
    public = table().public()
    regions = ["Total", "north", "south", "(missing)"]
    expected = [(region, sex) for region in regions for sex in ("Total", "f", "m")]
    assert list(zip(public["region"], public["sex"], strict=True)) == expected
    responses = ["count", "sum_cost", "mean_cost", "ratio_cost_hours"]
    names = [each for name in responses for each in (name, f"{name}_status")]
    assert list(public.columns) == ["region", "sex", *names]


def test_figures() -> None:
    public = table().public().set_index(["region", "sex"])
    assert public.loc[("Total", "Total"), "count"] == 5
    assert public.loc[("Total", "f"), "count"] == 2
    assert str(public.loc[("south", "f"), "sum_cost"]) == "20.50"
    assert public.loc[("Total", "f"), "mean_cost"] == 31.75 / 2
    assert public.loc[("Total", "f"), "ratio_cost_hours"] == 31.75 / 3
    assert public.loc[("north", "m"), "count"] == 0
    assert public.loc[("north", "m"), "count_status"] == "zero"
    assert pd.isna(public.loc[("north", "m"), "mean_cost"])
    assert pd.isna(public.loc[("(missing)", "m"), "ratio_cost_hours"])  # nothing below


def test_suppressed_figures_are_null_whatever_the_reason() -> None:
    found = table()
    mask = np.zeros(len(found), dtype=bool)
    mask[[1, 5]] = True
    primary = np.zeros(len(found), dtype=bool)
    primary[1] = True
    public = found.hiding(mask, primary).public()
    for response in ("count", "sum_cost", "mean_cost", "ratio_cost_hours"):
        assert public[response].isna()[mask].all()
        assert (public[f"{response}_status"] == "c").tolist() == mask.tolist()
    arrow = table(pa.Table.from_pandas(FRAME)).hiding(mask).public()
    buffers = b"".join(bytes(part) for part in arrow.column("sum_cost").chunk(0).buffers() if part is not None)
    assert (91514881100).to_bytes(8, "little") not in buffers


def test_no_value_is_shown_by_repr_and_none_is_pickled() -> None:
    found = table()
    assert repr(found) == "Table(4 x 3 cells, 4 responses)"
    assert "915148800" not in repr(found.aggregated)
    assert "915148800" not in repr(found.measures["cost"].figures)
    with pytest.raises(UsageError, match="not pickled"):
        pickle.dumps(found)


def test_the_private_frame_has_what_rules_see() -> None:
    private = table().private()
    assert private["cost:contributors"].tolist()[:3] == [5, 2, 3]
    assert str(private["cost:largest_1"][0]) == "915148800.00"
    assert set(private["count_status"]) <= {*STATUSES, "zero"}


def test_every_kind_of_frame_comes_back_as_it_went_in() -> None:
    import dask.dataframe
    import duckdb
    import polars

    expected = table(pa.Table.from_pandas(FRAME)).public()
    assert isinstance(expected, pa.Table)
    columns = ["region", "sex", "count", "count_status", "sum_cost_status"]
    kinds = {
        "pandas": FRAME,
        "polars": polars.from_pandas(FRAME),
        "dask": dask.dataframe.from_pandas(FRAME, npartitions=2),
        "duckdb": duckdb.from_df(FRAME),
    }
    for name, frame in kinds.items():
        public = table(frame).public()
        assert type(public) is type(frame), name
        rows = public.compute() if name == "dask" else public
        arrow = rows.to_arrow_table() if name == "duckdb" else pa.table({c: list(rows[c]) for c in columns})
        key = [("region", "ascending"), ("sex", "ascending")]
        found, wanted = arrow.sort_by(key), expected.sort_by(key)
        for column in columns:
            assert found.column(column).to_pylist() == wanted.column(column).to_pylist(), (name, column)


@pytest.mark.spark
def test_spark_frames_stay_spark_frames(spark_engine: Any) -> None:
    frame = spark_engine.session.createDataFrame(FRAME.astype({"region": object}).where(FRAME.notna(), None))
    public = table(frame, engine=spark_engine).public()
    assert type(public) is type(frame)
    assert {(row["region"], row["sex"]): row["count"] for row in public.collect()}[("Total", "Total")] == 5


def test_paths_are_read(tmp_path: Any) -> None:
    FRAME.to_parquet(tmp_path / "costs.parquet")
    public = table(tmp_path / "costs.parquet").public()
    assert isinstance(public, pa.Table)
    assert public.column("count")[0].as_py() == 5


def test_hierarchies_may_be_builders() -> None:
    frame = pd.DataFrame({"age": [1, 7, 12, 19], "cost": [1, 2, 3, 4]})
    found = pp.tables.Aggregate(by=["age"], responses=["count"], levels={"age": [1, 2]}).apply(
        frame, hierarchies={"age": {"intervals": {"widths": [5, 10]}}}
    )
    public = found.public()
    assert public["count"].tolist() == [4, 2, 2, 1, 1, 1, 1]
    assert found.cells.dimensions[0].depth.tolist() == [0, 1, 1, 2, 2, 2, 2]


def test_codes_depend_on_the_seed() -> None:
    seed = pp.Seed.insecure("one")
    first, again = (table(seed=seed).measures["cost"].figures.holders.tolist() for _ in range(2))
    assert first == again
    assert first != table(seed=pp.Seed.insecure("two")).measures["cost"].figures.holders.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": []}, "give either"),
        ({"by": ["region", "region"]}, "list of distinct columns"),
        ({"responses": []}, "give a list"),
        ({"responses": ["counts"]}, "give count"),
        ({"responses": [{"sums": "cost"}]}, "did you mean 'sum'"),
        ({"responses": [{"sum": "a", "mean": "a"}]}, "exactly one"),
        ({"responses": [{"ratio": ["a"]}]}, "takes 2 columns"),
        ({"responses": ["count", "count"]}, "two are named 'count'"),
        ({"responses": [{"sum": "a", "decimals": 1}, {"mean": "a", "decimals": 2}]}, "two numbers of decimals"),
        ({"responses": [{"sum": "a", "name": "region"}]}, "name of a dimension"),
        ({"responses": ["count", {"sum": "a", "name": "count_status"}]}, "or of a status"),
        ({"total": " "}, "total must be"),
        ({"nulls": "keep"}, "nulls must be one of label, drop"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pp.tables.Aggregate(**{"by": ["region"], "responses": ["count"], **options})


def test_columns_that_are_not_there() -> None:
    stage = pp.tables.Aggregate(by=["regio"], responses=["count"])
    with pytest.raises(DataError, match="did you mean 'region'"):
        stage.apply(FRAME)
    stage = pp.tables.Aggregate(by=["region"], responses=["count"], levels={"region": [1]})
    with pytest.raises(UsageError, match="has no hierarchy"):
        stage.apply(FRAME)
    with pytest.raises(UsageError, match="neither a dimension nor added up"):
        pp.tables.Aggregate(by=["region"], responses=["count"]).apply(FRAME, person_id="region")


def test_who_is_alone_in_a_leaf_is_so_in_its_total_whatever_the_code() -> None:
    dimensions = [Dimension.tree("sex", {"f": "Total", "m": "Total"})]
    codes = np.array([[1], [2]])
    for code in (-7, 7):
        grid = Grid.of_leaves(
            pa.table({"contributors": [1, 0], "single": [code, 0]}), dimensions, codes, AggregateQuery(keys=("sex",))
        )
        assert grid.with_totals().figures["single"].tolist() == [code, code, 0]


TYPED = pa.table(
    {
        "region": ["north", "south"] * 4,
        "ok": pa.array([True, True, True, False] * 2),
        "age": pa.array([30.0, 30.0, 30.0, 40.5] * 2),
        "fee": pa.array([Decimal("1.50")] * 3 + [Decimal(2)] + [Decimal("1.50")] * 3 + [None], pa.decimal128(6, 2)),
        "day": pa.array([date(2024, 5, 1)] * 3 + [date(2024, 5, 2)] + [date(2024, 5, 1)] * 3 + [None]),
        "at": pa.array(
            [datetime(2024, 5, 1, tzinfo=UTC)] * 3 + [None] + [datetime(2024, 5, 1, tzinfo=UTC)] * 3 + [None]
        ),
    }
)


@pytest.mark.parametrize("engine", ["embedded", "dask"])
@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("ok", (True, "true", "True", 1)),
        ("age", (30, 30.0, "30", "30.0")),
        ("fee", (1.5, Decimal("1.50"), "1.5", "1.50")),
        ("day", (date(2024, 5, 1), "2024-05-01")),
        ("at", (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01", "2024-05-01T02:00+02:00")),
    ],
)
def test_a_population_is_named_by_a_value_of_its_column(column: str, labels: tuple[Any, ...], engine: str) -> None:
    """Compared as written, `true` of YAML and 30.0 would be in no record, and zeros published for six persons."""
    for label in labels:
        counted = pp.tables.Aggregate(by=["region"], responses=["count"], only={column: label})
        assert counted.apply(TYPED, engine=engine).public()["count"].to_pylist() == [6, 4, 2], label


@pytest.mark.parametrize("records", [0, 12])
def test_tables_in_which_nobody_is_counted_pass_no_audit(records: int) -> None:
    made = pp.tables.Aggregate(by=["region"], responses=["count"]).apply(
        pd.DataFrame({"region": pd.Series(["north", "south"] * (records // 2), dtype=str)})
    )
    asked = [pp.tables.MinimumFrequency(at_least=3, severity="warn"), pp.tables.TableAudit()]
    if records:
        pp.check(made, asked)
    else:
        with pytest.raises(Refused, match="TableAudit.*no published cell has a contributor"):
            pp.check(made, asked)


@pytest.mark.parametrize(("column", "label"), [("ok", "yes"), ("age", "young"), ("day", "01.05.2024"), ("fee", "")])
def test_a_population_that_no_record_can_be_in_is_an_error(column: str, label: str) -> None:
    counted = pp.tables.Aggregate(by=["region"], responses=["count"], only={column: label})
    with pytest.raises(DataError, match=f"only: {column}: a label is not of"):
        counted.apply(TYPED)
    with pytest.raises(UsageError, match="texts, numbers, booleans and dates"):
        pp.tables.Aggregate(by=["region"], responses=["count"], only={column: [label]}).apply(TYPED)

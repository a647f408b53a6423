"""What a stage does not change comes back as it went in: types, values, labels and index, on every kind of frame."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import DataError
from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import AddNoise, DropIdentifiers, RankSwap, Sample, TopCode
from tests.stages.carried_frames import NESTED, wide_table, wrong_cells

SEED = bytes(range(32))
STAGES = {
    "of single rows": TopCode(columns=["cost"], at=30.0),
    "that reorders": RankSwap(columns=["cost"], p=0.2),
    "that leaves rows out": Sample(fraction=0.5),
    "of the whole column": AddNoise(columns=["cost"], variance_ratio=0.5),
}
POLICY = {
    "columns": {
        **{name: {"role": "carried" if name in NESTED else "insensitive"} for name in wide_table().column_names},
        "age": {"role": "quasi_identifier"},
    },
    "transform": [{"rank_swap": {"columns": ["cost"], "p": 0.3}}],
    "guarantees": [{"k_anonymity": {"k": 2}}],
    "seed": {"insecure": 7},
    "allow_insecure_seed": True,
}
Applied = Callable[[Any], Any]


def applied() -> Iterator[tuple[str, Applied]]:
    for name, stage in STAGES.items():
        yield f"a stage {name}", lambda frame, stage=stage: stage.apply(frame, seed=SEED)
    yield "Policy.apply", pp.Policy.from_dict(POLICY).apply


def of_pandas(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pandas(frame, schema, preserve_index=False)


def numpy_frame(table: pa.Table) -> pd.DataFrame:
    frame = table.to_pandas()
    frame["pairs"] = [dict(cell) for cell in frame["pairs"]]  # pairs of several types have no type in pandas
    return frame


def test_arrow_and_polars_frames_keep_types_and_values() -> None:
    table = wide_table()
    frame = pl.from_arrow(table)
    wrong: list[Any] = []
    for name, apply in applied():
        wrong += wrong_cells(f"table, {name}", apply(table), table)
        batch = apply(table.combine_chunks().to_batches()[0])
        wrong += wrong_cells(f"batch, {name}", pa.Table.from_batches([batch]), table)
        wrong += wrong_cells(f"polars, {name}", apply(frame).to_arrow(), frame.to_arrow())
    assert not wrong


@pytest.mark.parametrize("kind", ["numpy", "nullable", "arrow"])
def test_pandas_frames_keep_types_index_and_attributes(kind: str) -> None:
    table = wide_table()
    frame = table.to_pandas(types_mapper=pd.ArrowDtype) if kind == "arrow" else numpy_frame(table)
    frame = frame.convert_dtypes() if kind == "nullable" else frame
    frame.index = pd.Index([f"r{i}" for i in range(len(frame))])
    frame.attrs["origin"] = "register"
    wrong: list[Any] = []
    for name, apply in applied():
        out = apply(frame)
        before = frame.set_axis(pd.Index(frame["key"])).loc[list(out["key"])]
        for column in frame.columns.drop("cost"):
            if out[column].dtype != frame[column].dtype:
                wrong.append((name, column, frame[column].dtype, out[column].dtype))
            elif list(map(repr, out[column])) != list(map(repr, before[column])):
                wrong.append((name, column, "values"))
        labels = [f"r{i}" for i in out["key"]]
        if name == "Policy.apply":
            assert not set(out.index) & set(frame.index)
        elif list(out.index) != labels:
            wrong.append((name, "index"))
        if out.attrs != frame.attrs:
            wrong.append((name, "attrs"))
    assert not wrong


def test_relations_keep_types() -> None:
    connection = duckdb.connect()
    table = wide_table()
    connection.register("rows_in", table)
    connection.execute("CREATE TYPE towns AS ENUM ('e', 'd', 'c', 'b', 'a')")
    connection.execute("CREATE TABLE visits AS SELECT * REPLACE (town::towns AS town), uuid() AS id FROM rows_in")
    relation = connection.table("visits")
    wrong = []
    for name, stage in STAGES.items():
        out = stage.apply(relation, seed=SEED)
        kinds = dict(zip(out.columns, map(str, out.types), strict=True))
        asked = zip(relation.columns, map(str, relation.types), strict=True)
        wrong += [(name, column, kind, kinds[column]) for column, kind in asked if kinds[column] != kind]
    assert not wrong


def test_floats_keep_nan_apart_from_null() -> None:
    cells = [None, float("nan"), 1.0, 2.0, 3.0, 4.0] * 4
    table = pa.table({"key": pa.array(range(24)), "cost": pa.array(np.arange(24.0)), "x": pa.array(cells)})
    for stage in STAGES.values():
        out = stage.apply(table, seed=SEED)
        assert list(map(repr, out.column("x").to_pylist())) == [
            repr(cells[key]) for key in out.column("key").to_pylist()
        ]


def test_a_masked_column_keeps_its_type_where_the_values_fit() -> None:
    table = wide_table()
    swapped = RankSwap(columns=["price", "small", "when"], p=0.3).apply(table, seed=SEED)
    assert [swapped.schema.field(name).type for name in ("price", "small", "when")] == [
        table.schema.field(name).type for name in ("price", "small", "when")
    ]
    noisy = AddNoise(columns=["float"], variance_ratio=0.5).apply(table, seed=SEED)
    assert noisy.schema.field("float").type == pa.float64()


def test_metadata_that_may_hold_values_goes_with_what_it_is_of() -> None:
    table = wide_table()
    for name in ("cost", "age"):
        at = table.schema.get_field_index(name)
        table = table.cast(table.schema.set(at, table.schema.field(at).with_metadata({"comment": "c", "max": "23"})))
    kept = STAGES["of single rows"].apply(table, seed=SEED).schema
    assert kept.field("age").metadata == {b"comment": b"c", b"max": b"23"}
    assert kept.field("cost").metadata == {b"comment": b"c"}
    assert STAGES["that leaves rows out"].apply(table, seed=SEED).schema.field("age").metadata == {b"comment": b"c"}


def test_a_dictionary_lists_the_values_that_are_left() -> None:
    table = wide_table().filter(pa.compute.equal(wide_table().column("town"), "a"))
    out = STAGES["of single rows"].apply(table, seed=SEED)
    assert out.column("town").combine_chunks().dictionary.to_pylist() == ["a"]


def test_a_named_index_level_is_a_column_of_stages_and_stays_the_index() -> None:
    frame = pd.DataFrame({"cost": np.arange(12.0)}, index=pd.Index([20 + i % 3 for i in range(12)], name="id"))
    out = TopCode(columns=["id"], at=21).apply(frame, seed=SEED)
    assert (out.index.name, list(out.columns), out.index.max()) == ("id", ["cost"], 21)
    assert list(DropIdentifiers().apply(frame, roles=Roles(identifiers=["id"])).index) == list(range(12))
    half = frame.set_axis(pd.MultiIndex.from_arrays([frame.index, range(12)], names=["id", None]))
    with pytest.raises(DataError, match="another has no name"):
        TopCode(columns=["id"], at=21).apply(half, seed=SEED)


@pytest.mark.parametrize(
    ("cell", "kind"), [(datetime.time(1, 2), "time64"), ({"a": 1}, "struct"), ([1, 2], "list<item: int64>")]
)
def test_objects_of_pandas_are_named_as_what_they_are(cell: Any, kind: str) -> None:
    frame = pd.DataFrame({"zip": ["1", "1"], "cell": [cell, cell]})
    with pytest.raises(DataError, match=f"column 'cell' has the type {kind}.*`carried`"):
        pp.check(frame, KAnonymity(k=2), quasi_identifiers=["zip"])
    carried = Roles(quasi_identifiers=["zip"], carried=["cell"])
    assert pp.check(frame, KAnonymity(k=2), roles=carried).passed


@pytest.mark.dask
@pytest.mark.parametrize("kind", ["numpy", "arrow"])
def test_dask_frames_keep_types_index_and_divisions(kind: str) -> None:
    import dask
    import dask.dataframe as dd

    table = wide_table()
    frame = table.to_pandas(types_mapper=pd.ArrowDtype) if kind == "arrow" else numpy_frame(table)
    frame.index = pd.Index([10 * i for i in range(len(frame))])
    with dask.config.set({"dataframe.convert-string": False}):
        lazy = dd.from_pandas(frame, npartitions=3)
    wrong: list[Any] = []
    for name, apply in applied():
        result = apply(lazy)
        out = result.compute()
        for column in frame.columns.drop("cost"):
            if str(out[column].dtype) != str(frame[column].dtype) or str(result.dtypes[column]) != str(
                out[column].dtype
            ):
                wrong.append((name, column, frame[column].dtype, out[column].dtype))
        before = frame.set_axis(pd.Index(frame["key"])).loc[list(out["key"])]
        if name != "Policy.apply":  # which gives lists where arrays were
            same = [column for column in NESTED if list(map(repr, out[column])) == list(map(repr, before[column]))]
            wrong += [(name, column) for column in NESTED if column not in same]
        if name == "Policy.apply":
            assert not set(out.index) & set(frame.index)
        elif list(out.index) != [10 * key for key in out["key"]]:
            wrong.append((name, "index"))
    assert not wrong
    assert STAGES["of single rows"].apply(lazy, seed=SEED).divisions == lazy.divisions


def test_declared_enums_keep_their_words_while_no_record_is_left_out() -> None:
    frame = pl.DataFrame(
        {"size": pl.Series(["s", "l"] * 4, dtype=pl.Enum(["s", "m", "l"])), "cost": [float(at) for at in range(8)]}
    )
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT ('s')::ENUM('s', 'm') AS size, range::DOUBLE AS cost FROM range(8)")
        for stage in (RankSwap(columns=["cost"], p=0.5), TopCode(columns=["cost"], at=5.0)):
            assert stage.apply(frame, seed=SEED).schema == frame.schema
            assert stage.apply(relation, seed=SEED).types == relation.types

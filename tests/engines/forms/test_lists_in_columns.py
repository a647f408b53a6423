"""Columns of lists of texts, however a library holds them: the same items, and the same text, on every engine."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.engines.base.frames import arrow_of
from privpipe.errors import DataError
from privpipe.models import KmAnonymity

ITEMS = [["beer", "milk"], ["beer", "milk"], ["beer"], ["beer", "egg"], ["beer", "egg"]]
"""Every set of at most two items that occurs at all occurs in at least two records."""
PANDAS: dict[str, list[Any]] = {
    "lists": ITEMS,
    "tuples": [tuple(items) for items in ITEMS],
    "sets": [set(items) for items in ITEMS],
    "frozen sets": [frozenset(items) for items in ITEMS],
    "arrays": [np.array(items) for items in ITEMS],
    "arrays of objects": [np.array(items, dtype=object) for items in ITEMS],
    "all of them": [ITEMS[0], tuple(ITEMS[1]), set(ITEMS[2]), np.array(ITEMS[3]), frozenset(ITEMS[4])],
}
OTHERS: dict[str, Any] = {
    "pandas with Arrow types": pd.DataFrame({"b": pd.Series(ITEMS, dtype=pd.ArrowDtype(pa.list_(pa.string())))}),
    "polars": pl.DataFrame({"b": ITEMS}),
    "pyarrow": pa.table({"b": ITEMS}),
    "DuckDB": duckdb.from_arrow(pa.table({"b": ITEMS})),
}
ENGINES = ["embedded", pytest.param("dask", marks=pytest.mark.dask)]


def support(data: Any, engine: str = "embedded") -> Any:
    (verdict,) = pp.assess(data, KmAnonymity(m=2, items="b"), quasi_identifiers=[], engine=engine).measures
    return verdict.observed


def frame_of(values: list[Any]) -> pd.DataFrame:
    """A pandas frame with one object column; arrays of equal lengths stay arrays."""
    held = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        held[at] = value
    return pd.DataFrame({"b": pd.Series(held)})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("data", [*map(frame_of, PANDAS.values()), *OTHERS.values()], ids=[*PANDAS, *OTHERS])
def test_items_are_counted_alike(data: Any, engine: str) -> None:
    assert support(data, engine) == 2


@pytest.mark.parametrize("kind", PANDAS)
def test_they_become_the_lists_that_arrow_holds(kind: str) -> None:
    assert arrow_of(frame_of(PANDAS[kind]))["b"].to_pylist() == ITEMS


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_list_is_not_an_empty_one(missing: Any, engine: str) -> None:
    frame = frame_of([*ITEMS, [], missing])
    assert arrow_of(frame)["b"].to_pylist() == [*ITEMS, [], None]
    assert support(frame, engine) == 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("data", [frame_of([[], []]), pl.DataFrame({"b": [[], []]}), pa.table({"b": [[], []]})])
def test_lists_that_are_all_empty_are_lists(data: Any, engine: str) -> None:
    assert support(data, engine) is None


def test_a_set_is_written_in_the_order_of_its_items() -> None:
    words = [f"item {at}" for at in range(50)]
    backwards = list(reversed(words))
    frame = frame_of([set(words), set(backwards)])
    rows = arrow_of(frame)["b"].to_pylist()
    assert rows == [sorted(words)] * 2


@pytest.mark.parametrize(
    "values",
    [
        [["a"], "a"],
        [["a"], 1],
        [{"a": 1}, {"a": 1}],
        [["a", 1], ["a", 1]],
        [{"a", 1}, {"a", 1}],
        [[["a"]], [["a"]]],
        [[1, 2], [1, 2]],
        [np.array([["a"]]), np.array([["b"]])],
    ],
    ids=["text", "number", "mapping", "mixed list", "mixed set", "list of lists", "numbers", "matrix"],
)
def test_anything_but_a_list_of_texts_is_refused_by_the_name_of_its_column(values: list[Any]) -> None:
    with pytest.raises(DataError, match="column 'b'"):
        support(frame_of(values))


@pytest.mark.dask
def test_partitions_of_lists_agree_on_a_type() -> None:
    import dask
    import dask.dataframe as dd

    with dask.config.set({"dataframe.convert-string": False}):
        lists = dd.from_pandas(frame_of([None, None, ["a"], ("a",), [], set()]), npartitions=3)
    assert support(lists, "dask") == 2

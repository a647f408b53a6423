"""Columns come back in the types of the library that they came in, and no category that is gone is named."""

from __future__ import annotations

import datetime
import io
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import privpipe as pp
from privpipe.models import KAnonymity
from privpipe.transforms import AddNoise, Generalize, Sample, SuppressRecords, TopCode

SEED = bytes(range(32))
SIZES = ["small", "middle", "large"]


def people(rows: int = 60) -> pd.DataFrame:
    at = np.arange(rows)
    whole = pd.array([int(i % 7) for i in at], dtype="Int64")
    whole[3] = pd.NA
    return pd.DataFrame(
        {
            "age": at % 9 + 30,
            "town": pd.Categorical(
                ["Ashford" if i % 2 else "Barrow" for i in at], categories=["Ashford", "Barrow", "Zed"]
            ),
            "size": pd.Categorical.from_codes(at % 3, SIZES, ordered=True),
            "object": ["x"] * rows,
            "python": pd.array(["x", None] * (rows // 2), dtype="string[python]"),
            "arrow": pd.array(["x", None] * (rows // 2), dtype="string[pyarrow]"),
            "whole": whole,
            "flag": pd.array([True, None] * (rows // 2), dtype="boolean"),
            "short": (at % 5).astype("int8"),
            "when": pd.Series([datetime.datetime(2024, 1, 1 + i % 9) for i in at]).astype("datetime64[ns]"),
            "zone": pd.date_range("2024-01-01", periods=rows, tz="Europe/Berlin"),
            "paid": pd.array([Decimal("1.50")] * rows, dtype=object),
        }
    )


def same_types(out: pd.DataFrame, frame: pd.DataFrame, *, but: tuple[str, ...] = ()) -> None:
    for name in [name for name in frame if name not in ("town", "size", *but)]:
        assert out[name].dtype == frame[name].dtype, name


def test_untouched_columns_of_a_stage_keep_their_types() -> None:
    frame = people()
    out = TopCode(columns=["age"], at=33).apply(frame)
    same_types(out, frame)
    assert out["town"].cat.categories.tolist() == ["Ashford", "Barrow"]  # no one lives in Zed
    assert (out["size"].cat.categories.tolist(), out["size"].cat.ordered) == (SIZES, True)
    assert "Zed" in frame["town"].cat.categories


def test_masked_columns_keep_their_types_where_values_allow_it() -> None:
    frame = people()
    out = TopCode(columns=["whole", "short"], at=3).apply(frame)
    same_types(out, frame)
    noisy = AddNoise(columns=["whole", "short"], variance_ratio=0.1).apply(frame[["whole", "short"]], seed=SEED)
    assert noisy["whole"].dtype == "Float64"
    assert noisy["short"].dtype == "float64"


@pytest.mark.parametrize("kind", ["string[python]", "string[pyarrow]", object])
def test_numbers_recoded_to_text_are_of_the_text_type_in_use(kind: Any) -> None:
    frame = pd.DataFrame({"age": [31, 32, 41, 42], "town": pd.array(["a", "a", "b", "b"], dtype=kind)})
    out = recoded(frame, "age", {"intervals": {"widths": [10]}})
    assert out["age"].tolist() == ["30-39", "30-39", "40-49", "40-49"]
    assert out["age"].dtype == out["town"].dtype == frame["town"].dtype


def recoded(frame: Any, column: str, hierarchy: Any) -> Any:
    roles = pp.Roles(quasi_identifiers=[column])
    return Generalize(levels={column: 1}).apply(frame, roles=roles, hierarchies={column: hierarchy}, seed=SEED)


def test_a_recoded_category_is_a_category_of_labels() -> None:
    tree = {"rows": [["small", "up to middle", "*"], ["middle", "up to middle", "*"], ["large", "large", "*"]]}
    out = recoded(people(), "size", tree)
    assert sorted(out["size"].cat.categories) == ["large", "up to middle"]
    assert not out["size"].cat.ordered


def test_values_of_suppressed_records_are_not_categories() -> None:
    frame = pd.DataFrame({"age": [30] * 5 + [99], "town": pd.Categorical(["a"] * 5 + ["Hermit Rock"])})
    roles = pp.Roles(quasi_identifiers=["age"])
    stage = SuppressRecords(suppress_at_most=0.5)
    out = stage.apply(frame, roles=roles, guarantees=[KAnonymity(k=2)], seed=SEED)
    assert out["town"].cat.categories.tolist() == ["a"]
    assert b"Hermit Rock" not in pickle.dumps(out)
    policy = pp.Policy(
        roles=pp.Roles(quasi_identifiers=["age"], insensitive=["town"]), transform=[stage], guarantees=[KAnonymity(k=2)]
    )
    for made in (policy.apply(frame), pp.transform(frame, pp.plan(frame, policy))):
        assert made["town"].cat.categories.tolist() == ["a"]


def test_a_frame_of_no_rows_left_names_no_category() -> None:
    out = Sample(fraction=1e-9).apply(people(), seed=SEED)
    assert not len(out)
    assert out["town"].cat.categories.tolist() == []


def test_polars_enums_categories_and_numbers() -> None:
    frame = pl.DataFrame(
        {
            "age": pl.Series([30] * 5 + [99], dtype=pl.Int16),
            "size": pl.Series(
                ["small", "large"] * 2 + ["small", "hidden"], dtype=pl.Enum(["small", "hidden", "large"])
            ),
            "town": pl.Series(["a"] * 5 + ["Hermit Rock"], dtype=pl.Categorical),
            "paid": pl.Series([Decimal("1.50")] * 6, dtype=pl.Decimal(10, 2)),
            "when": pl.Series([datetime.datetime(2024, 1, 1)] * 6, dtype=pl.Datetime("ms")),
        }
    )
    roles = pp.Roles(quasi_identifiers=["age"])
    out = SuppressRecords(suppress_at_most=0.5).apply(frame, roles=roles, guarantees=[KAnonymity(k=2)], seed=SEED)
    assert out.schema["size"] == pl.Enum(["small", "large"])
    assert {name: kind for name, kind in out.schema.items() if name != "size"} == {
        name: kind for name, kind in frame.schema.items() if name != "size"
    }
    written = io.BytesIO()
    out.write_parquet(written)
    assert b"Hermit Rock" not in written.getvalue()
    assert b"hidden" not in written.getvalue()
    coded = TopCode(columns=["age"], at=40).apply(frame)
    assert coded.schema == frame.schema
    tree = {"rows": [["small", "s", "*"], ["hidden", "s", "*"], ["large", "large", "*"]]}
    assert recoded(frame, "size", tree).schema["size"] == pl.Enum(["large", "s"])
    assert recoded(frame, "town", {"redact": {}}).schema["town"] == pl.Categorical


def test_arrow_backed_pandas_comes_back_arrow_backed() -> None:
    frame = people()[["age", "whole", "arrow"]].convert_dtypes(dtype_backend="pyarrow")
    out = TopCode(columns=["age"], at=33).apply(frame)
    assert out.dtypes.to_dict() == frame.dtypes.to_dict()
    assert recoded(frame, "age", {"intervals": {"widths": [10]}})["age"].dtype == frame["arrow"].dtype


def test_an_index_names_no_value_that_is_gone() -> None:
    frame = people().set_index(pd.MultiIndex.from_product([["a", "b", "c"], range(20)], names=["ward", "bed"]))
    out = Sample(fraction=0.05).apply(frame, seed=SEED)
    assert [set(level) for level in out.index.levels] == [set(out.index.get_level_values(at)) for at in range(2)]
    ward = people(12).iloc[:3].set_index(pd.CategoricalIndex(["a", "b", "Hermit Rock"], name="ward"))
    assert TopCode(columns=["age"], at=31).apply(ward).index.equals(ward.index)
    kept = [Sample(fraction=0.4).apply(ward, seed=bytes(range(at, at + 32))).index for at in range(9)]
    assert any(0 < len(index) < 3 for index in kept)
    assert all(set(index.categories) == set(index) for index in kept if len(index))


def test_buffers_of_polars_texts_hold_no_text_that_is_gone() -> None:
    """Gathered texts share the memory of all of them, which IPC writes unchanged."""
    frame = pl.DataFrame(
        {"age": [30] * 50 + [99], "note": ["in the town of Ashford"] * 50 + ["Hermit Rock, the house"]}
    )
    roles = pp.Roles(quasi_identifiers=["age"])
    stage = SuppressRecords(suppress_at_most=0.5)
    out = stage.apply(frame, roles=roles, guarantees=[KAnonymity(k=2)], seed=SEED)
    written = io.BytesIO()
    out.write_ipc(written)
    assert len(out) == 50
    assert b"Hermit" not in written.getvalue()
    assert b"Hermit" not in pickle.dumps(out)

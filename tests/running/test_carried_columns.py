"""Nested columns are carried into a release as they are, and untouched columns keep the types of a Parquet source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError
from privpipe.roles import Roles
from tests.stages.carried_frames import NESTED, wide_table, wrong_cells

CHANGED = ("cost", "price", "small")


def policy(folder: Path, written: str = "parquet", **roles: str) -> pp.Policy:
    table = wide_table()
    (folder / "in").mkdir(exist_ok=True)
    for number in range(2):
        pq.write_table(table.slice(20 * number, 20), folder / "in" / f"part-{number}.parquet")
    columns = {name: "carried" if name in NESTED else "insensitive" for name in table.column_names}
    columns.update({"age": "quasi_identifier", **roles})
    return pp.Policy.from_dict(
        {
            "source": {"path": str(folder / "in"), "format": "parquet"},
            "columns": {name: {"role": role} for name, role in columns.items()},
            "transform": [
                {"rank_swap": {"columns": ["cost", "price"], "p": 0.3}},
                {"top_code": {"columns": ["small"], "at": 10}},
            ],
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "sink": {"path": str(folder / "published"), "format": written},
            "seed": {"insecure": 7},
            "allow_insecure_seed": True,
        }
    )


def released(result: Any) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(Path(result.path).glob("*.parquet")))


def test_a_release_keeps_types_and_nested_values(engine: Engine, tmp_path: Path) -> None:
    asked = policy(tmp_path)
    result = pp.release(asked, engine=engine)
    out = released(result)
    assert not wrong_cells(engine.name, out, wide_table(), masked=CHANGED)
    kinds = {name: str(out.schema.field(name).type) for name in CHANGED}
    assert kinds == {"cost": "double", "price": "decimal128(5, 2)", "small": "int64"}
    assert "100 % of the records have a value of `record` of their own" in " ".join(result.assessment.notes)
    assert pp.assess(result.path, asked, engine=engine).passed
    assert set(pq.read_metadata(next(Path(result.path).glob("*.parquet"))).metadata) == {b"ARROW:schema"}


def test_no_dictionary_of_a_release_names_a_value_that_is_gone(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    towns = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 4, pa.int8()), pa.array(["a", "b", "Atlantis"]))
    pq.write_table(pa.table({"age": [1] * 8, "town": towns}), tmp_path / "in" / "rows.parquet")
    result = pp.release(
        pp.Policy.from_dict(
            {
                "source": {"path": str(tmp_path / "in"), "format": "parquet"},
                "columns": {"age": {"role": "quasi_identifier"}, "town": {"role": "insensitive"}},
                "guarantees": [{"k_anonymity": {"k": 2}}],
                "sink": {"path": str(tmp_path / "published")},
            }
        ),
        engine=engine,
    )
    assert released(result).schema.field("town").type == pa.dictionary(pa.int8(), pa.string())
    assert all(b"Atlantis" not in path.read_bytes() for path in Path(result.path).rglob("*") if path.is_file())


def test_a_nested_column_needs_its_role(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'record' has the type struct.*`carried`"):
        pp.release(policy(tmp_path, record="insensitive"), engine=engine)
    with pytest.raises(DataError, match=r"'time' has the type time64.*`carried`"):
        pp.release(policy(tmp_path, time="quasi_identifier"), engine=engine)
    dropped = pp.release(policy(tmp_path, **dict.fromkeys(NESTED, "drop")), engine=engine)
    assert not set(NESTED) & set(released(dropped).column_names)


@pytest.mark.parametrize("written", ["csv", "json"])
def test_files_without_types_refuse_nested_columns_by_name(tmp_path: Path, written: str) -> None:
    with pytest.raises(UnsupportedError, match=r"'time', 'tags', 'numbers', 'record', 'pairs'"):
        pp.release(policy(tmp_path, written, bytes="drop"))
    assert not (tmp_path / "published").exists()


def test_a_carried_column_is_not_a_quasi_identifier(tmp_path: Path) -> None:
    with pytest.raises(pp.errors.PolicyError, match="declared carried; this needs `role: quasi_identifier`"):
        pp.Policy.from_dict(
            {
                "columns": {"age": {"role": "quasi_identifier"}, "tags": {"role": "carried"}},
                "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": ["age", "tags"]}}],
            }
        )
    assert Roles(quasi_identifiers=["age"], carried=["tags"]).of("tags") == "carried"

"""What leaves with a set of related tables: through stores as in folders, with nothing that names or joins persons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError
from privpipe.record import verify
from tests.object_store import BUCKET, ObjectStore, needs_object_store, object_store_at
from tests.relations.test_related_release import document, policy, tables_of
from tests.tiers import deep

VARIABLE, KEY = "PRIVPIPE_KEY_OF_SETS", "9a3e5b8f2046d1e7c3a95f80b2647d1c9a3e5b8f2046d1e7c3a95f80b2647d1c"
TABLES = ("patients", "visits")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in tables_of(persons=300).items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    needs_object_store()
    with object_store_at(monkeypatch) as store:
        yield store


@pytest.mark.parametrize("form", ["parquet", deep("csv")])
def test_a_set_is_published_to_a_store_through_its_pointer(store: ObjectStore, folder: Path, form: str) -> None:
    url, files = f"s3://{BUCKET}/clinic", store.files()
    pp.release(policy(folder, sink={"path": "published", "format": form}))
    first = pp.release(policy(folder, sink={"path": url, "format": form}, records=str(folder / "kept")))
    for name in TABLES:
        assert pp.read_release(url, table=name).equals(pp.read_release(folder / "published", table=name))
    assert sorted(path.rsplit("/", 1)[-1] for path in files.ls(f"{BUCKET}/clinic")) == [
        "_CURRENT",
        "read_CURRENT_first.md",
    ]
    second = pp.release(
        policy(folder, sink={"path": url, "format": form}, records=str(folder / "kept"), seed={"insecure": 8})
    )
    assert first.run_id != second.run_id
    assert json.loads(files.cat_file(f"{BUCKET}/clinic/_CURRENT"))["release"].endswith(second.run_id)
    home = f"{BUCKET}/.clinic.privpipe/releases/{second.run_id}"
    parts = {name: f"{home}/{name}/part-00000.{form}" for name in TABLES}
    assert all(files.exists(path) for path in parts.values())
    pp.fetch(url, folder / "copy")
    assert verify(str(folder / "copy")).sound
    for name in TABLES:
        assert pp.read_release(folder / "copy", table=name).equals(pp.read_release(url, table=name))
    whole = files.cat_file(parts["visits"])
    for damaged in (whole[:-1], files.cat_file(parts["patients"])):
        files.pipe_file(parts["visits"], damaged)
        with pytest.raises(DataError, match="not what its manifest states"):
            pp.read_release(url, table="patients")


def with_pseudonyms() -> dict[str, Any]:
    """Keys that readers join by."""
    stage = {"pseudonymise": {"columns": ["patient"], "domain": "patients", "key": {"from_env": VARIABLE}}}
    return {name: {**table, "transform": [stage]} for name, table in document()["tables"].items()}


def published(folder: Path, **changes: Any) -> dict[str, pa.Table]:
    pp.release(policy(folder, **changes))
    return {name: pp.read_release(folder / "published", table=name) for name in TABLES}


OTHERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": {"insecure": 8}},
    "policy": {"guarantees": [{"joint_k_anonymity": {"k": 3, "knows": {"visits": 1}}}, document()["guarantees"][1]]},
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_orders_of_two_releases_do_not_join_them(folder: Path, other: str) -> None:
    """Rows at one place in both are equal no more often than rows at any place."""
    first, second = published(folder), published(folder, **OTHERS[other])
    for name in TABLES:
        left, right = (
            list(zip(*(column.to_pylist() for column in each[name].columns), strict=True)) for each in (first, second)
        )
        assert sorted(left) == sorted(right)
        assert left != right
        shares = {row: left.count(row) / len(left) for row in set(left)}
        by_chance = sum(share**2 for share in shares.values())
        alike = np.mean([one == two for one, two in zip(left, right, strict=True)])
        assert abs(alike - by_chance) < 5 * (by_chance * (1 - by_chance) / len(left)) ** 0.5


def test_the_tables_of_a_release_have_orders_of_their_own(folder: Path) -> None:
    """Rows of one number of persons and one order of their keys: places do not join them."""
    people = pa.table(
        {"patient": list(range(300)), "age": [at % 3 for at in range(300)], "illness": ["flu", "gout"] * 150}
    )
    pq.write_table(people, folder / "patients.parquet")
    pq.write_table(
        pa.table({"patient": list(range(300)), "ward": [at % 3 for at in range(300)]}), folder / "visits.parquet"
    )
    found = published(folder)
    alike = np.mean(found["patients"]["age"].to_numpy() == found["visits"]["ward"].to_numpy())
    assert abs(alike - 1 / 3) < 5 * (2 / 9 / 300) ** 0.5


@pytest.mark.parametrize("other", OTHERS)
def test_pseudonyms_of_two_releases_join_them_only_by_a_key_that_is_kept(
    folder: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = with_pseudonyms()
    for kept in (False, True):
        monkeypatch.setenv(VARIABLE, KEY)
        first = published(folder, tables=tables)
        monkeypatch.setenv(VARIABLE, KEY if kept else KEY[::-1])
        second = published(folder, tables=tables, **OTHERS[other])
        keys = [{name: set(each[name]["patient"].to_pylist()) for name in TABLES} for each in (first, second)]
        assert all(each["visits"] <= each["patients"] for each in keys)
        assert keys[0]["patients"].isdisjoint(keys[1]["patients"]) != kept
        assert (keys[0]["patients"] == keys[1]["patients"]) == kept
        order = [each["patients"]["patient"].to_pylist() for each in (first, second)]
        assert order[0] != sorted(order[0])
        assert order[0] != order[1]


def test_what_is_public_of_a_set_names_no_one_and_counts_no_person(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    people, visits = tables_of(persons=300).values()
    lonely = pa.table({"patient": ["person 7"] * 77, "ward": ["a"] * 77}, visits.schema)
    pq.write_table(pa.concat_tables([visits, lonely]), folder / "visits.parquet")
    stages = [{"cap_rows": {"table": "visits", "at_most": 4}}, {"suppress_persons": {"at_most": 1.0}}]
    asked = [
        {"joint_k_anonymity": {"k": 3, "knows": {"visits": 2}}},
        {"joint_alpha": {"column": "patients.illness", "alpha": 0.83}},
    ]
    result = pp.release(policy(folder, tables=with_pseudonyms(), transform=stages, guarantees=asked))
    joint, alpha = result.assessment.verdicts
    assert people.num_rows == 300
    public = {path.name: path.read_text() for path in (folder / "published" / "_privpipe").iterdir()}
    assert {"manifest.json", "plan.json", "verdict.json", "report.html"} <= set(public)
    canaries = [KEY, KEY[:16], "person 7", "persons_capped", "suppressed_persons", "rows_removed", repr(alpha.observed)]
    for name, text in public.items():
        for canary in canaries:
            assert canary not in text, (name, canary)
        assert not re.search(r"person \d", text), name
        assert "observed 0" not in text, name
        assert not re.search(rf"observed {joint.observed}\b", text), name
    rows = [row for row in json.loads(public["verdict.json"])["guarantees"] if row["name"] != "no_identifiers"]
    assert len(rows) == len(asked)
    for row in rows:
        assert row["observed"] is None
        assert not row.get("failing_records")
        assert not row.get("failing_classes")
    for table in TABLES:
        for file in (folder / "published" / table).iterdir():
            assert file.suffix == ".parquet"
            kept = pq.ParquetFile(file).schema_arrow
            assert set(kept.metadata or {}) == set()
            assert all(not field.metadata for field in kept)
            content = file.read_bytes()
            assert not any(canary.encode() in content for canary in (KEY, "person 7", "privpipe/", str(folder)))

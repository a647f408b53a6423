"""An S3-compatible store on the loopback address, and a policy over four records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.object_store import BUCKET, FaultyProxy, ObjectStore, needs_object_store, object_store_at
from tests.store_trials import SEED


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Found by every client of this process."""
    needs_object_store()
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", SEED)
    with object_store_at(monkeypatch) as store:
        yield store


@pytest.fixture
def proxy(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Clients go through it."""
    with FaultyProxy(store) as proxy:
        for name, value in {**store.environment(proxy.url), "AWS_MAX_ATTEMPTS": "1"}.items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def people() -> pa.Table:
    return pa.table({"zip": ["a", "a", "b", "b"], "age": [31, 32, 33, 34]})


@pytest.fixture
def document(tmp_path: Path, people: pa.Table, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """From a file of this machine to the store."""
    monkeypatch.setenv("PRIVPIPE_TEST_SEED", SEED)
    pq.write_table(people, tmp_path / "in.parquet")
    return {
        "source": {"path": str(tmp_path / "in.parquet")},
        "columns": {"zip": {"role": "quasi_identifier"}, "age": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"path": f"s3://{BUCKET}/people"},
        "records": str(tmp_path / "kept"),
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }

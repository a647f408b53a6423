"""A process that releases again and again holds no more handles, threads and memory than after the first few."""

from __future__ import annotations

from pathlib import Path

import pytest

import privpipe as pp
from tests.engines.lakes import icebergs
from tests.running.iceberg.tables import read_again
from tests.running.open_handles import SINKS, growth, sink_policy

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles are counted by /proc")
WARM = 3


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a catalogue of Iceberg, which the environment names."""
    for name, value in icebergs.environment(tmp_path / "lake").items():
        monkeypatch.setenv(name, value)
    return tmp_path


def prepared(place: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> pp.Policy:
    if "iceberg" in sink:
        pytest.importorskip("pyiceberg")
        pytest.importorskip("sqlalchemy")
        read_again(monkeypatch)
        icebergs.catalogue(place / "lake").close()
    if "delta" in sink:
        pytest.importorskip("deltalake")
    return sink_policy(place, sink)


@pytest.mark.parametrize("sink", SINKS)
def test_releases_hold_no_more_handles_and_threads(place: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = prepared(place, sink, monkeypatch)
    grown = growth(lambda: pp.release(policy), WARM, 6)
    assert grown.handles == 0
    assert grown.threads <= 12  # of pools of libraries, which fill up with use and end when they idle


@pytest.mark.parametrize("sink", ["iceberg", "sqlite", "parquet"])
def test_looking_at_a_sink_holds_no_handle(place: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = prepared(place, sink, monkeypatch)
    pp.release(policy)
    assert growth(lambda: pp.release(policy, dry_run=True), 2, 3).handles == 0


def test_reading_an_iceberg_table_holds_no_handle(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = prepared(place, "iceberg", monkeypatch)
    pp.release(policy)
    source = {"iceberg": "db.rows", "catalog": "lake"}
    read = policy.replaced(source=pp.Policy.from_dict({"version": 1, "source": source, **_rest()}, place).source)
    assert growth(lambda: pp.assess(None, read), 2, 4).handles == 0


def _rest() -> dict[str, object]:
    return {"columns": {"town": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": 2}}]}


@pytest.mark.rare
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_many_releases_hold_no_more(place: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that keep every version have fewer: each has to be listed by the next."""
    policy = prepared(place, sink, monkeypatch)
    times = 200 if "iceberg" in sink or "appended" in sink else 1_000
    grown = growth(lambda: pp.release(policy), 20, times)
    assert grown.handles == 0
    assert grown.threads <= 40  # as above
    assert grown.megabytes < 60

"""A process that releases again and again holds no more handles, threads and memory than after the first few."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running.open_handles import SINKS, Held, growth
from tests.tiers import deep

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles are counted by /proc")
NEEDED = ("pyiceberg", "sqlalchemy", "deltalake")


@pytest.fixture(autouse=True)
def packages() -> None:
    for name in NEEDED:
        pytest.importorskip(name)


def held(grown: dict[str, Held], threads: int, megabytes: float = float("inf")) -> dict[str, Held]:
    """Threads are those of pools of libraries, which fill up with use and end when they idle."""
    return {
        sink: more
        for sink, more in grown.items()
        if more.handles or more.threads > threads or more.megabytes >= megabytes
    }


@pytest.mark.deep
def test_releases_hold_no_more_handles_and_threads(tmp_path: Path) -> None:
    assert held(growth(tmp_path, dict.fromkeys(SINKS, "release"), 3, 6), threads=12) == {}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "sinks"),
    [deep("look", ["iceberg", "sqlite", "parquet"], id="dry runs"), pytest.param("read", ["iceberg"], id="reading")],
)
def test_a_look_at_a_sink_holds_no_handle(tmp_path: Path, kind: str, sinks: list[str]) -> None:
    assert held(growth(tmp_path, dict.fromkeys(sinks, kind), 2, 3), threads=12) == {}


@pytest.mark.rare
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_many_releases_hold_no_more(tmp_path: Path, sink: str) -> None:
    """Tables that keep every version have fewer: each has to be listed by the next."""
    times = 200 if "iceberg" in sink or "appended" in sink else 1_000
    assert held(growth(tmp_path, {sink: "release"}, 20, times), threads=40, megabytes=60) == {}

"""A run that is killed at any step of publishing into a Delta table leaves the version before, or its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running.delta_kills import DeltaKills
from tests.running.delta_releases import Releases

pytest.importorskip("deltalake", reason="needs deltalake")


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_readers_see_whole_judged_releases_whenever_a_run_is_killed(tmp_path: Path, mode: str) -> None:
    kills = DeltaKills(Releases(tmp_path / "lake"), mode)
    with kills.running():
        assert kills.run() == 0
        codes = [kills.run(at) for at in (3, 12, 20, 26, 32)]
        assert -9 in codes
        kills.settled()
        assert kills.run(safe=False) == 5
        assert kills.run(kind="withdrawn") == 4
        kills.run(44, kind="withdrawn")
        kills.settled()
    assert kills.found == []
    assert kills.reads


@pytest.mark.deep
def test_a_first_release_that_is_killed_is_whole_or_none(tmp_path: Path) -> None:
    for number, at in enumerate((10, 24, 30)):
        kills = DeltaKills(Releases(tmp_path / f"lake{number}"), "append")
        with kills.running():
            assert kills.run(at) == -9
            kills.settled()
        assert kills.found == []

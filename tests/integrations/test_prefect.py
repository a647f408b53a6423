"""The Prefect example, run by Prefect with a server of its own, twice in a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privpipe.scheduled import published_at

pytest.importorskip("prefect", reason="prefect is not installed here; make test-integrations")

FLOWS = ("adult_public_use", "adult_by_hand", "adult_nowhere")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prefect's own folder, kept over the runs."""
    return tmp_path_factory.mktemp("prefect")


def flow(tool: Any, home: Path, pipelines: Path, name: str, **more: str) -> Any:
    env = {
        "PREFECT_HOME": str(home / "home"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "200",
        "PRIVPIPE_PUBLISHED": str(home / "published"),
        "PRIVPIPE_RETRY_SECONDS": "0",
        **more,
    }
    return tool("python", pipelines / "prefect" / "flows.py", name, env=env, cwd=home)


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_three_ends(tool: Any, home: Path, pipelines: Path, time: str) -> None:
    before = published_at(str(home / "published" / "adult"))
    good, refused, broken = (flow(tool, home, pipelines, name) for name in FLOWS)
    assert good.returncode == 0, good.stderr[-3000:]
    assert "records at" in good.stdout
    after = published_at(str(home / "published" / "adult"))
    assert after is not None
    assert before is None or before.run_id != after.run_id
    told = refused.stdout + refused.stderr
    assert (refused.returncode, told.count("AwaitingRetry"), told.count("step 1 of 7")) == (1, 0, 1)
    assert "k_anonymity: required 5, achieved 1" in told
    assert not (home / "published" / "adult-by-hand").exists()
    told = broken.stdout + broken.stderr
    assert broken.returncode == 1
    assert told.count("Retry 1/2") == told.count("Retry 2/2") == 1, told[-3000:]


def test_a_sink_in_the_home_of_prefect_is_an_error(tool: Any, home: Path, pipelines: Path) -> None:
    ended = flow(tool, home, pipelines, "adult_public_use", PRIVPIPE_PUBLISHED=str(home / "home" / "published"))
    assert ended.returncode == 1
    assert "is in the home of Prefect" in ended.stdout + ended.stderr


def test_what_prefect_kept_holds_no_cell(home: Path, holds_no_cell: Callable[[Path], None]) -> None:
    holds_no_cell(home / "home")

"""The Dagster example, materialized by Dagster itself with its own processes, twice in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privpipe.scheduled import published_at

dg = pytest.importorskip("dagster", reason="dagster is not installed here; make test-integrations")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dagster's own folder, kept over the runs."""
    folder: Path = tmp_path_factory.mktemp("dagster")
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    return folder


def materialize(tool: Any, home: Path, file: Path, assets: str, **more: str) -> tuple[int, Counter[str], str]:
    """Exit code, number of each event, and all output."""
    env = {
        "DAGSTER_HOME": str(home / "home"),
        "PRIVPIPE_PUBLISHED": str(home / "published"),
        "PRIVPIPE_RETRY_SECONDS": "0",
        **more,
    }
    ran = tool("dagster", "asset", "materialize", "-f", file, "--select", assets, env=env, cwd=home)
    told = ran.stdout + ran.stderr
    # What its processes print runs together; what it keeps does not.
    with dg.DagsterInstance.from_config(str(home / "home")) as instance:
        (run,) = instance.get_run_ids(limit=1)
        kept = [record.dagster_event for record in instance.all_logs(run)]
    return ran.returncode, Counter(event.event_type_value for event in kept if event is not None), told


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_three_ends(tool: Any, home: Path, pipelines: Path, time: str) -> None:
    file, published = pipelines / "dagster" / "definitions.py", home / "published" / "adult"
    before = published_at(str(published))
    code, events, told = materialize(tool, home, file, "adult_public_use*")
    assert (code, events[dg.DagsterEventType.RUN_SUCCESS.value], events["ASSET_CHECK_EVALUATION"]) == (0, 1, 1), told[
        -3000:
    ]
    assert "the release is out" in told
    after = published_at(str(published))
    assert after is not None
    assert before is None or before.run_id != after.run_id

    code, events, told = materialize(tool, home, file, "adult_by_hand")
    assert (code, events["STEP_START"], events["STEP_UP_FOR_RETRY"], events["STEP_FAILURE"]) == (1, 1, 0, 1)
    assert "k_anonymity: required 5, achieved 1" in told
    assert not (home / "published" / "adult-by-hand").exists()

    code, events, told = materialize(tool, home, file, "adult_nowhere")
    assert (code, events["STEP_UP_FOR_RETRY"], events["STEP_RESTARTED"], events["STEP_FAILURE"]) == (1, 2, 2, 1)
    assert published_at(str(published)) == after


def test_a_failed_check_keeps_what_follows_from_running(tool: Any, home: Path, pipelines: Path) -> None:
    code, _, told = materialize(tool, home, pipelines / "dagster" / "definitions.py", "adult_raw*")
    assert code == 1
    assert "the raw table is out" not in told


def test_a_sink_in_the_home_of_dagster_is_an_error(tool: Any, home: Path, pipelines: Path) -> None:
    link = home / "innocent"
    link.symlink_to(home / "home")
    file = pipelines / "dagster" / "definitions.py"
    code, events, told = materialize(tool, home, file, "adult_public_use", PRIVPIPE_PUBLISHED=str(link))
    assert (code, events["STEP_UP_FOR_RETRY"]) == (1, 0)
    assert "is in the home of Dagster" in told
    assert not (home / "home" / "adult").exists()


def test_what_dagster_kept_holds_no_cell(home: Path, holds_no_cell: Callable[[Path], None]) -> None:
    holds_no_cell(home / "home")

"""A run that is killed leaves readers the old release or the new one, and the next run nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRIALS = Path(__file__).with_name("kill_trials.py")


@pytest.mark.deep
def test_readers_see_whole_releases_whenever_a_run_is_killed(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(TRIALS), str(tmp_path / "place"), "0", "1"],
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    told = json.loads(run.stdout)
    assert told["violations"] == []
    assert (told["trials"], told["killed"]) == (8, 8)
    assert told["looks"] > 3

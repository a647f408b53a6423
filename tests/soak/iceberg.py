"""Releases into Iceberg tables that are killed at a random instant, while a reader polls."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from trials import Table

__all__ = ["soak_iceberg"]


def soak_iceberg(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many runs, each ended by SIGKILL."""
    script = project / "tests" / "running" / "iceberg" / "kill_trials.py"
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        run = subprocess.run(
            [sys.executable, str(script), f"{place}/place", str(trials), str(seed)], capture_output=True, text=True
        )
    told = json.loads(run.stdout) if run.returncode == 0 else {"trials": 0, "violations": [run.stderr[-2000:]]}
    for at in range(max(told["trials"], 1)):
        table.add("SIGKILL during a run: Iceberg", told["violations"] if at == 0 else [], f"{seed}/{at}")

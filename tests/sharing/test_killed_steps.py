"""Three holders over folders, killed before every file that they write: repeated steps end in the same table."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.sharing.conftest import Run

pytestmark = pytest.mark.deep

STEP = """
import os, signal, sys
from pathlib import Path
import privpipe as pp
from privpipe.sharing import Participant, RunDocument, joint_policy
from privpipe.signing import read_private

folder, name, step, kill = Path(sys.argv[1]), *sys.argv[2:]
document, key, work = RunDocument.load(folder / "run.yaml"), read_private(folder / name / "key"), folder / name / "work"

def progress(now):
    if str(now) == kill:
        os.kill(os.getpid(), signal.SIGKILL)

own = Participant(document=document, name=name, key=key, work=work)
if step == "split":
    own.split(folder / name / "records.parquet", progress=progress)
elif step == "sum":
    own.add_up(progress=progress)
else:
    policy = joint_policy(document, work, str(folder / "out"), key=key)
    pp.release(policy, batch=document.nonce, progress=progress)
"""


def done(made: Run, name: str, step: str, kill: str) -> bool:
    """Whether the step ended; it was killed otherwise."""
    command = [sys.executable, "-c", STEP, str(made.folder), name, step, kill]
    code = subprocess.run(command, timeout=300, stderr=subprocess.DEVNULL).returncode
    assert code in (0, -signal.SIGKILL)
    return code == 0


def test_every_step_is_repeated(run: Callable[..., Run]) -> None:
    made = run()
    for kill in ("count", "keep", "north-to-south.share", "north-to-west.share"):
        assert not done(made, "north", "split", kill)
    assert not done(made, "south", "split", "keep")
    assert not done(made, "west", "split", "west-to-south.share")
    seen = {path.name: path.read_bytes() for path in made.document.folder.iterdir()}
    assert set(seen) == {"north-to-south.share", "west-to-north.share"}  # sent before the kill
    for name in made.tables:
        made.split(name)
    for path, data in seen.items():
        assert (made.document.folder / path).read_bytes() == data
    for name in made.tables:
        assert not done(made, name, "sum", f"{name}.sum")
        assert made.add_up(name)
    target = made.folder / "out"
    for kill in ("write", "judge", "publish"):
        assert not done(made, "north", "combine", kill)
        assert not target.exists()
    assert done(made, "north", "combine", "")
    assert done(made, "north", "combine", "write")  # published once
    shown = pd.read_parquet(target / "joint.parquet").set_index(["region", "age"])
    cells = pd.concat(made.tables.values()).groupby(["region", "age"])
    for cell, rows in cells:
        assert shown["count"][cell] == rows["person"].nunique()
        assert float(shown["sum_cost"][cell]) == pytest.approx(rows["cost"].sum())
    left = [path.name for path in made.folder.rglob("*.new")]
    assert left == []


def test_kills_at_any_moment(run: Callable[..., Run], tmp_path: Path) -> None:
    """Killed after some time instead: what is in the exchange folder is whole, or not there."""
    import time

    made = run()
    made.split("south")
    made.split("west")
    for wait in (0.3, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0):
        command = [sys.executable, "-c", STEP, str(made.folder), "north", "split", ""]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            time.sleep(wait)
            process.kill()
    made.split("north")
    for name in made.tables:
        assert made.add_up(name)

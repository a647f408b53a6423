"""What is spilled is in one private folder a process: gone at its end, however it ends, or with the next run."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.engines import Source, open_engine
from privpipe.errors import EngineError
from privpipe.private_files import leftovers, new_folder, remove_folder, remove_leftovers, scratch_folder
from privpipe.private_files.ownership import OWNER, this_process
from tests.tiers import deep, deep_beyond

NAME = re.compile(rf"privpipe-{os.geteuid()}-(\d+)-\d+-\w+")

RUN = """
import os, sys
from privpipe.running import verbs as facade
from privpipe.cli.app import main

policy, engine, at, number = sys.argv[1:]
release_with = facade.release_with

def seen(folder):
    return [(path, oct(os.lstat(path).st_mode & 0o7777), os.path.isdir(path))
            for root, folders, files in os.walk(folder) for path in (os.path.join(root, n) for n in folders + files)]

def told(running, rules, *, progress, **more):
    def tell(step):
        if step == "judge":
            temp = os.environ["TMPDIR"]
            print("SEEN", repr([each for each in seen(temp) if "privpipe-" in each[0]]), flush=True)
        if step == at:
            os.kill(os.getpid(), int(number))
    return release_with(running, rules, progress=tell, **more)

if __name__ == "__main__":
    import privpipe.engines.embedded.stored_rows as storing
    storing.MEMORY_BYTES = 10  # everything spills
    facade.release_with = told
    sys.argv = ["privpipe", "release", policy, "--engine", engine]
    main()
"""


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temp [1]"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    rows = pa.table({"zip": [f"{n % 50:02}" for n in range(4000)], "income": [float(n % 977) for n in range(4000)]})
    pq.write_table(rows, tmp_path / "in.parquet")
    document = {
        "version": 1,
        "source": {"path": "in.parquet"},
        "columns": {"zip": {"role": "quasi_identifier"}, "income": {"role": "insensitive", "type": "number"}},
        "transform": [{"rank_swap": {"columns": ["income"], "p": 0.1}}],
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"path": "published/people"},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        "engines": {
            "embedded": {"threads": 2},
            "dask": {"scheduler": "distributed", "workers": 2, "driver_bytes": 0},
            "spark": {"master": "local[2]", "driver_bytes": 0},
        },
    }
    path = tmp_path / "release.yaml"
    path.write_text(json.dumps(document))
    return path


def ran(policy: Path, engine: str, at: str, number: int) -> subprocess.CompletedProcess[str]:
    script = policy.with_name("run.py")
    script.write_text(RUN)
    command = [sys.executable, str(script), str(policy), engine, at, str(number)]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup a child would inherit that it is ignored
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        signal.signal(signal.SIGHUP, before)


def own(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if NAME.fullmatch(path.name)]


def spilled(run: subprocess.CompletedProcess[str]) -> list[tuple[str, str, bool]]:
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("SEEN ")]
    found: list[tuple[str, str, bool]] = eval(line.removeprefix("SEEN "))
    return found


ENGINES = [
    "embedded",
    pytest.param("dask", marks=[pytest.mark.dask, pytest.mark.deep]),
    pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep]),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("number", "code", "name"),
    [
        (signal.SIGTERM, 143, "SIGTERM"),
        deep(signal.SIGHUP, 129, "SIGHUP"),
        deep(signal.SIGINT, 130, "interrupted"),
    ],
    ids=["term", "hup", "int"],
)
@pytest.mark.parametrize("at", deep_beyond(1, ("judge again", "judge")))
def test_a_signal_ends_a_run_cleanly(
    engine: str, number: int, code: int, name: str, at: str, temp: Path, policy: Path
) -> None:
    if engine != "embedded":
        document = json.loads(policy.read_text())
        policy.write_text(json.dumps({**document, "transform": []}))
    if engine != "embedded" and (at != "judge again" or number != signal.SIGTERM):
        pytest.skip("what differs between engines is shown by the last step and one signal")
    run = ran(policy, engine, at, number)
    assert run.returncode == code, run.stderr
    assert name in run.stderr
    assert "nothing was published" in run.stderr
    assert not (policy.parent / "published" / "people").exists()
    assert own(temp) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_spilled_is_private_and_goes_with_the_run(engine: str, temp: Path, policy: Path) -> None:
    run = ran(policy, engine, "never", 0)
    assert run.returncode == 0, run.stderr
    found = spilled(run)
    tops = {Path(path).relative_to(temp).parts[0] for path, _, _ in found}
    assert len(tops) == 1, "one folder a process"
    assert NAME.fullmatch(tops.pop())
    assert {mode for _, mode, folder in found if folder} == {"0o700"}
    assert {mode for _, mode, folder in found if not folder} == {"0o600"}
    assert any(Path(path).name != OWNER and not folder for path, _, folder in found) or engine == "dask"
    assert own(temp) == []


@pytest.mark.deep
def test_what_a_killed_run_left_goes_with_the_next(temp: Path, policy: Path) -> None:
    run = ran(policy, "embedded", "judge", signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL
    (left,) = own(temp)
    assert [each.path for each in leftovers([temp])] == [left]
    assert list(left.rglob("*.parquet"))
    assert not (policy.parent / "published" / "people").exists()
    assert ran(policy, "embedded", "never", 0).returncode == 0
    assert own(temp) == []


@pytest.mark.deep
def test_doctor_shows_and_cleans(temp: Path, policy: Path) -> None:
    ran(policy, "embedded", "judge", signal.SIGKILL)
    (left,) = own(temp)

    def doctor(*options: str) -> Mapping[str, Any]:
        command = [sys.executable, "-m", "privpipe", "doctor", "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        (found,) = [each for each in json.loads(done.stdout)["checks"] if each["name"] == "temporary files"]
        return dict(found)

    left.rename(left.with_name(left.name + "x"))
    moved = policy.parent / "spill"
    moved.mkdir()
    (temp / (left.name + "x")).rename(moved / left.name)
    assert doctor()["state"] == "ok", "another folder is looked at when it is named"
    seen = doctor("--temp", str(moved))
    assert (seen["state"], str(left.name) in seen["found"], "--clean" in seen["remedy"]) == ("warning", True, True)
    assert doctor("--temp", str(moved), "--clean")["state"] == "ok"
    assert list(moved.iterdir()) == []


def test_a_living_run_keeps_its_folder(temp: Path, tmp_path: Path) -> None:
    """Its number and start tell, and the lock: a process of another container is not seen, and holds the lock."""
    place = tmp_path / "place"
    folder = new_folder("purpose", place)
    assert remove_leftovers([place]) == []
    disguised = folder.parent.with_name(f"privpipe-{os.geteuid()}-4194305-1-abcdefgh")  # no process has this number
    folder.parent.rename(disguised)
    assert leftovers([place]) == []
    assert remove_leftovers([place]) == []
    disguised.rename(folder.parent)
    remove_folder(folder)
    assert list(place.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux tells when a process began")
def test_a_living_process_keeps_its_folder_without_a_lock_too(tmp_path: Path) -> None:
    """As on a file system that knows no locks; a process that began at another time has only the same number."""
    began = this_process().rpartition("-")[2]
    for start in (began, "1"):
        folder = tmp_path / f"privpipe-{os.geteuid()}-{os.getpid()}-{start}-abcdefgh"
        folder.mkdir()
        (folder / OWNER).touch()
    assert [path.name.split("-")[3] for path in remove_leftovers([tmp_path])] == ["1"]


def test_only_what_is_ours_and_abandoned_is_removed(tmp_path: Path) -> None:
    dead = f"privpipe-{os.geteuid()}-4194305-1-"
    for name in (f"{dead}abandoned", f"{dead}justmade", "privpipe-notours", f"privpipe-{os.geteuid() + 1}-4194305-1-x"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{dead}abandoned" / OWNER).touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / OWNER).touch()
    (tmp_path / f"{dead}alink").symlink_to(tmp_path / "elsewhere")
    assert [path.name for path in remove_leftovers([tmp_path])] == [f"{dead}abandoned"]
    long_ago = time.time() - 3600
    os.utime(tmp_path / f"{dead}justmade", (long_ago, long_ago))
    assert [path.name for path in remove_leftovers([tmp_path])] == [f"{dead}justmade"]
    assert (tmp_path / "elsewhere" / OWNER).exists()


def test_the_process_has_one_folder_that_goes_with_its_last_user(tmp_path: Path) -> None:
    with scratch_folder("one", tmp_path) as one, scratch_folder("two", tmp_path) as two:
        assert one.parent == two.parent
        assert stat.S_IMODE(one.parent.stat().st_mode) == stat.S_IMODE(one.stat().st_mode) == 0o700
        (one / "file").touch()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_removes_nothing_of_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from privpipe.private_files import new_folder, remove_folder\n"
        "folder = new_folder('parent', sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    remove_folder(folder)\n"
        "    own = new_folder('child', sys.argv[1])\n"
        "    assert own.parent != folder.parent\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(folder.is_dir(), len(os.listdir(sys.argv[1])))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "True 1\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_anybody_may_rename_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(EngineError, match="any user may rename"):
        open_engine("embedded", {"temp_directory": str(place)})
    place.chmod(0o1777)
    with open_engine("embedded", {"temp_directory": str(place)}) as engine:
        assert engine.count(engine.scan(Source(data=pa.table({"a": [1]})))) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_that_was_swapped_is_refused(tmp_path: Path) -> None:
    with scratch_folder("one", tmp_path) as one:
        os.chown(one.parent, 65534, 65534)
        with pytest.raises(EngineError, match="belongs to another user"):
            new_folder("two", tmp_path)
        os.chown(one.parent, 0, 0)


def test_a_full_place_is_an_error_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match="no folder for temporary files.*set TMPDIR"):
        open_engine("embedded", {"temp_directory": str(tmp_path / "file" / "below")})

"""``python kill_trials.py FOLDER TRIALS SEED``: killed releases into Iceberg tables, under the eyes of a reader.

With 0 trials a run is killed at each step of publishing; else so many runs are killed at random instants. Each run is
a child of a process that has opened nothing. A reader with pyiceberg alone polls all the while. Prints a line of JSON:
trials, how many were killed, releases that came through, looks of the reader, and what was violated.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.catalog
import pyiceberg.catalog.sql
import pyiceberg.exceptions

import privpipe as pp
import privpipe.running.verbs
import privpipe.sinks.iceberg

__all__ = ["main"]

CATALOG = "lake"
SIZES = (200, 300, 400)
MODES = ("replace", "append")
SEED = "7d1c9a3e5b8f2046d1e7c3a95f80b264"
POINTS = (
    "publish",
    ("privpipe.sinks.iceberg", "copied", 0, True),
    ("privpipe.sinks.iceberg", "copied", 2, False),
    ("Commit", "prepare", 0, False),
    ("Commit", "prepare", 0, True),
    ("Commit", "done", 0, False),
    ("Commit", "done", 0, True),
    "judge again",
)
"""Steps of a run, and calls of the sink: where, which, how many are let pass, whether after it."""
LONGEST = 60.0


def main(folder: str, trials: int, seed: int) -> dict[str, Any]:
    """Kill so many runs."""
    place = Path(folder)
    _prepare(place)
    draw, told = random.Random(seed), {"trials": 0, "killed": 0, "published": 0, "looks": 0, "violations": []}
    reader = subprocess.Popen([sys.executable, __file__, "--read", folder])
    try:
        for mode in MODES:
            _told(place, told, mode, _in_child(place, lambda mode=mode: _release(place, mode, 0)), f"first {mode}")
        length = _length(place)
        plans: list[tuple[str, Any]] = [(MODES[at % 2], point) for at, point in enumerate(POINTS)]
        if trials:
            plans = [(MODES[at % 2], draw.uniform(0, 1.1 * length)) for at in range(trials)]
        for at, (mode, point) in enumerate(plans):
            _trial(place, told, mode, point, at)
    finally:
        (place / "stop").touch()
        try:
            reader.wait(LONGEST)
        except subprocess.TimeoutExpired:
            reader.kill()
    seen = json.loads((place / "read.json").read_text())
    told["looks"] = seen["looks"]
    told["violations"] += seen["violations"]
    return told


def _trial(place: Path, told: dict[str, Any], mode: str, point: Any, at: int) -> None:
    size = 0 if mode == "append" else at % len(SIZES)
    timed = isinstance(point, float)
    code = _in_child(place, lambda: _release(place, mode, size, None if timed else point), point if timed else None)
    told["trials"] += 1
    told["killed"] += code == -signal.SIGKILL
    told["published"] += code == 0
    what = f"{mode} {point} [{at}]"
    if code not in (0, -signal.SIGKILL):
        told["violations"].append(f"{what}: ended with {code}")
    if at % 4 == 3:  # the next run cleans up
        code = _in_child(place, lambda: _release(place, mode, size))
        _told(place, told, mode, code, f"after {what}")
        _in_child(place, lambda: _look_for_orphans(place))
        told["violations"] += [f"after {what}: {each}" for each in json.loads((place / "orphans.json").read_text())]


def _told(place: Path, told: dict[str, Any], mode: str, code: int, what: str) -> None:
    if code:
        told["violations"].append(f"{what}: a {mode} that no one killed ended with {code}")


def _prepare(place: Path) -> None:
    for name, value in _settings(place).items():
        os.environ[f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}"] = value
    pyiceberg.catalog._ENV_CONFIG = type(pyiceberg.catalog._ENV_CONFIG)()
    (place / "lake").mkdir(parents=True)
    (place / "tmp").mkdir()
    os.environ["TMPDIR"] = str(place / "tmp")
    for size in range(len(SIZES)):
        (place / str(size)).mkdir()
        pq.write_table(_rows(size), place / str(size) / "source.parquet")
    _in_child(place, lambda: _catalogue(place).create_namespace("db"))


def _settings(place: Path) -> dict[str, str]:
    lake = place / "lake"
    return {"type": "sql", "uri": f"sqlite:///{lake}/catalogue.db?timeout=30", "warehouse": f"file://{lake}/warehouse"}


def _catalogue(place: Path) -> Any:
    return pyiceberg.catalog.load_catalog(CATALOG, **_settings(place))


def _rows(size: int) -> pa.Table:
    at = range(SIZES[size])
    return pa.table({"age": [20 + each % 10 for each in at], "size": [size] * SIZES[size]})


def _release(place: Path, mode: str, size: int, point: Any = None) -> None:
    """Publish the rows of a size; killed at a point."""
    document = {
        "source": {"path": str(place / str(size) / "source.parquet")},
        "columns": {"age": {"role": "quasi_identifier"}, "size": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 5}}],
        "sink": {"iceberg": f"db.{mode}", "catalog": CATALOG, "mode": mode},
        "seed": SEED,
    }
    if isinstance(point, tuple):
        _arm(*point)

    def progress(step: str) -> None:
        if step == point:
            os.kill(os.getpid(), signal.SIGKILL)

    pp.release(pp.Policy.from_dict(document, place), progress=progress)


def _arm(owner: str, name: str, passing: int, late: bool) -> None:
    target = privpipe.sinks.iceberg if "." in owner else getattr(privpipe.sinks.iceberg, owner)
    step, calls = getattr(target, name), []

    def killed(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == passing + 1:
            if late:
                step(*arguments, **named)
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments, **named)

    setattr(target, name, killed)


def _in_child(place: Path, work: Callable[[], object], kill_after: float | None = None) -> int:
    """How a child that does this work ends; a signal as a negative number."""
    pid = os.fork()
    if pid == 0:
        with (place / "errors.txt").open("a") as errors:
            os.dup2(errors.fileno(), 2)
        code = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                work()
            code = 0
        except BaseException as error:  # noqa: BLE001 a child ends here
            print(type(error).__name__, error, file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    until, started = time.monotonic() + LONGEST, time.monotonic()
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if kill_after is not None and time.monotonic() - started >= kill_after:
            os.kill(pid, signal.SIGKILL)
            kill_after = None
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 99


def _length(place: Path) -> float:
    started = time.monotonic()
    _in_child(place, lambda: _release(place, "replace", 0))
    return time.monotonic() - started


def _look_for_orphans(place: Path) -> None:
    """What is in the warehouse and belongs to no snapshot, and what of a run is left next to the policy."""
    known: set[str] = set()
    catalogue = _catalogue(place)
    for mode in MODES:
        table = catalogue.load_table(f"db.{mode}")
        known.update([table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)])
        for snapshot in table.snapshots():
            known.add(snapshot.manifest_list)
            documents = snapshot.summary.additional_properties["privpipe.documents"]
            named = ("verdict.json", "manifest.json", "plan.json", "report.html")
            known.update(f"{documents}/{name}" for name in named)
            for manifest in snapshot.manifests(table.io):
                known.add(manifest.manifest_path)
                known.update(e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, False))
    files = {f"file://{path}" for path in (place / "lake" / "warehouse").rglob("*") if path.is_file()}
    # Only the mode that ran last has cleaned up after itself.
    found = [f"orphan {path}" for path in sorted(files - known) if not _awaits(place, path)]
    found += [f"missing {path}" for path in sorted(known - files)]
    (place / "orphans.json").write_text(json.dumps(found))


def _awaits(place: Path, path: str) -> bool:
    mode = path.split("/warehouse/db/")[1].split("/")[0]
    return any((place / f".lake.db.{mode}.privpipe").glob("pending-*"))


def _read(place: Path) -> None:
    """Read both tables until stopped; every reading is a complete judged release."""
    looks, violations = 0, []
    while not (place / "stop").exists():
        try:
            for mode in MODES:
                if wrong := _seen(place, mode):
                    violations.append(f"the reader saw {wrong} in db.{mode}")
            looks += 1
        except Exception as error:  # noqa: BLE001 a reader never fails
            violations.append(f"the reader failed: {type(error).__name__} {error}")
        time.sleep(0.02)
    (place / "read.json").write_text(json.dumps({"looks": looks, "violations": violations[:20]}))


def _seen(place: Path, mode: str) -> str:
    catalogue = _catalogue(place)
    try:
        table = catalogue.load_table(f"db.{mode}")
    except (pyiceberg.exceptions.NoSuchTableError, pyiceberg.exceptions.NoSuchNamespaceError):
        return ""
    finally:
        catalogue.close()
    found = table.scan().to_arrow()
    said = table.current_snapshot().summary.additional_properties
    if said.get("privpipe.verdict") != "passed" or list(table.refs()) != ["main"]:
        return "a snapshot without a verdict, or a branch"
    rows = Counter(zip(found["age"].to_pylist(), found["size"].to_pylist(), strict=True))
    sizes = {size for _, size in rows}
    if len(sizes) != 1:
        return f"rows of {len(sizes)} releases"
    (size,) = sizes
    one = Counter(zip(*(_rows(size)[name].to_pylist() for name in ("age", "size")), strict=True))
    times = found.num_rows // SIZES[size]
    if rows != Counter({row: count * times for row, count in one.items()}) or (mode == "replace" and times != 1):
        return f"{found.num_rows} rows that were never released together"
    return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--read":
        _read(Path(sys.argv[2]))
    else:
        print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))

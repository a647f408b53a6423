"""What a driver in a process of its own found on a cluster, and what of it must not be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.clusters.started import dask_cluster, environment, spark_cluster

__all__ = ["driven", "killing_problems", "other_than_embedded"]

HERE = Path(__file__).parent


def driven(folder: Path, engine: str, *phases: str, seconds: float = 500) -> dict[str, Any]:
    """Ask a driver for phases, by name; what it found of each."""
    place = folder / "driver"
    place.mkdir()
    with (spark_cluster if engine == "spark" else dask_cluster)(folder) as url:
        words = [sys.executable, str(HERE / "driver.py"), str(place), engine, url, *phases]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads((place / "found.json").read_text(encoding="utf-8"))
    return found


def killing_problems(ended: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """For each kind of stage: a killed worker costs a retry or the run, and never half a release."""
    whole = ended["none"]
    fine = (whole["code"], whole["died"]) == (0, False)
    fine = fine and sum(row[-1] for row in whole["rows"]) == whole["judged"]["records"]
    yield "none", [] if fine else [f"the release that no one disturbed ended with {whole['code']}: {whole['said']}"]
    for kind, found in ended.items():
        if kind == "none":
            continue
        problems = [] if found["died"] else ["no one was killed"]
        if found["published"]:
            alike = ("code", "left", "documents", "rows", "judged")
            problems += [
                f"{name} differs from that of an undisturbed run" for name in alike if found[name] != whole[name]
            ]
        elif found["code"] != 4 or not found["said"].startswith("EngineError: "):
            problems.append(f"ended with {found['code']}: {found['said']}")
        yield kind, problems


def other_than_embedded(entries: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Entries that are not what they are on the embedded engine."""
    return {each["entry"]: each["problems"] for each in entries if each["problems"]}

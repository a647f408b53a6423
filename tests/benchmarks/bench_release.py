"""A whole release on the embedded engine, as a ratio to DuckDB's own read, count and sorted write of the same files.

A release is the command `privpipe release`; with `--profile`, the verb in Python, which tells of its steps. Each run is
a process of its own; CPU seconds and the peak of the process tree are its own too. Prints only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from recording import record

CHUNK = 1_000_000
QUASI_IDENTIFIERS = ("age", "zip", "sex", "education", "country", "marital")
SENSITIVE = "illness"
SHAPES = {
    "few": {"zips": 50, "education": 3, "country": 5, "k": 5, "l": 2, "t": 0.6},
    "half": {"zips": 0, "education": 5, "country": 10, "k": 2, "l": 1, "t": 0.99},
}
"""At the released levels: 45,000 classes; half as many cells of the quasi-identifiers as rows."""


def release_table(folder: Path, rows: int, shape: str, texts: int = 0, zips: int = 0, more: int = 0) -> Path:
    """The folder of a table of so many rows; written when it is not there yet.

    Parameters
    ----------
    texts : int
        Distinct texts in one quasi-identifier, as many as rows; 0 for few.
    zips : int
        Released zips, instead of those of the shape.
    more : int
        Further columns, insensitive: half texts of few values, half numbers.
    """
    named = {"texts": texts, "zips": zips, "more": more}
    target = folder / f"release-{shape}-{rows}{''.join(f'-{n}-{name}' for name, n in named.items() if n)}"
    if (target / "_done").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    own = SHAPES[shape]
    zips = zips or own["zips"] or max(1, rows // 2 // (15 * 2 * 5 * 10 * 2))
    for part, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([7, part])
        n = min(CHUNK, rows - start)
        columns = {
            "age": pa.array(rng.integers(0, 75, n) + 20),
            "zip": pa.array([f"{code:06d}" for code in range(int(10 * zips))]).take(
                pa.array(rng.integers(0, 10 * zips, n))
            ),
            "sex": _text("sex", rng.integers(0, 2, n), 2),
            "education": _text("education", rng.integers(0, 10 * own["education"], n), 10 * int(own["education"])),
            "country": _text("country", rng.integers(0, 10 * own["country"], n), 10 * int(own["country"])),
            "marital": _text("marital", rng.integers(0, 2, n), 2),
            SENSITIVE: _text("illness", np.minimum(rng.geometric(0.3, n), 15) - 1, 15),
            "ward": _text("ward", rng.integers(0, 12, n), 12),
            "income": pa.array(rng.lognormal(10, 1, n).round(2)),
        }
        for at in range(more):
            columns[f"more {at}"] = (
                pa.array(rng.lognormal(10, 1, n).round(2)) if at % 2 else _text("more", rng.integers(0, 40, n), 40)
            )
        if texts:
            columns["zip"] = pa.array([f"{start + at:012d}" for at in range(n)])
        pq.write_table(pa.table(columns), target / f"part-{part:05d}.parquet", row_group_size=250_000)
    (target / "_done").touch()
    return target


def _text(prefix: str, codes: Any, card: int) -> pa.Array:
    return pa.array([f"{prefix} {code:04d}" for code in range(card)]).take(pa.array(codes))


def policy_text(source: Path, sink: Path, shape: str, memory_limit: str, threads: int, more: int = 0) -> str:
    """A policy with given levels, k, l and t; `more` as in `release_table`."""
    own = SHAPES[shape]

    redacted = {"hierarchy": {"redact": {"keep": "left"}}}
    quasi: dict[str, Any] = {
        "age": {"type": "integer", "hierarchy": {"intervals": {"start": 0, "widths": [5]}}},
        **dict.fromkeys(QUASI_IDENTIFIERS[1:], redacted),
    }
    policy = {
        "version": 1,
        "name": "bench",
        "source": {"path": str(source), "format": "parquet"},
        "engine": "embedded",
        "engines": {"embedded": {"threads": threads, "memory_limit": memory_limit}},
        "columns": {
            **{name: {"role": "quasi_identifier", **more} for name, more in quasi.items()},
            SENSITIVE: {"role": "sensitive"},
            "ward": {"role": "insensitive"},
            "income": {"role": "insensitive"},
            **{f"more {at}": {"role": "insensitive"} for at in range(more)},
        },
        "transform": [
            {
                "generalize": {
                    "levels": {"age": 1, "zip": 1, "sex": 0, "education": 1, "country": 1, "marital": 0},
                    "suppress_at_most": 1.0 if shape == "half" else 0.05,
                }
            }
        ],
        "guarantees": [
            {"k_anonymity": {"k": own["k"]}},
            {"distinct_l_diversity": {"column": SENSITIVE, "l": own["l"]}},
            {"t_closeness": {"column": SENSITIVE, "t": own["t"]}},
        ],
        "sink": {"path": str(sink), "format": "parquet"},
        "seed": "3f8a51c07d92e4b6a1c85f03d7e96b24",
    }
    return json.dumps(policy)


BARE = """
import sys, time, duckdb
source, sink, memory, threads, names = sys.argv[1:6]
bare = duckdb.connect(config={"memory_limit": memory, "threads": int(threads), "preserve_insertion_order": False,
                              "temp_directory": sink + ".spill"})
start = time.perf_counter()
print(bare.execute(f"SELECT count(*) FROM (SELECT count(*) FROM '{source}/*.parquet' GROUP BY {names})").fetchall())
print(f"count {time.perf_counter() - start:.2f}", file=sys.stderr)
bare.execute(f"COPY (SELECT * FROM '{source}/*.parquet' AS t ORDER BY hash(t, 42)) TO '{sink}' (FORMAT parquet)")
print(f"all {time.perf_counter() - start:.2f}", file=sys.stderr)
"""

RELEASE = """
import sys, time, privpipe as pp
from privpipe.policy import Policy
start = time.perf_counter()
last = [("start", start, time.process_time())]
def progress(step):
    now = time.perf_counter(), time.process_time()
    print(f"  {last[-1][0]:<36} {now[0] - last[-1][1]:6.2f} s wall {now[1] - last[-1][2]:6.2f} s cpu", file=sys.stderr)
    last.append((str(step), *now))
result = pp.release(Policy.load(sys.argv[1]), progress=progress)
progress("end")
print(result.assessment.to_dict()["records"], result.assessment.to_dict()["classes"], result.plan.stages[0].detail)
"""


def measured(command: list[str], quiet: bool) -> dict[str, Any]:
    """Wall and CPU seconds of a process, and the most memory that it and its children held at once."""
    start = time.perf_counter()
    before = os.times()
    # As an installed package: its byte code is kept, whatever the shell says of that of this process.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quiet else None, env=env)
    peak = [0]
    watch = threading.Thread(target=_watch, args=(child, peak), daemon=True)
    watch.start()
    out, _ = child.communicate()
    after = os.times()
    watch.join()
    return {
        "wall": time.perf_counter() - start,
        "cpu": after.children_user + after.children_system - before.children_user - before.children_system,
        "peak": peak[0] / 2**30,
        "code": child.returncode,
        "said": out.decode().strip(),
    }


def _watch(child: subprocess.Popen[bytes], peak: list[int]) -> None:
    while child.poll() is None:
        peak[0] = max(peak[0], sum(map(_resident, _tree(child.pid))))
        time.sleep(0.05)


def _tree(pid: int) -> list[int]:
    try:
        children = [each for task in Path(f"/proc/{pid}/task").iterdir() for each in _children(task)]
    except OSError:
        return []
    return [pid, *(inner for each in children for inner in _tree(int(each)))]


def _children(task: Path) -> list[str]:
    """Processes that a thread has started; none where it has ended."""
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []


def _resident(pid: int) -> int:
    """Anonymous bytes, which the system counts anyhow: to walk the pages would hold the process up.

    Pages of mapped files are the system's own, and it takes them back.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-limit", default="4GB")
    parser.add_argument("--texts", action="store_true", help="one quasi-identifier of distinct texts")
    parser.add_argument("--profile", action="store_true", help="print the seconds of each step")
    parser.add_argument("--no-bare", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    for rows in given.rows:
        for shape in given.shape:
            source = release_table(given.folder, rows, shape, rows if given.texts else 0)
            for _ in range(given.rounds):
                with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
                    _compare(given, rows, shape, source, Path(scratch))


def _compare(given: argparse.Namespace, rows: int, shape: str, source: Path, scratch: Path) -> None:
    names = ", ".join((*QUASI_IDENTIFIERS, SENSITIVE))
    limits = [given.memory_limit, str(given.threads)]
    found = {}
    if not given.no_bare:
        command = [sys.executable, "-c", BARE, str(source), str(scratch / "bare.parquet"), *limits, names]
        found["bare"] = measured(command, not given.profile)
    policy = scratch / "policy.json"
    policy.write_text(policy_text(source, scratch / "released", shape, given.memory_limit, given.threads))
    how = ["-c", RELEASE] if given.profile else ["-m", "privpipe", "release"]
    found["release"] = measured([sys.executable, *how, str(policy)], not given.profile)
    for name, each in found.items():
        print(
            f"{rows:>11,} {shape:5} {name:8} wall {each['wall']:7.2f} s  cpu {each['cpu']:7.2f} s  "
            f"peak {each['peak']:5.2f} GiB  exit {each['code']}"
        )
    if "bare" in found:
        wall, cpu = (found["release"][name] / found["bare"][name] for name in ("wall", "cpu"))
        ours, bare = found["release"], found["bare"]
        what = f"release, embedded, {shape}, {rows:,} rows{', distinct texts' if given.texts else ''}"
        beside = "the bare read, count and sorted write"
        more = {"took_cpu": ours["cpu"], "baseline_cpu": bare["cpu"], "peak_gib": ours["peak"], "exit": ours["code"]}
        record(what, took=ours["wall"], baseline=bare["wall"], beside=beside, **more)
        print(f"{rows:>11,} {shape:5} ratio    wall {wall:7.2f}    cpu {cpu:7.2f}", flush=True)
    if given.profile:
        print(found["release"]["said"])


if __name__ == "__main__":
    main()

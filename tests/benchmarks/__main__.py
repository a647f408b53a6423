"""``python tests/benchmarks [NAME ...]``: runs the benchmarks, and compares their ratios with the run that was kept.

Every figure is a ratio to a baseline of the same run, so that runs of different days and machines can be compared.
All figures go to a JSON file; `--keep` makes them the kept run and writes `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recording import RECORD

__all__ = ["changes", "main", "page"]

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
KEPT = HERE / "kept_run.json"
PAGE = PROJECT / "docs" / "benchmarks.md"
SHARED = PROJECT.parent / "shared" / "data"
ADULT = PROJECT / "pipelines" / "adult" / "data" / "adult.csv"
LIBRARIES = ("privpipe", "duckdb", "pyarrow", "numpy", "numba", "pandas", "dask", "pyspark")
WORSE = 1.25
"""Ratios that grew by more than this are reported: repeated runs on one machine differ by less."""

PLANS: dict[str, dict[str, Sequence[Sequence[object]]]] = {
    "cold_start": {"quick": [["--job", "check"]], "usual": [[]]},
    "embedded": {"quick": [["--rows", 300_000, "--rounds", 2]], "usual": [["--rows", 1_000_000, 10_000_000]]},
    "dask": {
        "quick": [["--rows", 300_000, "--rounds", 2]],
        "usual": [["--rows", 1_000_000], ["--rows", 1_000_000, "--ranks"]],
    },
    "spark": {"quick": [["--rows", 300_000, "--rounds", 2]], "usual": [["--rows", 1_000_000]]},
    "guarantees": {"quick": [["--rows", 300_000, "--rounds", 1]], "usual": [["--rows", 1_000_000]]},
    "release": {
        "quick": [["--rows", 1_000_000]],
        "usual": [["--rows", 1_000_000, 10_000_000], ["--rows", 10_000_000, "--shape", "few", "--texts"]],
    },
    "growth": {
        "quick": [["--ladder", "rows, few classes", "--to", 3_000_000]],
        "usual": [["--to", 10_000_000]],
    },
    "release_engines": {
        "quick": [["--rows", 300_000, "--engines", "dask", "--shape", "half"]],
        "usual": [
            ["--rows", 1_000_000, 10_000_000, "--shape", "few", "half"],
            ["--rows", 1_000_000, "--engines", "spark", "--on-workers"],
        ],
    },
    "cost_model": {
        "quick": [["--rows", 300_000, "--engines", "embedded", "dask", "--shape", "half"]],
        "usual": [
            ["--rows", 1_000_000],
            ["--rows", 1_000_000, "--engines", "dask", "spark", "--shape", "few", "--workers", 1, 2, 4],
        ],
    },
    "notes": {"quick": [["--rows", 100_000, "--rounds", 1]], "usual": [["--rows", 1_000_000]]},
    "related_tables": {
        "quick": [[50_000]],
        "usual": [[1_000_000, name] for name in ("embedded", "dask", "spark")],
    },
    "small_tables": {"quick": [["--engine", "embedded", "dask", "--rounds", 2]], "usual": [[]]},
    "rank_swap": {"quick": [["--rows", 300_000, "--engines", "embedded", "--repeats", 1]], "usual": [[]]},
    "microaggregation": {"quick": [["--rows", 10_000, "--k", 3, "--data", "mixture"]], "usual": [["--rows", 30_000]]},
    "mondrian": {
        "quick": [[SHARED / "adult", "--rows", 100_000, "--rounds", 1]],
        "usual": [[SHARED / "adult"]],
    },
    "local_recoding": {"quick": [["--runs", 1]], "usual": [[]]},
    "search": {"quick": [["--copies", 10, "--rounds", 1]], "usual": [[]]},
    "recoding_searches": {"quick": [["--parts", "small"]], "usual": [["--parts", "small", "sweep"]]},
    "table_audit": {"quick": [["counts, 10,000 cells"]], "usual": [[]]},
    "table_hiding": {"quick": [[]], "usual": [[]]},
    "cell_suppression": {
        "quick": [[ADULT, "--delimiter", ";", "--keys", "age", "sex", "race", "--k", 3, "--repeats", 1]],
        "usual": [[ADULT, "--delimiter", ";", "--keys", "age", "sex", "race", "marital_status", "education"]],
    },
    "sample_risks": {"quick": [["--rows", 300_000]], "usual": [["--rows", 10_000_000]]},
    "tables": {"quick": [["--rows", 300_000, "--engines", "embedded", "dask", "--rounds", 1]], "usual": [[]]},
    "share": {"quick": [["--cells", 10_000, "--holders", 3]], "usual": [[]]},
    "entries": {
        "quick": [["--rows", 20_000, "--only", "model"]],
        "usual": [["--rows", 10_000_000]],
    },
    "attacks": {"quick": [["--rows", 20_000, "--p", 0.02]], "usual": [["--rows", 200_000, "--attacked", 20_000]]},
}
"""The argument lists of each benchmark, by size."""
NEEDED = {"mondrian": SHARED / "adult", "local_recoding": SHARED / "adult", "search": SHARED / "adult"}
NEEDED |= {"recoding_searches": SHARED / "census_income_kdd"}


def measured(name: str, size: str, record: Path) -> int:
    """Run one benchmark; its figures are added to `record`."""
    for given in PLANS[name][size]:
        command = [sys.executable, str(HERE / f"bench_{name}.py"), *map(str, given)]
        print("==", name, *map(str, given[1:] if given and isinstance(given[0], Path) else given), flush=True)
        done = subprocess.run(command, env={**os.environ, RECORD: str(record), "PYTHONPATH": str(PROJECT)})
        if done.returncode:
            return done.returncode
    return 0


def machine() -> dict[str, Any]:
    """What was measured on: processors, memory, versions. No name of the machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = {name: importlib.metadata.version(name) for name in LIBRARIES if _installed(name)}
    system = {"system": platform.system(), "architecture": platform.machine(), "python": platform.python_version()}
    return {"processors": os.cpu_count(), "memory_gib": round(pages / 2**30), **system, "libraries": found}


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def ratio(figure: Mapping[str, Any]) -> float:
    """What a job took, over its baseline."""
    return float(figure["took"]) / max(float(figure["baseline"]), 1e-9)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Name, ratio before and ratio now of the figures that both runs have."""
    known = {figure["name"]: figure for figure in before["figures"]}
    for figure in now["figures"]:
        if figure["name"] in known:
            yield figure["name"], ratio(known[figure["name"]]), ratio(figure)


def require_alike(kept: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Figures of two runs stand on one page only where size, machine and versions of libraries are the same.

    Raises
    ------
    SystemExit
    """
    if (kept["size"], kept["machine"]) != (run["size"], run["machine"]):
        raise SystemExit("the kept run is of another size, machine or versions: keep a run of all benchmarks")


def merged(kept: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """The kept run with the benchmarks of `run` instead of what it had of them."""
    again = {figure["benchmark"] for figure in run["figures"]} | set(run["skipped"])
    dates = {figure["benchmark"]: kept["date"] for figure in kept["figures"]} | kept.get("dates", {})
    found = [figure for figure in kept["figures"] if figure["benchmark"] not in again] + list(run["figures"])
    order = list(PLANS)
    return {
        **run,
        "skipped": {name: why for name, why in kept["skipped"].items() if name not in again} | run["skipped"],
        "dates": {name: day for name, day in dates.items() if name not in again and day != run["date"]},
        "figures": sorted(found, key=lambda figure: order.index(figure["benchmark"])),
    }


def page(run: Mapping[str, Any]) -> str:
    """A run as a page of the documentation."""
    held = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in held["libraries"].items())
    lines = [
        "# Benchmarks",
        "",
        f'Made by `make bench BENCH_ARGS="--size {run["size"]} --keep"` on {run["date"]}: '
        f"{held['processors']} processors, "
        f"{held['memory_gib']} GiB, {held['system']} {held['architecture']}, Python {held['python']}; {versions}.",
        "",
        "Each figure is compared with a baseline of the same run. Compare ratios, not seconds: the machine may do "
        "other work meanwhile.",
    ]
    if run["skipped"]:
        lines += ["", "Not measured in this run:", *(f"- {name}: {why}" for name, why in run["skipped"].items())]
    for name in dict.fromkeys(figure["benchmark"] for figure in run["figures"]):
        day = run.get("dates", {}).get(name)
        lines += [
            "",
            f"## {name.replace('_', ' ')}{f', {day}' if day else ''}",
            "",
            "| what | took | baseline | compared with | ratio | other figures |",
        ]
        lines.append("|---|---|---|---|---|---|")
        for figure in run["figures"]:
            if figure["benchmark"] == name:
                took, base = (f"{figure[key]:.3g} {figure.get('unit', 's')}" for key in ("took", "baseline"))
                more = ", ".join(f"{key.replace('_', ' ')} {figure[key]:.3g}" for key in figure if key not in COLUMNS)
                lines.append(
                    f"| {figure['name']} | {took} | {base} | {figure['beside']} | {ratio(figure):.2f} | {more} |"
                )
    return "\n".join(lines) + "\n"


COLUMNS = {"benchmark", "name", "took", "baseline", "beside", "unit"}


def main(given: Sequence[str]) -> int:
    """Run, keep, compare; 1 when a benchmark failed or a ratio grew by more than a quarter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PLANS, []], metavar="NAME", help="default: all of them")
    parser.add_argument("--size", choices=("quick", "usual"), default="usual")
    parser.add_argument("--out", type=Path, default=PROJECT / "build" / "benchmarks.json")
    parser.add_argument(
        "--keep", action="store_true", help="compare later runs with this one, and write the page; with NAMEs: of these"
    )
    asked = parser.parse_args(given)
    run: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "size": asked.size,
        "machine": machine(),
        "skipped": {},
        "figures": [],
    }
    before = json.loads(KEPT.read_text()) if KEPT.exists() else None
    if asked.keep and asked.names and before:
        require_alike(before, run)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    for name in asked.names or PLANS:
        if name in NEEDED and not NEEDED[name].exists():
            run["skipped"][name] = f"the table {NEEDED[name].name} is not at hand"
            continue
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "figures.jsonl"
            record.touch()
            code = measured(name, asked.size, record)
            if code:
                run["skipped"][name] = f"failed with exit code {code}"
            run["figures"] += [{"benchmark": name, **json.loads(line)} for line in record.read_text().splitlines()]
        asked.out.write_text(json.dumps(run, indent=1) + "\n")  # after each: a long run that is stopped leaves these
    worse = compared(before, run) if before else []
    if asked.keep:
        kept = merged(before, run) if asked.names and before else run
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        PAGE.write_text(page(kept))
    failed = [name for name, why in run["skipped"].items() if why.startswith("failed")]
    for name in failed:
        print(f"FAILED: {name}")
    return 1 if failed or worse else 0


def compared(before: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """Print how ratios changed since the kept run; the names of those that grew by more than a quarter."""
    if before["size"] != run["size"]:
        print(f"the kept run is of size {before['size']}: nothing to compare with")
        return []
    worse = []
    for name, then, now in changes(before, run):
        mark = "WORSE" if now > WORSE * then else "better" if then > WORSE * now else ""
        print(f"{name:70} {then:8.2f} -> {now:8.2f}  {mark}")
        if mark == "WORSE":
            worse.append(name)
    return worse


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a release of 10^9 and 10^10 rows would take on 16, 64 and 256 workers of Spark, from stages that were measured.

`python tests/benchmarks/simulate_scale.py`: releases of two sizes run on a cluster of two processes on this machine,
nothing on the driver, with 0, 25 and 50 % of the rows in one class. The event log has seconds and shuffled bytes of
each task. Figures per row are the differences between the two sizes; what remains does not grow. A stage's
tasks are then dealt to the cores of a cluster, with the unevenness that was measured. Prints Markdown tables, in which
every figure is marked as measured or extrapolated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench_cost_model import LONG_ENOUGH, WORKER_MEGABYTES, _policy, _tasks
from bench_release import QUASI_IDENTIFIERS, _resident, _tree, release_table

SHAPE = "few"
SKEWS = (0.0, 0.25, 0.5)
CLUSTERS = (16, 64, 256)
SIZES = (10**9, 10**10)
CORES = 4
"""Of each simulated worker."""
BYTES_PER_SECOND = 1.25e9
"""Of each worker's network: 10 Gbit/s."""


@dataclass(frozen=True)
class Measured:
    """A release that ran.

    Parameters
    ----------
    rows : int
    seconds : tuple of float
        Seconds of all tasks of each stage, in the order of their stages.
    shuffled : int
        Bytes written to shuffles.
    uneven : float
        The longest task of a stage over the median of the stage, the largest of all stages.
    driver : int
        Anonymous bytes that the driver's Python and virtual machine held at their peak.
    """

    rows: int
    seconds: tuple[float, ...]
    shuffled: int
    uneven: float
    driver: int


def skewed(source: Path, share: float) -> Path:
    """The same rows, of which a share has one combination of quasi-identifiers."""
    if not share:
        return source
    target = source.with_name(f"{source.name}-skew-{share:g}")
    if not (target / "_done").exists():
        target.mkdir(exist_ok=True)
        for file in sorted(source.glob("*.parquet")):
            rows = pq.read_table(file)
            here = round(share * len(rows))
            for name in QUASI_IDENTIFIERS:
                at = rows.column_names.index(name)
                values = rows.column(name).combine_chunks()
                same = pa.array([values[0].as_py()] * here, values.type)
                rows = rows.set_column(at, name, pa.concat_arrays([same, values.slice(here)]))
            pq.write_table(rows, target / file.name, row_group_size=250_000)
        (target / "_done").touch()
    return target


def measure(rows: int, share: float, folder: Path) -> Measured:
    """Release a table of so many rows on two processes of one thread each."""
    source = skewed(release_table(folder, rows, SHAPE), share)
    options = {"master": f"local-cluster[2,1,{WORKER_MEGABYTES}]", "driver_bytes": 0}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        policy = _policy(options, "spark", source, SHAPE, Path(scratch))
        held = _released(policy)
        tasks: dict[int, list[float]] = defaultdict(list)
        shuffled = 0
        for event in _tasks(Path(scratch) / "log"):
            metrics = event.get("Task Metrics") or {}
            tasks[event["Stage ID"]].append(metrics.get("Executor Run Time", 0) / 1000)
            shuffled += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    uneven = [
        max(took) / statistics.median(took)
        for took in tasks.values()
        if len(took) > 2 and max(took) * 1000 > LONG_ENOUGH
    ]
    seconds = tuple(sum(tasks[stage]) for stage in sorted(tasks))
    return Measured(rows, seconds, shuffled, max(uneven, default=1.0), held)


def _released(policy: Path) -> int:
    """Release in another process; the most that it and the driver's virtual machine held."""
    import subprocess

    child = subprocess.Popen([sys.executable, "-m", "privpipe", "release", str(policy)], stdout=subprocess.DEVNULL)
    peak = [0]

    def watch() -> None:
        while child.poll() is None:
            own = [each for each in _tree(child.pid) if each == child.pid or _is_driver(each)]
            peak[0] = max(peak[0], sum(map(_resident, own)))
            time.sleep(0.1)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    child.wait()
    watching.join()
    if child.returncode:
        raise SystemExit(f"a release ended with {child.returncode}")
    return peak[0]


def _is_driver(process: int) -> bool:
    try:
        return b"org.apache.spark.deploy.SparkSubmit" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def simulated(small: Measured, large: Measured, rows: int, workers: int) -> dict[str, float]:
    """Seconds, bytes and the longest task of a release of so many rows.

    Every stage ends with its longest task: an even share of the stage's work, times the unevenness.
    """
    more = large.rows - small.rows
    per_row = max(0.0, sum(large.seconds) - sum(small.seconds)) / more
    fixed = max(0.0, sum(small.seconds) - per_row * small.rows)
    shuffled = max(0, large.shuffled - small.shuffled) / more * rows
    cores = workers * CORES
    stages = len(large.seconds)
    shares = [each / sum(large.seconds) for each in large.seconds]
    work = [share * (per_row * rows + fixed) for share in shares]
    uneven = max(small.uneven, large.uneven)
    # Ten tasks a core, so that the others even out what is uneven, and the last one alone is waited for.
    longest = [each / (10 * cores) * uneven for each in work]
    seconds = sum(each / cores + last for each, last in zip(work, longest, strict=True))
    return {
        "stages": stages,
        "cpu_h": sum(work) / 3600,
        "shuffled": shuffled,
        "network_s": shuffled / workers / BYTES_PER_SECOND,
        "longest_s": max(longest),
        "minutes": (seconds + shuffled / workers / BYTES_PER_SECOND) / 60,
        "driver": large.driver + max(0, large.driver - small.driver) / more * (rows - large.rows),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs=2, default=(1_000_000, 3_000_000), metavar="N")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where tables are made")
    given = parser.parse_args(arguments)
    pairs: dict[float, tuple[Any, Any]] = {}
    print("| measured | skew | task s | shuffled | longest task over the median | driver holds |\n" + "|---" * 6 + "|")
    for share in SKEWS:
        small, large = (measure(rows, share, given.folder) for rows in given.rows)
        pairs[share] = small, large
        for each in (small, large):
            print(
                f"| {each.rows:,} rows | {share:.0%} | {sum(each.seconds):.0f} | {each.shuffled / 1e6:,.0f} MB | "
                f"{each.uneven:.1f} | {each.driver / 1e9:.2f} GB |",
                flush=True,
            )
    print(
        "\n| extrapolated | workers | skew | CPU h | shuffled | longest task | minutes | driver |\n" + "|---" * 8 + "|"
    )
    for rows in SIZES:
        for workers in CLUSTERS:
            for share, (small, large) in pairs.items():
                found = simulated(small, large, rows, workers)
                print(
                    f"| 10^{len(str(rows)) - 1} | {workers} | {share:.0%} | {found['cpu_h']:,.1f} | "
                    f"{found['shuffled'] / 1e12:.2f} TB | {found['longest_s']:,.1f} s | {found['minutes']:,.1f} | "
                    f"{found['driver'] / 1e9:.1f} GB |"
                )
    print(json.dumps({share: [vars(each) for each in pair] for share, pair in pairs.items()}), file=sys.stderr)


if __name__ == "__main__":
    main()

"""What benchmarks measured, as lines of JSON for `python tests/benchmarks`; printed lines stay unchanged."""

from __future__ import annotations

import json
import os
from pathlib import Path

__all__ = ["RECORD", "record"]

RECORD = "PRIVPIPE_BENCH_RECORD"
"""Environment variable with the file that lines are added to; without it nothing is kept."""


def record(name: str, *, took: float, baseline: float, beside: str, unit: str = "s", **more: float) -> None:
    """Keep one figure: what a job took in `unit`, and what it is compared with took in the same run."""
    kept = os.environ.get(RECORD)
    if kept:
        line = {"name": name, "took": took, "baseline": baseline, "beside": beside, "unit": unit, **more}
        with Path(kept).open("a") as file:
            file.write(json.dumps(line) + "\n")

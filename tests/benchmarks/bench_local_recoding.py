"""Local recoding by each method: loss, CPU seconds of the whole plan, and both next to the rounds; printed only.

Tables come from a folder with `adult`, `cmc` and `mgm`, each with its hierarchies. CPU seconds are those of all threads
of the process, from the scanned table to the plan; the least of several runs in one warm process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
from recording import record

from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine
from privpipe.hierarchies import HierarchySpec
from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import LocalRecoding
from privpipe.transforms.base import StageContext

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
TABLES = {
    "adult": "adult_hierarchy_{}.csv",
    "cmc": "hierarchies/cmc_hierarchy_{}.csv",
    "mgm": "hierarchies/mgm_hierarchy_{}.csv",
}
CASES: dict[str, tuple[str, int, str | None]] = {
    "adult k=5": ("adult", 5, None),
    "adult k=10": ("adult", 10, None),
    "adult k=5, distinct 3": ("adult", 5, "occupation"),
    "cmc k=5": ("cmc", 5, None),
    "cmc k=10": ("cmc", 10, None),
    "mgm k=5": ("mgm", 5, None),
}


def problem(engine: EmbeddedEngine, folder: Path, case: str) -> tuple[Any, StageContext]:
    """The scanned table of a case, and the context of its stage."""
    table, k, sensitive = CASES[case]
    own, spec = folder / table, TABLES[table]
    rows = pc.read_csv(own / f"{table}.csv", parse_options=pc.ParseOptions(delimiter=";"))
    names = [name for name in rows.column_names if (own / spec.format(name)).is_file()]
    specs = {
        name: HierarchySpec.from_mapping({"file": spec.format(name), "delimiter": ";"}, own, column=name)
        for name in names
        if name != sensitive
    }
    rows = rows.select(names)
    models: list[Any] = [KAnonymity(k=k)]
    if sensitive:
        models.append(DistinctLDiversity(column=sensitive, l=3))
    context = StageContext(
        roles=Roles(quasi_identifiers=list(specs), sensitive=[sensitive] if sensitive else []),
        schema=rows.schema,
        hierarchies=specs,
        guarantees=tuple(models),
        place="transform[0]",
    )
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(1)), context


def cpu_seconds(job: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """The least of some runs, after one that compiles."""
    made, best = job(), float("inf")
    for _ in range(runs):
        start = time.process_time()
        made = job()
        best = min(best, time.process_time() - start)
    return best, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    asked = parser.parse_args()
    methods = {
        "rounds": LocalRecoding(method="rounds"),
        "sweep": LocalRecoding(),
        "search": LocalRecoding(method="search"),
    }
    with EmbeddedEngine.open({"threads": asked.threads}) as engine:
        for case in asked.cases:
            table, context = problem(engine, asked.folder, case)
            base: tuple[float, float] | None = None
            for name, stage in methods.items():
                took, plan = cpu_seconds(lambda: stage.learn(engine, table, context), asked.runs)  # noqa: B023
                loss = plan.detail["cell_loss"]
                base = base or (loss, took)
                record(f"local recoding, {case}, {name}", took=took, baseline=base[1], beside="the rounds")
                print(
                    f"{case:22} {name:16} loss {loss:.4f} ({loss / base[0]:5.2f} of the rounds)   "
                    f"CPU {took:7.3f} s ({took / base[1]:5.2f})   classes {plan.detail['classes']:>6,}   "
                    f"left {plan.detail['left']:,}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""The optimal search on Adult and on copies of it with 3 % of the cells redrawn: time, nodes, memory. Prints only.

Each case runs in a process of its own: its first search there (compiled kernels come from their cache), then the
median of further ones, then the highest memory of the process. `--folder` holds adult.csv and its hierarchies.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from recording import record

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "adult"
NINE = (
    "sex",
    "age",
    "race",
    "marital-status",
    "education",
    "native-country",
    "workclass",
    "occupation",
    "salary-class",
)
OCCUPATION = "occupation"
CASES = {
    "k5 limit 0": (0.0, None),
    "k5 limit 5%": (0.05, None),
    "k5 limit 100%": (1.0, None),
    "k5 + t hierarchical .2, 5%": (0.05, "hierarchical"),
    "k5 + t equal .2, 5%": (0.05, "equal"),
    "k5 + distinct 3, 5%": (0.05, "distinct"),
}
COPIED = ("k5 limit 0", "k5 limit 5%")


def perturbed(folder: Path, copies: int, target: Path, seed: int = 1) -> Path:
    """Adult so many times over, 3 % of the cells redrawn from their column's values."""
    path = target / f"adult-{copies}.parquet"
    if path.exists():
        return path
    read = pa.csv.ParseOptions(delimiter=";")
    adult = pa.csv.read_csv(folder / "adult.csv", parse_options=read)
    rng = np.random.default_rng(seed)
    columns = {}
    for name in NINE:
        encoded = adult[name].combine_chunks().dictionary_encode()
        codes = np.tile(encoded.indices.to_numpy(), copies)
        redrawn = rng.random(len(codes)) < 0.03
        codes[redrawn] = rng.integers(0, len(encoded.dictionary), int(redrawn.sum()))
        columns[name] = encoded.dictionary.take(pa.array(codes))
    pq.write_table(pa.table(columns), path)
    return path


def most_memory() -> float:
    """Highest memory of this process in GiB; the operating system's own count starts with its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**20


def searched(folder: Path, data: Path, case: str, rounds: int) -> None:
    """Print one case; meant to be the first thing a process does."""
    began = time.perf_counter()
    from privpipe.blocks import FactsRequest
    from privpipe.engines import Source, open_engine
    from privpipe.hierarchies import HierarchySpec
    from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
    from privpipe.roles import Roles
    from privpipe.tolerance import floor_share
    from privpipe.transforms import Generalize
    from privpipe.transforms.base import StageContext
    from privpipe.transforms.recoding.encoded_table import encode, searched_quality
    from privpipe.transforms.recoding.node import NodeCheck
    from privpipe.transforms.recoding.optimal_search import search_optimal

    limit, second = CASES[case]
    sensitive = (OCCUPATION,) if second else ()
    columns = tuple(name for name in NINE if name not in sensitive)
    files = {name: {"file": str(folder / f"adult_hierarchy_{name}.csv")} for name in NINE}
    specs = {name: HierarchySpec.from_mapping(file, ".", column=name) for name, file in files.items()}
    models: list[object] = [KAnonymity(k=5)]
    if second == "distinct":
        models.append(DistinctLDiversity(column=OCCUPATION, l=3))
    elif second == "hierarchical":
        models.append(TCloseness(column=OCCUPATION, t=0.2, distance="hierarchical", hierarchy=files[OCCUPATION]))
    elif second:
        models.append(TCloseness(column=OCCUPATION, t=0.2))
    form = {"format": "csv", "delimiter": ";"} if data.suffix == ".csv" else {"format": "parquet"}
    with open_engine("embedded", {}) as engine:
        table = engine.scan(Source(data=str(data), types={"age": "integer"}, **form))
        base = engine.facts(table, FactsRequest(histograms=sensitive))
        for model in models:
            base = replace(base, extra={**base.extra, **model.learn(base)})  # type: ignore[attr-defined]
        context = StageContext(
            roles=Roles(quasi_identifiers=columns, sensitive=sensitive),
            schema=table.schema,
            types={"age": "integer"},
            hierarchies={name: specs[name] for name in columns},
            guarantees=tuple(models),  # type: ignore[arg-type]
            base=base,
        )
        stage = Generalize(suppress_at_most=limit)
        start = time.perf_counter()
        encoded = encode(engine, table, stage, context)
        encoding = time.perf_counter() - start
        times, work = [], []
        for _ in range(rounds + 1):
            start, spent = time.perf_counter(), time.process_time()
            check = NodeCheck(encoded, context, searched_quality(encoded, stage, context))
            found, checked = search_optimal(check, floor_share(limit, encoded.records), 100_000)
            times.append(time.perf_counter() - start)
            work.append(time.process_time() - spent)
            if len(times) == 1:
                first = time.perf_counter() - began
    peak = most_memory()
    what = f"optimal search, {data.stem}, {case}"
    record(what, took=statistics.median(work[1:]), baseline=encoding, beside="counting the combinations", peak_gib=peak)
    loss = found.loss[0] if found else float("nan")
    print(
        f"{data.stem:12} {case:28} {encoded.records:>10,} rows {len(encoded):>8,} tuples   count {encoding:6.3f} s   "
        f"search {statistics.median(times[1:]):6.3f} s (cpu {statistics.median(work[1:]):6.3f}, first {times[0]:5.2f}, "
        f"from a fresh process to the plan {first:5.2f})   {checked:>5,} nodes   loss {loss:.9f}   peak {peak:.2f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--copies", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", help="one case, in this process")
    parser.add_argument("--data", type=Path)
    asked = parser.parse_args()
    if asked.case:
        searched(asked.folder, asked.data or asked.folder / "adult.csv", asked.case, asked.rounds)
        return
    with tempfile.TemporaryDirectory() as temporary:
        runs = [(asked.folder / "adult.csv", case) for case in CASES]
        runs += [(perturbed(asked.folder, n, Path(temporary)), case) for n in asked.copies for case in COPIED]
        for data, case in runs:
            given = ["--folder", asked.folder, "--data", data, "--case", case, "--rounds", asked.rounds]
            subprocess.run([sys.executable, __file__, *map(str, given)], check=True)


if __name__ == "__main__":
    main()

"""CPU seconds of the first, the second and a warm process: a check, a stage and a release, small and of Adult.

Each job runs in processes of its own. The first finds no compiled kernel, the second what the first has kept. The
baseline is a process that imports pandas and pyarrow alone. Prints only.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from recording import record

PROJECT = Path(__file__).resolve().parents[2]
SMALL = """
import numpy as np, pandas as pd, privpipe as pp
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
from privpipe.transforms import Generalize, Microaggregate
rng = np.random.default_rng(1)
frame = pd.DataFrame({
    "age": rng.integers(20, 60, 1000), "zip": rng.choice(["081", "082", "171"], 1000),
    "illness": rng.choice(["flu", "cold", "gout"], 1000),
    "income": rng.lognormal(3, 1, 1000), "debt": rng.lognormal(2, 1, 1000),
})
seed = "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a"
models = [KAnonymity(k=5), DistinctLDiversity(column="illness", l=2)]
"""
JOBS = {
    "imports": "import pandas, pyarrow",
    "check": SMALL
    + 'print(pp.assess(frame, [*models, TCloseness(column="illness", t=0.5)], quasi_identifiers=["zip"]).passed)',
    "release": SMALL
    + """
import sys
roles = pp.Roles(quasi_identifiers=["age", "zip"], sensitive=["illness"], insensitive=["income", "debt"])
hierarchies = {"age": {"intervals": {"start": 0, "widths": [10, 20, 40]}}, "zip": {"redact": {"keep": "left"}}}
policy = pp.Policy(name="small", roles=roles, hierarchies=hierarchies, guarantees=models, seed=seed,
                   transform=[Generalize(search="optimal", suppress_at_most=0.05)])
print(policy.release(frame, sys.argv[1] + "/out").assessment.passed)
""",
    "microaggregation": SMALL
    + 'print(len(Microaggregate(columns=["income", "debt"], k=5, method="mdav").apply(frame, seed=seed)))',
    "Adult release": f"""
import sys, privpipe as pp
policy = pp.Policy.load({str(PROJECT / "pipelines/adult/release.yaml")!r})
print(pp.release(policy, target=sys.argv[1] + "/adult").assessment.passed)
""",
}


def seconds(code: str, cache: str) -> float:
    """CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PRIVPIPE_KERNELS": cache, "PYTHONPATH": str(PROJECT)}
        command = [sys.executable, "-c", code, folder]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", nargs="*", choices=JOBS, default=list(JOBS))
    given, _ = parser.parse_known_args()
    base = min(seconds(JOBS["imports"], "") for _ in range(3))
    print(f"imports alone {base:.2f} CPU s")
    for name in given.job:
        with tempfile.TemporaryDirectory() as cache:
            first, *again = (seconds(JOBS[name], cache) for _ in range(3))
        for which, took in (("first", first), ("again", min(again))):
            record(f"fresh process: {name}, {which}", took=took, baseline=base, beside="imports of pandas and pyarrow")
        print(
            f"{name:17} first {first:6.2f}   again {min(again):5.2f} CPU s   over the imports {min(again) / base:5.2f}"
        )

"""Clusters of two workers: a worker killed in each kind of stage, and every entry of the catalogues and on embedded."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from trials import Table

__all__ = ["soak_clusters"]

SECONDS = 3 * 3600.0


def soak_clusters(project: Path, table: Table, rounds: int, seed: int) -> None:
    """So many rounds on each engine; what is killed and asked is the same in each."""
    sys.path.insert(0, str(project))
    from tests.clusters.at_work import driven, killing_problems, other_than_embedded

    for engine in ("dask", "spark"):
        for number in range(rounds):
            trial = f"{seed}/{number}"
            with tempfile.TemporaryDirectory() as folder:
                found = driven(Path(folder), engine, "killed", "judged", "staged", seconds=SECONDS)
            for kind, problems in killing_problems(found["killed"]):
                table.add(f"{engine} cluster: a worker killed in {kind}", problems, trial)
            for phase in ("judged", "staged"):
                wrong = other_than_embedded(found[phase])
                for each in found[phase]:
                    table.add(f"{engine} cluster: {phase}", wrong.get(each["entry"], []), f"{trial} {each['entry']}")

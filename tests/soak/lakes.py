"""Releases into Delta tables that are killed at random steps and instants, with a reader that never stops looking."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from trials import Table

__all__ = ["soak_lakes"]

MOST_CALLS = 60
LONGEST = 1.2


def soak_lakes(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many killed runs, half of them appends; every tenth batch is refused and every tenth release withdrawn."""
    sys.path.insert(0, str(project))
    from tests.running.delta_kills import DeltaKills
    from tests.running.delta_releases import Releases

    draw = random.Random(seed)
    for mode in ("replace", "append"):
        with tempfile.TemporaryDirectory() as home:
            kills = DeltaKills(Releases(Path(home) / "lake"), mode)
            with kills.running():
                for trial in range(trials // 2):
                    kind, safe = "withdrawn" if trial % 10 == 3 else "plain", trial % 10 != 7
                    if trial % 2:
                        code = kills.run(draw.randint(1, MOST_CALLS), safe=safe, kind=kind)
                    else:
                        code = kills.run(safe=safe, kind=kind, after=draw.uniform(0, LONGEST))
                    if code not in (-9, 0, 4, 5):
                        kills.found.append(f"a run ended with {code}")
                    if trial % 8 == 5:
                        kills.settled()
                    found, kills.found[:] = list(kills.found), []
                    test = f"SIGKILL during a release into a Delta table: {mode}"
                    table.add(test, found, f"{seed}/{trial}: ended with {code}")
            print(f"{mode}: {kills.reads:,} reads of the table meanwhile", file=sys.stderr)

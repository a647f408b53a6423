"""Releases to an object store that are killed, cut off or refused at a random request, while a reader polls."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from trials import Table

__all__ = ["soak_stores"]


def soak_stores(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many runs for each kind of fault; after every fifth a run that no one disturbs cleans up and publishes."""
    sys.path.insert(0, str(project))
    from tests.store_trials import KINDS, Trials

    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as home, Trials(Path(home)) as sink:
        for trial in range(trials * len(KINDS)):
            kind = KINDS[trial % len(KINDS)]
            lasting = kind != "kill" and draw.random() < 0.5
            found = sink.once(kind, draw.randrange(sink.requests), lasting=lasting)
            if trial % 5 == 4:
                found += sink.after()
            table.add(f"{kind}{' from there on' if lasting else ''}: object store", found, f"{seed}/{trial}")

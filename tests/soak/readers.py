"""Coverage-guided inputs for everything that reads what others wrote; see `tests/fuzzing`."""

from __future__ import annotations

import sys
from pathlib import Path

from trials import Table

__all__ = ["soak_readers"]


def soak_readers(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many inputs for each reader, from its kept ones on."""
    sys.path.insert(0, str(project))
    from tests.fuzzing.all_readers import READERS
    from tests.fuzzing.loop import Search, place_of_trials

    for reader in READERS:
        with place_of_trials() as place:
            search = Search(reader, place, seed)
            search.run(trials)
        test = f"{reader.name}: inputs"
        table.rows[test] = [search.executions - len(search.violations), 0]
        for violation, data in search.violations.items():
            table.add(test, [f"{violation}: {data!r}"], f"{reader.name} {seed}")

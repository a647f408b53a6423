"""``python -m tests.fuzzing [READER ...]``: coverage-guided fuzzing of what reads files that others wrote.

FUZZ_SECONDS (30, of CPU) for each reader, FUZZ_SEED (1). FUZZ_KEEP=1 writes the smallest inputs that take most
branches to `tests/corpora`. What violates a property is printed with its input; 1 if anything did.
"""

from __future__ import annotations

import os
import sys
import time

from tests.fuzzing.all_readers import READERS
from tests.fuzzing.loop import Search, place_of_trials


def main(names: list[str]) -> int:
    """Fuzz the readers named, else all."""
    seconds, seed = float(os.environ.get("FUZZ_SECONDS", "30")), int(os.environ.get("FUZZ_SEED", "1"))
    bad = 0
    print(f"{'reader':12} | {'inputs':>8} | {'branches':>8} | {'queue':>6} | violations", flush=True)
    for reader in READERS:
        if names and reader.name not in names:
            continue
        with place_of_trials() as place:
            search = Search(reader, place, seed)
            search.run(1 << 40, time.process_time() + seconds)
            kept = f"; {search.keep()} kept" if os.environ.get("FUZZ_KEEP") else ""
        bad += len(search.violations)
        print(
            f"{reader.name:12} | {search.executions:8,} | {len(search.known):8,} | {len(search.queue):6,} | "
            f"{len(search.violations)}{kept}",
            flush=True,
        )
        for violation, data in search.violations.items():
            print(f"  {violation}\n    {data!r}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

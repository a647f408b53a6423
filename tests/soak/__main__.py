"""``python tests/soak [TEST ...]``: damaged documents and killed runs, and a table of what came of it.

Counts come from the environment: SOAK_POLICIES, SOAK_READERS and SOAK_DOCUMENTS (of each kind), SOAK_KILLS, SOAK_STORES
(of each kind of fault), SOAK_LAKES, SOAK_ICEBERG, SOAK_DATABASES, SOAK_CLUSTERS; SOAK_SEED draws other ones; SOAK_KEEP
names a folder for what broke something.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from clusters import soak_clusters
from databases import soak_databases
from iceberg import soak_iceberg
from kills import soak_kills
from lakes import soak_lakes
from policies import soak_policies
from readers import soak_readers
from records import soak_records
from stores import soak_stores
from trials import Table

PROJECT = Path(__file__).resolve().parents[2]
TESTS = {
    "policies": (soak_policies, "SOAK_POLICIES", 10_000),
    "readers": (soak_readers, "SOAK_READERS", 2000),
    "records": (soak_records, "SOAK_DOCUMENTS", 2000),
    "kills": (soak_kills, "SOAK_KILLS", 1000),
    "stores": (soak_stores, "SOAK_STORES", 200),
    "lakes": (soak_lakes, "SOAK_LAKES", 200),
    "iceberg": (soak_iceberg, "SOAK_ICEBERG", 200),
    "databases": (soak_databases, "SOAK_DATABASES", 600),
    "clusters": (soak_clusters, "SOAK_CLUSTERS", 1),
}


def main(names: list[str]) -> int:
    """Run the tests named, else all; 1 if anything was violated."""
    table, seed = Table(), int(os.environ.get("SOAK_SEED", "1"))
    for name in names or TESTS:
        test, variable, usual = TESTS[name]
        test(PROJECT, table, int(os.environ.get(variable, str(usual))), seed)
    print(table)
    return 1 if table.found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""dbt on DuckDB: Python models that let nothing through that does not hold, and a package of tests and hooks.

In a Python model of dbt-duckdb::

    from privpipe.dbt import release

    def model(dbt, session):
        return release(dbt, dbt.ref("visits"), "policies/visits.yaml")

``python -m privpipe.dbt`` prints where the dbt package is, for `packages.yml`.
"""

from __future__ import annotations

from privpipe.dbt.models import gate, package, release

__all__ = ["gate", "package", "release"]

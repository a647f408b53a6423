"""``python -m privpipe.dbt``: where the dbt package is."""

from __future__ import annotations

from privpipe.dbt.models import package

if __name__ == "__main__":
    print(package())

"""What a prediction looks at is the same on every engine."""

from __future__ import annotations

import pyarrow as pa

from privpipe.blocks import Facts
from privpipe.engines import Engine, Source
from privpipe.running.source_facts import TableSketch


def test_every_engine_estimates_alike(engine: Engine) -> None:
    rows = pa.table(
        {
            "age": [at % 50 for at in range(600)],
            "town": [None if at % 7 == 0 else f"town {at % 11}" for at in range(600)],
        }
    )
    found = engine.reduce_rows(
        engine.scan(Source(data=rows)), ["age", "town"], TableSketch({"both": ("age", "town")}), Facts()
    )
    assert found is not None
    true = {
        "age": 50,
        "town": 12,
        "both": len(set(zip(*(rows[name].to_pylist() for name in ("age", "town")), strict=True))),
    }
    assert found.rows == 600
    assert {name: found.distinct(name) for name in found.smallest} == true

"""Releases a table whose classes the driver may not collect; prints what was judged, and what collecting would say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privpipe as pp
from privpipe.blocks import ClassQuery
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.judging import paired_columns
from privpipe.running.run import release_with

RECORDS = 80_000
FIGURES = ("records", "classes", "guarantees", "measures", "suppressed_records", "passed")
OPTIONS = {"master": "local[2]", "shuffle_partitions": 2, "driver_bytes": 0}
CONF = {"spark.driver.maxResultSize": "1m"}


def source() -> pa.Table:
    """Some 60,000 classes, half of them of one record; no column has many values."""
    rng = np.random.default_rng(17)
    return pa.table(
        {
            "street": [f"s{at:03d}" for at in rng.integers(0, 300, RECORDS)],
            "born": rng.integers(0, 300, RECORDS),
            "ill": rng.choice(["a", "b", "c", None], RECORDS),
        }
    )


def policy(file: Path) -> pp.Policy:
    return pp.Policy.from_dict(
        {
            "version": 1,
            "name": "beyond",
            "source": {"path": str(file)},
            "columns": {
                "street": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
                "born": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [2, 20]}}},
                "ill": {"role": "sensitive"},
            },
            "transform": [{"generalize": {"levels": {"street": 0, "born": 1}, "suppress_at_most": 0.9}}],
            "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "ill", "l": 2}}],
            "measures": [{"average_risk": {}}],
            "seed": {"insecure": 5},
            "allow_insecure_seed": True,
        }
    )


def released(engine: Engine, asked: pp.Policy, target: Path) -> dict[str, Any]:
    verdict = release_with(engine, asked, target=str(target)).assessment.to_dict()
    return {name: verdict[name] for name in FIGURES if name in verdict}


def collected(engine: Engine, file: Path) -> str:
    """What comes of collecting the classes."""
    query = ClassQuery(keys=("street", "born"), columns=("ill",))
    try:
        return str(sum(len(block) for block in engine.classes(engine.scan(Source(data=str(file))), query)))
    except PrivpipeError as error:
        return type(error).__name__


def main(folder: Path) -> None:
    paired_columns.LARGEST_SAMPLE = 2_000  # the records looked at on the driver; they must fit into 1 MB, too
    file = folder / "source.parquet"
    pq.write_table(source(), file, row_group_size=20_000)
    found = {}
    for name, options in (("embedded", {}), ("spark", OPTIONS | {"conf": CONF})):
        with open_engine(name, options) as engine:
            found[name] = released(engine, policy(file), folder / name)
            found[f"{name} collected"] = collected(engine, file)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

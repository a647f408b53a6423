"""Judges a table whose class table the driver may not collect; prints the figures, and what collecting would say."""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from privpipe.blocks import ClassQuery, Facts, FactsRequest
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.models import DistinctLDiversity, KAnonymity

CLASSES = 150_000
ROWS = pa.table(
    {"k": [at % CLASSES for at in range(2 * CLASSES - 7)], "v": [f"v{at % 5}" for at in range(2 * CLASSES - 7)]}
)
OPTIONS = {
    "master": "local[2]",
    "shuffle_partitions": 4,
    "driver_bytes": 0,
    "conf": {"spark.driver.maxResultSize": "1m"},
}


def figures(engine: Engine) -> dict[str, str]:
    table = engine.scan(Source(data=ROWS))
    facts = engine.facts(table, FactsRequest(histograms=("v",)))
    query = ClassQuery(keys=("k",), columns=("v",), dictionaries=facts.histograms)
    found = {}
    for model in (KAnonymity(k=2), DistinctLDiversity(column="v", l=2)):
        found[model.name()] = repr(engine.reduce_classes(table, query, model, Facts(records=ROWS.num_rows)))
    try:
        engine.reduce_classes(table, query, KAnonymity(k=2), Facts(), where="driver")
        found["collected"] = "yes"
    except PrivpipeError as error:
        found["collected"] = type(error).__name__
    try:
        engine.distinct(table, ("k", "v"))
        found["distinct"] = "yes"
    except PrivpipeError as error:
        found["distinct"] = str(error)
    return found


if __name__ == "__main__":
    with open_engine("spark", OPTIONS) as spark:
        json.dump(figures(spark), sys.stdout)

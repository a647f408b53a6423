"""Release a stream batch by batch: one that fails is held back, joins the next one, and the stream goes on.

    export PRIVPIPE_SEED="$(privpipe seed)"
    spark-submit --master 'local[2]' pipelines/streaming/job.py --source /data/arriving --target /tmp/visits

The source is a folder in which Parquet files with `age`, `zip` and `illness` arrive, the target a Delta table. Every
batch is generalized to the same levels, and judged alone and together with all that was published before. What is held
back is in a private folder next to the target, and is counted, never shown; what else goes wrong ends the stream.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from privpipe.spark import release_batches

SCHEMA = "age long, zip string, illness string"
POLICY: dict[str, Any] = {
    "version": 1,
    "name": "visits",
    "columns": {
        "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"widths": [20]}}},
        "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
        "illness": {"role": "sensitive"},
    },
    "transform": [{"generalize": {"levels": {"age": 1, "zip": 2}}}],
    "guarantees": [{"k_anonymity": {"k": 3}}, {"l_diversity": {"column": "illness", "l": 2}}],
    "seed": {"from_env": "PRIVPIPE_SEED"},
    "report": {"write": False},
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish what is safe of a stream.")
    parser.add_argument("--source", required=True, help="folder in which Parquet files arrive")
    parser.add_argument("--target", required=True, help="Delta table to publish to; the checkpoint is next to it")
    options = parser.parse_args()
    sink = {"path": str(Path(options.target).absolute()), "format": "delta", "mode": "append"}
    publish = release_batches({**POLICY, "sink": sink})
    spark = SparkSession.builder.appName("privpipe-streaming").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    try:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(options.source)
        writer = stream.writeStream.foreachBatch(publish).option("checkpointLocation", f"{options.target}.checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
    finally:
        spark.stop()
    print(", ".join(f"{count} {kind}" for kind, count in sorted(publish.counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

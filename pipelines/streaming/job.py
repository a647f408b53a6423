"""Protect and judge a stream batch by batch: a batch that fails is held back, and the stream goes on.

    export PRIVPIPE_SEED="$(privpipe seed)"
    spark-submit --master 'local[2]' pipelines/streaming/job.py --source /data/arriving --target /tmp/visits

The source is a folder in which Parquet files with `age`, `zip` and `illness` arrive. Every batch is generalized to the
same levels, so classes of several batches are the same classes, and k records in each batch are k in all of them.
Other models (t-closeness, say) hold batch by batch alone. A batch without records has nothing to disclose and passes.
What was held back is counted, never shown; what else goes wrong ends the stream, as Spark's own error.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pyspark.sql import SparkSession

import privpipe as pp
from privpipe.errors import Refused
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize

SCHEMA = "age long, zip string, illness string"
ROLES = pp.Roles(quasi_identifiers=["age", "zip"], sensitive=["illness"])
HIERARCHIES = {"age": {"intervals": {"widths": [20]}}, "zip": {"redact": {"keep": "left"}}}
STAGE = Generalize(levels={"age": 1, "zip": 2})
SEED = {"from_env": "PRIVPIPE_SEED"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish what is safe of a stream.")
    parser.add_argument("--source", required=True, help="folder in which Parquet files arrive")
    parser.add_argument("--target", required=True, help="folder to publish to; its state lies beside it")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("privpipe-streaming").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    found = {"published": 0, "held back": 0}

    def publish(batch: Any, number: int) -> None:
        """Write a batch that passes, to a folder of its own: one that is tried again is not there twice."""
        released = STAGE.apply(batch, roles=ROLES, hierarchies=HIERARCHIES, seed=SEED, empty="pass")
        try:
            pp.check(released, [KAnonymity(k=3)], roles=ROLES, empty="pass")
        except Refused:
            found["held back"] += 1
            return
        released.write.mode("overwrite").parquet(f"{options.target}/batch={number}")
        found["published"] += 1

    try:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(options.source)
        writer = stream.writeStream.foreachBatch(publish).option("checkpointLocation", f"{options.target}.state")
        writer.trigger(availableNow=True).start().awaitTermination()
    finally:
        spark.stop()
    print(", ".join(f"{count} {name}" for name, count in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

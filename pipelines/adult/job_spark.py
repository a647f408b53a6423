"""The Adult release on Spark, for `spark-submit`.

    spark-submit --master 'local[2]' pipelines/adult/job_spark.py [--target DIR]
    spark-submit --master spark://spark-master:7077 pipelines/adult/job_spark.py --target /srv/published/adult

The session is the one spark-submit sets up; the engine takes it as it is. Executors must see the source and the
target under the same paths, and have privpipe in the interpreter that PYSPARK_PYTHON names.
Ends with privpipe's exit codes (with `--deploy-mode cluster` the cluster's own report tells the outcome).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import privpipe as pp
from privpipe.errors import PrivpipeError


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish the Adult release with Spark.")
    parser.add_argument("--policy", default=str(Path(__file__).resolve().parent / "release.yaml"))
    parser.add_argument("--target", help="publish here instead of the policy's sink")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("privpipe-adult").getOrCreate()
    try:
        result = pp.release(pp.Policy.load(options.policy), engine="spark", target=options.target)
        executors = spark.sparkContext.master
    except PrivpipeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        spark.stop()
    print(f"published {result.assessment.records:,} records to {result.path} on {executors}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

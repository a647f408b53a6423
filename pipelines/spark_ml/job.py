"""Protect the Adult table and make features of it in one Spark ML pipeline; save it, load it, apply it again.

    export PRIVPIPE_SEED="$(privpipe seed)"
    spark-submit --master 'local[2]' pipelines/spark_ml/job.py --target /tmp/adult-features

Hours are swapped among records of near ranks, quasi-identifiers generalized as little as k = 5 allows, and the gate
ends the pipeline where it does not hold. What is saved names the variable that keeps the seed, never the seed.
Ends with privpipe's exit codes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.sql import SparkSession

from privpipe.errors import PrivpipeError
from privpipe.models import KAnonymity
from privpipe.spark import Generalize, RankSwap, ReleaseGate

ADULT = Path(__file__).resolve().parents[1] / "adult"
COLUMNS = ("age", "sex", "education", "hours_per_week", "income")
SEED = {"from_env": "PRIVPIPE_SEED"}
ROLES = {"quasi_identifiers": ["age", "sex", "education"], "insensitive": ["hours_per_week", "income"]}
HIERARCHIES = {name: str(ADULT / "hierarchies" / f"{name}.csv") for name in ROLES["quasi_identifiers"]}


def pipeline() -> Pipeline:
    """Two stages that protect, a gate, and two of Spark's own."""
    guarantees = [KAnonymity(k=5)]
    return Pipeline(
        stages=[
            RankSwap(inputCols=["hours_per_week"], p=0.05, seed=SEED),
            Generalize(
                search="optimal",
                suppressAtMost=0.05,
                guarantees=guarantees,
                roles=ROLES,
                hierarchies=HIERARCHIES,
                seed=SEED,
            ),
            ReleaseGate(guarantees=guarantees, roles=ROLES),
            StringIndexer(inputCols=["age", "sex", "education"], outputCols=["age_code", "sex_code", "education_code"]),
            VectorAssembler(
                inputCols=["age_code", "sex_code", "education_code", "hours_per_week"], outputCol="features"
            ),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Features of the Adult table, protected.")
    parser.add_argument("--target", required=True, help="folder for the fitted pipeline and the features")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("privpipe-spark-ml").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    try:
        source = ADULT / "data" / "adult.csv"
        people = spark.read.csv(source.as_uri(), sep=";", header=True, inferSchema=True).select(*COLUMNS)
        pipeline().fit(people).write().overwrite().save(f"{options.target}/pipeline")
        model = PipelineModel.load(f"{options.target}/pipeline")
        features = model.transform(people).select("features", "income")
        features.write.mode("overwrite").parquet(f"{options.target}/features")
        records = spark.read.parquet(f"{options.target}/features").count()
    except PrivpipeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        spark.stop()
    print(f"{records:,} records have features in {options.target}/features")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.spark_classes FILE``: an archive of the classes of Spark; with it a JVM starts in half the time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["ARCHIVE", "QUICK", "java_options"]

ARCHIVE = Path(__file__).resolve().parent.parent / "build" / "spark-classes.jsa"
# Jobs of a few rows end before the JVM's second compiler would have paid for itself.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java_options() -> str:
    """Options of the JVMs of the tests; a JVM silently ignores an archive of other jars.

    An archive whose path has a space is left out: ``SPARK_SUBMIT_OPTS`` is split at spaces.
    """
    if not ARCHIVE.is_file() or " " in str(ARCHIVE):
        return QUICK
    return f"{QUICK} -XX:SharedArchiveFile={ARCHIVE}"


def write_archive(file: Path) -> None:
    """Run small jobs in a JVM that writes its classes as it ends."""
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} -XX:ArchiveClassesAtExit={file} -Xlog:disable"
    import pyarrow as pa
    from pyspark import SparkContext

    from privpipe.engines import Source, open_engine

    table = pa.table({"town": ["a", "b"] * 4, "pay": [1, 2] * 4})
    with open_engine("spark", {"master": "local[2]", "shuffle_partitions": 2, "driver_bytes": 0}) as engine:
        engine.distinct(engine.scan(Source(data=table)), table.column_names)
    jvm = SparkContext._gateway.proc
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    from tests.conftest import java_is_missing

    missing = java_is_missing()
    if missing:
        print(f"no archive of Spark's classes: {missing}")
    else:
        ARCHIVE.parent.mkdir(exist_ok=True)
        write_archive(Path(sys.argv[1]).absolute())

"""What was measured of each engine: the constants of a run's cost (`docs/scale.md`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["COUNTED_HERE", "COUNTED_HERE_ROWS", "MEASURED", "STORED", "STORED_ROWS", "EngineCosts"]

MEGABYTE = 1e6


@dataclass(frozen=True, kw_only=True)
class EngineCosts:
    """What was measured of an engine; bytes as factors of what they are read from or made of.

    Parameters
    ----------
    base_read : float
        Bytes whatever the table: libraries, the documents of the run.
    source_reads, release_reads : float
        Times that the bytes of the source, and of the release, are read.
    packs : float
        How well the engine packs the files it writes, beside the embedded one.
    kept_reads : float
        Times that the rows in memory are read, files and kept tables together; Spark's counter tells them not apart.
    staged_reads, staged_reads_by_key : float
        Times that rows staged on disk are read: always, and besides for each quasi-identifier.
    laid_reads : float
        Times that they are read for each stage that lays rows anew.
    shuffles, shuffles_by_count : float
        Times that the rows cross between workers: always, and for each count of classes.
    base_driver : float
    driver_rows, driver_rows_on_disk : float
        Times the rows in memory that the process holds: where they fit, and where they are staged on disk.
    driver_laid : float
        The same for each stage that lays rows anew.
    base_cpu : float
    worker_read, worker_cpu : float
        Bytes of libraries that a worker process reads, and seconds until it has loaded or compiled what it needs.
    driver_beside_workers : float
        Bytes that the process holds where the rows lie in worker processes.
    tells_driver : bool
        Whether what the driver holds was measured.
    measured_rows : int
        The largest table of which costs were measured.
    cpu_by_column, cpu_by_key, cpu_by_stage : float
        Seconds a row for each column, each quasi-identifier, and each stage that lays rows anew.
    cpu_by_row_on_disk : float
        Seconds a row besides, where packed rows do not fit into half of the memory: the database spills them, and they
        are counted in parts.
    """

    base_read: float = 0.0
    source_reads: float = 1.0
    release_reads: float = 1.0
    packs: float = 1.0
    kept_reads: float = 0.0
    staged_reads: float = 0.0
    staged_reads_by_key: float = 0.0
    laid_reads: float = 0.0
    shuffles: float = 0.0
    shuffles_by_count: float = 0.0
    base_driver: float = 0.0
    driver_rows: float = 0.0
    driver_rows_on_disk: float = 0.0
    driver_laid: float = 0.0
    base_cpu: float = 0.0
    cpu_by_column: float = 0.0
    cpu_by_key: float = 0.0
    cpu_by_stage: float = 0.0
    cpu_by_row_on_disk: float = 0.0
    worker_read: float = 0.0
    worker_cpu: float = 0.0
    driver_beside_workers: float = 0.0
    tells_driver: bool = True
    measured_rows: int = 0


MEASURED: Mapping[str, EngineCosts] = {
    "embedded": EngineCosts(
        base_read=28 * MEGABYTE,
        release_reads=3.6,
        staged_reads=7.0,
        staged_reads_by_key=0.55,
        laid_reads=1.2,
        base_driver=250 * MEGABYTE,
        driver_rows=2.8,
        driver_rows_on_disk=2.0,
        base_cpu=3.0,
        cpu_by_column=0.2e-6,
        cpu_by_key=0.75e-6,
        cpu_by_stage=0.7e-6,
        measured_rows=10_000_000,
    ),
    "dask": EngineCosts(
        base_read=34 * MEGABYTE,
        source_reads=2.8,
        release_reads=3.4,
        packs=0.85,
        shuffles=1.35,
        shuffles_by_count=0.5,
        base_driver=350 * MEGABYTE,
        driver_rows=4.2,
        base_cpu=2.5,
        cpu_by_column=0.35e-6,
        cpu_by_key=0.7e-6,
        cpu_by_stage=1.0e-6,
        worker_read=47 * MEGABYTE,
        worker_cpu=4.0,
        driver_beside_workers=310 * MEGABYTE,
        measured_rows=10_000_000,
    ),
    "spark": EngineCosts(
        source_reads=0.0,
        release_reads=0.0,
        kept_reads=11.0,
        shuffles=1.0,
        shuffles_by_count=0.83,
        base_cpu=40.0,
        cpu_by_column=0.9e-6,
        cpu_by_key=2.0e-6,
        cpu_by_stage=6.0e-6,
        worker_cpu=25.0,
        tells_driver=False,
        measured_rows=10_000_000,
    ),
}
"""One thread or many: seconds are of all processors together."""
STORED_ROWS = 200_000
"""From so many rows on the embedded engine stores a table in its database, its texts as numbers."""
STORED = EngineCosts(
    base_read=33 * MEGABYTE,
    source_reads=1.2,
    release_reads=2.2,
    staged_reads=7.0,
    laid_reads=1.2,
    base_driver=340 * MEGABYTE,
    driver_rows=0.6,
    driver_rows_on_disk=0.6,
    driver_laid=1.7,
    base_cpu=3.5,
    cpu_by_column=0.055e-6,
    cpu_by_key=0.13e-6,
    cpu_by_stage=0.9e-6,
    cpu_by_row_on_disk=0.7e-6,
    measured_rows=100_000_000,
)
"""Of such tables."""
COUNTED_HERE_ROWS = 2_000_000
"""Up to so many rows Spark's driver counts near-unique columns."""
COUNTED_HERE = replace(MEASURED["spark"], kept_reads=10.0, shuffles=0.35, shuffles_by_count=0.3)
"""Of such tables."""

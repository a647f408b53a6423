"""Tables of table formats: by the session's own connector where it has one, else file by file on the workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from privpipe.engines.base.lakes import delta_place, has_deltalake, lake_of
from privpipe.engines.base.source import Source
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.pieces import lake_frame
from privpipe.engines.spark.raw_frames import raw_frame
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.typed import RawFrame, typed_table
from privpipe.errors import EngineError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["lake_source"]

NO_CONNECTOR = ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")


def lake_source(session: SparkSession, source: Source) -> tuple[SparkTable, bool]:
    """The table of a Delta or Iceberg source, and whether it had better be kept.

    An Iceberg table is the one of pyiceberg's catalogue: a catalogue of the session may know another by that name.

    Raises
    ------
    UsageError
        Neither the session nor an installed package reads the format.
    """
    connected = _connected(session, source) if source.is_path else None
    if connected is not None:
        return typed_table(connected, source.types), False
    if source.is_path and not has_deltalake():
        raise UsageError(
            "this Spark session has no Delta Lake; start it with the package io.delta:delta-spark "
            "(`engines.spark.conf: {spark.jars.packages: ...}`), or install deltalake: pip install 'privpipe[delta]'"
        )
    lake = lake_of(source)
    assert lake is not None
    return lake_frame(session, source, lake), True


def _connected(session: SparkSession, source: Source) -> RawFrame | None:
    """A Delta table as the session reads it; None where it has no connector."""
    place = delta_place(source)
    reader = session.read.format("delta")
    if source.version is not None:
        reader = reader.option("versionAsOf", source.version)
    elif source.timestamp is not None:
        reader = reader.option("timestampAsOf", source.timestamp)
    try:
        with reported("open the Delta table"):
            return raw_frame(reader.load(place if "://" in place else os.path.abspath(place)))
    except EngineError as error:
        if not any(sign in str(error) for sign in NO_CONNECTOR):
            raise
    return None

"""What pyspark 3.5 says otherwise than 4: Arrow in and out, sets of groups, and which versions are served at all."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privpipe.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "active_context",
    "arrow_table",
    "coalesces_kept",
    "frame_of",
    "grouped_by_each",
    "require_connect",
    "require_version",
]

OLDEST = (3, 5)
ROWS_A_PIECE = 65536


def require_version() -> None:
    """Refuse a pyspark that lacks what every run needs.

    Raises
    ------
    UnsupportedError
        A pyspark below 3.5, by its version.
    """
    import pyspark

    if _version() < OLDEST:
        raise UnsupportedError(
            f"pyspark {pyspark.__version__} is too old: privpipe needs 3.5 or newer (3.5 and 4.x are tested); "
            "`pip install 'privpipe[spark]'` brings one"
        )


def require_connect() -> None:
    """Refuse Spark Connect of a pyspark before 4, whose server comes apart from it.

    Raises
    ------
    UnsupportedError
    """
    import pyspark

    if _version() < (4, 0):
        raise UnsupportedError(
            f"Spark Connect needs pyspark 4.0 or later, and this is {pyspark.__version__}; with 3.5 give a `master` "
            "or run under spark-submit"
        )


def coalesces_kept() -> bool:
    """Whether kept tables may be cut into fewer parts: 3.5.0 then loses rows of joins (SPARK-45592)."""
    import pyspark

    return tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:3])) > (3, 5, 0)


def active_context() -> Any:
    """The context of a classic session of this process, or nothing."""
    for name in ("pyspark.core.context", "pyspark.context"):
        context = getattr(sys.modules.get(name), "SparkContext", None)
        if getattr(context, "_active_spark_context", None) is not None:
            return context
    return None


def arrow_table(frame: DataFrame) -> pa.Table:
    """All rows of a frame, here; instants in the zone of the session."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema)
    own: Any = frame
    return pa.Table.from_batches([batch.cast(schema) for batch in own._collect_as_arrow()], schema)


def frame_of(session: SparkSession, rows: pa.Table, struct: StructType) -> DataFrame:
    """A frame of rows that are here."""
    if _version() >= (4, 0):
        return session.createDataFrame(rows, schema=struct)
    # 3.5 takes no Arrow table, and pandas would turn integers with gaps into floats.
    pieces = [(bytearray(_packed(batch)),) for batch in rows.to_batches(max_chunksize=ROWS_A_PIECE)]
    if not pieces:
        return session.createDataFrame([], schema=struct)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0):
                yield from pa.ipc.open_stream(piece.as_buffer())

    return session.createDataFrame(pieces, schema="piece binary").mapInArrow(unpack, struct)


def grouped_by_each(frame: DataFrame, keys: Sequence[str], mark: str, figures: Mapping[str, str]) -> pa.Table:
    """Figures of the groups of each key alone, counted in one pass.

    Parameters
    ----------
    keys : sequence of str
        Columns of the frame that need no quotes; at least two.
    mark : str
        A column of the answer: `grouping_id` of the key that a row belongs to.
    figures : mapping of str to str
        Columns of the answer to aggregates in SQL.
    """
    from pyspark.sql import functions as sf

    if hasattr(frame, "groupingSets"):
        columns = [sf.col(key) for key in keys]
        asked = [sf.expr(text).alias(name) for name, text in figures.items()]
        grouped = frame.groupingSets([[key] for key in columns], *columns)
        return arrow_table(grouped.agg(sf.grouping_id().alias(mark), *asked))
    view = f"privpipe_{secrets.token_hex(8)}"
    frame.createOrReplaceTempView(view)
    try:
        told = ", ".join([*keys, f"grouping_id() AS {mark}", *(f"{text} AS {name}" for name, text in figures.items())])
        sets = ", ".join(f"({key})" for key in keys)
        return arrow_table(frame.sparkSession.sql(f"SELECT {told} FROM {view} GROUP BY GROUPING SETS ({sets})"))
    finally:
        frame.sparkSession.catalog.dropTempView(view)


def _version() -> tuple[int, ...]:
    import pyspark

    return tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))


def _packed(batch: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())

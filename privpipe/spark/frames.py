"""Frames that a stage of Spark ML is given: DataFrames of rows that are all there."""

from __future__ import annotations

from typing import Any

from privpipe.errors import UnsupportedError, UsageError

__all__ = ["require_rows_at_hand"]

STREAMING = """{owner}: a streaming DataFrame has no end, and what is learnt or judged is so of all rows. \
Do it batch by batch:

    def publish(batch, number):
        released = stage.apply(batch, seed=seed)
        with pp.checked(released, [KAnonymity(k=5)], roles=roles) as safe:
            safe.write.mode("append").parquet(target)

    stream.writeStream.foreachBatch(publish).start()
"""


def require_rows_at_hand(owner: str, frame: Any) -> None:
    """Refuse a streaming DataFrame, and what is no DataFrame of Spark.

    Raises
    ------
    UnsupportedError
        It is a stream; the message shows `foreachBatch`.
    UsageError

    Examples
    --------
    >>> require_rows_at_hand("RankSwap", [])
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: RankSwap: a stage of Spark ML takes a Spark DataFrame, not list; ...
    """
    streams = getattr(frame, "isStreaming", None)
    if streams is None:
        kind = type(frame).__name__
        raise UsageError(
            f"{owner}: a stage of Spark ML takes a Spark DataFrame, not {kind}; `stage.apply` takes other frames"
        )
    if streams:
        raise UnsupportedError(STREAMING.format(owner=owner))

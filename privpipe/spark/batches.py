"""The function for `foreachBatch` that releases each batch of a stream with what was released before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from privpipe.border import bordered, callers_own
from privpipe.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.running.stream_batches import BatchOutcome, StreamBatches

__all__ = ["BatchReleases", "release_batches"]


QUERY = "sql.streaming.queryId"
"""The property of the thread in which Spark runs a batch: the id that the checkpoint of its query keeps."""


@bordered
class BatchReleases:
    """What `release_batches` returns; `foreachBatch` calls it with each batch and its number."""

    def __init__(self, batches: StreamBatches) -> None:
        self._batches = batches

    @property
    def last(self) -> BatchOutcome | None:
        """What became of the last batch of this process; None before the first."""
        return self._batches.last

    @property
    def counts(self) -> Mapping[str, int]:
        """Batches of this process: ``published``, ``held back``, ``empty``, ``repeated``."""
        return dict(self._batches.counts)

    @property
    def state(self) -> str:
        """The private folder of the stream."""
        return str(self._batches.folder)

    def __call__(self, frame: Any, batch: int) -> None:
        """Release a batch with the rows held back before it, or hold it back too.

        Parameters
        ----------
        frame : pyspark.sql.DataFrame
        batch : int
            Its number in the query.
        """
        self._batches.take(frame, _query(frame), batch)

    def __repr__(self) -> str:
        done = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items()) or "no batch yet"
        return f"BatchReleases({done})"


@bordered
def release_batches(
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str],
    *,
    state: str | os.PathLike[str] | None = None,
    start: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> BatchReleases:
    """A function for `foreachBatch`: each batch is released once, and judged with all that was released before it.

    A batch that fails a guarantee is held back: its rows are kept in a private folder, and the next batch with records
    is released together with them, or held back too. What else goes wrong ends the query; a batch that Spark delivers
    again is published once.

    Parameters
    ----------
    policy : Policy, mapping or path
        Its sink takes `mode: append` (a Delta or Iceberg table); its `source:` is not read.
    state : str or path, optional
        A folder for only one stream, readable only by its owner, which the workers reach at the same path. Default:
        `stream` in the work area of the sink. A relative path starts at the policy file.
    start : str, optional
        ``<query id>:<batch>``: a batch that is taken although it does not follow the last one. A batch of another
        query, or of a new state folder, is refused otherwise; the error shows what to give, and what to check first.
    progress : callable, optional
        Called with each step: `privpipe.running.stream_batches.STEPS`, and between them those of `privpipe.release`.

    Returns
    -------
    BatchReleases
        `last` and `counts` show what became of the batches.

    Raises
    ------
    UsageError
        The policy, or the place of the state folder, does not fit.

    Examples
    --------
    >>> policy = {
    ...     "columns": {"age": {"role": "quasi_identifier"}},
    ...     "guarantees": [{"k_anonymity": {"k": 5}}],
    ...     "sink": {"path": "lake/visits", "format": "delta", "mode": "append"},
    ... }
    >>> publish = release_batches(policy)  # stream.writeStream.foreachBatch(publish).option("checkpointLocation", ...)
    >>> publish
    BatchReleases(no batch yet)
    """
    from privpipe.policy import Policy
    from privpipe.running.stream_batches import StreamBatches

    if not isinstance(policy, Policy):
        policy = Policy.from_dict(policy) if isinstance(policy, Mapping) else Policy.load(policy)
    if start is not None and not isinstance(start, str):
        raise UsageError(f"start: must be a text, <query id>:<batch>, not {type(start).__name__}")
    return BatchReleases(StreamBatches(policy, state=state, start=start, progress=callers_own(progress)))


def _query(frame: Any) -> str:
    """The id of the query that a batch is of.

    Raises
    ------
    UnsupportedError
        Spark Connect, which does not show it.
    UsageError
        No query is running in this thread.
    """
    from privpipe.engines.spark.session import is_connect
    from privpipe.engines.spark.sources import is_spark_frame, refuse_streaming

    if not is_spark_frame(frame) or not hasattr(frame, "sparkSession"):
        raise UsageError(f"release_batches: a batch is a Spark DataFrame, not {type(frame).__name__}")
    refuse_streaming(frame)
    session = frame.sparkSession
    if is_connect(session):
        raise UnsupportedError(
            "release_batches: Spark Connect does not show which query a batch is of, so batches of a new checkpoint, "
            "which are numbered from 0 again, could not be distinguished from repeats; use a classic session"
        )
    found = session.sparkContext.getLocalProperty(QUERY)
    if not found:
        raise UsageError(
            "release_batches: no streaming query is running in this thread, so the batch has no number that means "
            "something; hand the function to stream.writeStream.foreachBatch, or use privpipe.release for one table"
        )
    return str(found)

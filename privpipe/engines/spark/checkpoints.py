"""Frames whose rows lie on the disks of the executors, and are never computed a second time."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.session import is_connect
from privpipe.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["checkpointed", "released"]

log = logging.getLogger("privpipe.engines.spark")
FORBIDDEN = re.compile(r"\[NOT_(IMPLEMENTED|SUPPORTED)")


def checkpointed(frame: DataFrame, *, lasting: bool = False) -> DataFrame:
    """The frame with its rows as they are now.

    A checkpoint has no plan to compute lost rows from: when the executor that held some is gone, whatever reads them
    fails. `persist` would compute them again, from sources that may have changed, and say nothing.

    Parameters
    ----------
    lasting : bool
        For the caller, after the run: where the session has a checkpoint directory the rows are written there, which
        outlives executors.

    Raises
    ------
    UnsupportedError
        The session allows no checkpoints.
    DataError, EngineError
        The frame cannot be computed.
    """
    with reported("evaluate the frame"):
        try:
            return frame.checkpoint() if lasting and _has_directory(frame) else frame.localCheckpoint()
        except Exception as error:
            if not (isinstance(error, NotImplementedError) or FORBIDDEN.search(str(error))):
                raise
    raise UnsupportedError(
        "this Spark session allows no checkpoints, so the rows that are judged could not be held, and every later use "
        "of the frame would compute others: publish by `privpipe.release` or `Policy.release`, which judge the files "
        "that they wrote, or write the frame to a table and hand over that"
    )


def released(frame: DataFrame) -> None:
    """Drop the rows of a checkpoint, on the executors or in the checkpoint directory."""
    if is_connect(frame.sparkSession):
        return  # the server drops them when this process has dropped the frame
    own: Any = frame
    try:
        rows = own._jdf.queryExecution().logical().rdd()
        rows.unpersist(False)
        if rows.getCheckpointFile().isDefined():
            context: Any = frame.sparkSession.sparkContext
            path = context._jvm.org.apache.hadoop.fs.Path(rows.getCheckpointFile().get())
            path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)
    except Exception as error:  # noqa: BLE001 - a session that is gone has dropped them already
        log.debug("not released: %s", type(error).__name__)


def _has_directory(frame: DataFrame) -> bool:
    session = frame.sparkSession
    return not is_connect(session) and session.sparkContext.getCheckpointDir() is not None

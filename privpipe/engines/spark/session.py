"""The Spark session: the active one where there is one, else a quiet one on the loopback address; checkpoints."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from privpipe.engines.readers.source_facts import SMALL_BYTES
from privpipe.engines.spark.failures import PATIENCE, reported, require_master
from privpipe.engines.spark.versions import active_context, require_connect, require_version
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.private_files import new_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DRIVER_BYTES", "Options", "checkpointed", "hush_py4j", "is_connect", "open_session", "released"]


log = logging.getLogger("privpipe.engines.spark")
LOOPBACK = re.compile(r"^(local(\[.*\])?|local-cluster\[.*\]|spark://(127\.0\.0\.1|localhost|\[::1\]):\d+)$")
DRIVER_BYTES = SMALL_BYTES
DAEMON = "privpipe.engines.spark.daemon"
"""Named, not imported: Spark runs it as a program."""
QUIET = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the engine, as under ``engines: {spark: ...}`` of a policy.

    Parameters
    ----------
    master : str, optional
        Default: that of ``spark-submit`` or of the active session, else ``local[*]``.
    remote : str, optional
        URL of a Spark Connect server; instead of `master`.
    conf : mapping of text to text
        Spark configuration of a session that is started; ignored for one that runs already.
    cache : bool
        Whether costly intermediate tables are persisted; serverless Spark forbids it.
    shuffle_partitions : int, optional
        ``spark.sql.shuffle.partitions`` while the engine is open. Default: by the size of the tables.
    driver_bytes : int
        Tables of at most so many bytes, and of no more than two million records, are worked on by the driver; 0: all
        work is Spark's. Default: 64 MiB.
    patience : float
        Seconds until a run is given up whose master does not answer, or whose tasks no executor takes; of a session
        that is started here.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: bool = True
    shuffle_partitions: int | None = None
    driver_bytes: int = DRIVER_BYTES
    patience: float = PATIENCE

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self:
        """Options from a policy, checked.

        Raises
        ------
        UsageError
            An unknown option, or a value of the wrong type.

        Examples
        --------
        >>> Options.read({"master": "local[2]", "cache": False}).cache
        False
        """
        known: dict[str, Any] = {
            "master": str,
            "remote": str,
            "conf": Mapping,
            "cache": bool,
            "shuffle_partitions": int,
            "driver_bytes": int,
            "patience": int | float,
        }
        for name, value in options.items():
            if name not in known:
                raise UsageError(f"engines.spark: unknown option {name!r}{did_you_mean(name, known)}")
            if not isinstance(value, known[name]) or (known[name] is not bool and isinstance(value, bool)):
                raise UsageError(f"engines.spark.{name} must be {_said(known[name])}, got {type(value).__name__}")
        if "master" in options and "remote" in options:
            raise UsageError("engines.spark: give `master` or `remote`, not both")
        if not 0 < options.get("patience", 1) < float("inf"):
            raise UsageError("engines.spark.patience must be a number of seconds above 0")
        if options.get("driver_bytes", 0) < 0:
            raise UsageError("engines.spark.driver_bytes must be at least 0")
        if options.get("shuffle_partitions", 1) < 1:
            raise UsageError("engines.spark.shuffle_partitions must be at least 1")
        conf = {str(name): _as_text(value) for name, value in dict(options.get("conf", {})).items()}
        return cls(**{**options, "conf": conf})


def open_session(options: Options) -> tuple[SparkSession, bool]:
    """A session, and whether it was started here (and is to be stopped by the caller)."""
    require_version()
    if options.remote is not None:
        require_connect()
    from pyspark.sql import SparkSession

    # Workers would take whatever `python3` is first on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    hush_py4j()
    running = _active()
    with reported("open a session"):
        if options.remote is not None:
            if running is not None and is_connect(running):
                session, started = running, False
            else:
                session, started = _remote(options), True
        elif running is not None:
            session, started = running, False
        else:
            builder = SparkSession.builder
            settings = _settings(options)
            require_master(settings.get("spark.master", ""), options.patience)
            for name, value in settings.items():
                builder = builder.config(name, value)
            session, started = builder.getOrCreate(), True
        if not started and (options.conf or options.master):
            log.info(
                "the Spark session that is already running is used unchanged; `master` and `conf` change nothing in it"
            )
    return session, started


def hush_py4j() -> None:
    """At DEBUG, py4j logs what it sends: functions with the keys and values they hold."""
    logger = logging.getLogger("py4j")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def is_connect(session: Any) -> bool:
    """Whether a session (or a frame) is of Spark Connect.

    Examples
    --------
    >>> is_connect(object())
    False
    """
    return type(session).__module__.startswith("pyspark.sql.connect")


def _active() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None and active_context() is not None:
        return SparkSession.builder.getOrCreate()  # active in another thread
    if session is None and "pyspark.sql.connect.session" in sys.modules:
        session = sys.modules["pyspark.sql.connect.session"].SparkSession.getActiveSession()
    return session


def _remote(options: Options) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(options.remote or "")
    starts_server = LOOPBACK.match(options.remote or "")
    here = QUIET | _spilling() if starts_server else {}
    for name, value in {**here, **options.conf}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _settings(options: Options) -> dict[str, str]:
    """Configuration of a session started here; ``spark-submit`` has its own say in all but the first two."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    if options.master is not None:
        settings["spark.master"] = options.master
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not launched by spark-submit
        master = settings.setdefault("spark.master", os.environ.get("MASTER", "local[*]"))
        settings |= QUIET | {"spark.app.name": "privpipe"}
        settings["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty()).lower()
        if LOOPBACK.match(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings |= {
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.memory": f"{_quarter_of_memory()}m",
                "spark.driver.maxResultSize": "0",  # what is collected has to fit the driver, not a gigabyte
                "spark.python.daemon.module": DAEMON,
            } | _spilling()
    return settings | dict(options.conf)


@functools.cache
def _spilling() -> dict[str, str]:
    """Where a Spark of this process spills: one folder as long as it lives, since the JVM never asks again."""
    return {"spark.local.dir": str(new_folder("spark"))}


def _quarter_of_memory() -> int:
    """Megabytes for a driver that is its own executor: a quarter of the machine, 1 to 16 GB."""
    try:
        megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError, AttributeError):  # unknown on this platform
        return 2048
    return min(max(megabytes // 4, 1024), 16384)


def _said(kind: Any) -> str:
    return {str: "text", bool: "true or false", int: "an integer", int | float: "a number"}.get(kind, "a mapping")


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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

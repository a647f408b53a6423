"""Functions of Arrow batches sent to the workers: mapped lazily, or folded into one result."""

from __future__ import annotations

import gc
import logging
import pickle
import sys
import zipimport
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from privpipe.engines.spark.failures import guarded, in_step, reported, sealed, told, unsealed
from privpipe.engines.spark.spark_table import Layout
from privpipe.engines.spark.versions import arrow_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from privpipe.engines.distributed.collection import Room

__all__ = ["boxed", "fold", "map_batches", "map_raw", "map_struct", "results_of", "settle_modules"]

R = TypeVar("R")
log = logging.getLogger("privpipe.engines.spark")
Batches = Iterator[pa.RecordBatch]


def map_batches(frame: DataFrame, function: Callable[[Batches], Batches], layout: Layout) -> DataFrame:
    """The frame's batches, partition by partition, through a function whose batches have this layout."""
    return map_struct(frame, function, layout.struct)


def map_struct(frame: DataFrame, function: Callable[[Batches], Batches], struct: StructType) -> DataFrame:
    """As `map_batches`, with a schema of Spark's."""
    return frame.mapInArrow(_on_worker(function), struct)


def map_raw(frame: DataFrame, function: Callable[[Batches], Batches], schema: str) -> DataFrame:
    """As `map_batches`, with a schema in Spark's own words."""
    return frame.mapInArrow(_on_worker(function), schema)


def _on_worker(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """The function as workers run it."""
    safe = guarded(function)

    def run(batches: Batches) -> Batches:
        settle_modules()
        yield from safe(batches)

    return run


_modules_seen = 0


def settle_modules() -> None:
    """Spare a worker what it would do before and after each task for every module it has loaded.

    Spark notifies a worker's finders of modules that files may have changed, and each finder of an archive then reads
    its directory again: so these are dropped, and made again from the directory already read where they are needed.
    And Spark collects garbage after each task, which looks at every object of every module: so those are set aside.
    Together some 0.2 s per task.
    """
    global _modules_seen
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache.pop(path, None)
    # Only when modules have come: what is set aside in a circle is never freed.
    if len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        gc.freeze()


def fold(
    frame: DataFrame,
    measure: Callable[[Batches], Iterator[R]],
    merge: Callable[[R, R], R],
    step: str,
    room: Room | None = None,
) -> R | None:
    """Results of all partitions, merged there and then here; None when there is none.

    Parameters
    ----------
    measure : callable
        From the batches of one partition to any number of results.
    merge : callable
        Associative and commutative.
    step : str
        For errors.
    room : Room, optional
        For results that may be as large as the frame: they are measured on the workers before they are collected.
    """

    def run(batches: Batches) -> Batches:
        for result in _merged(measure(batches), merge):
            yield boxed(result)

    found: R | None = None
    for result in results_of(frame, run, step, room):
        found = result if found is None else merge(found, result)
    return found


def results_of(
    frame: DataFrame, function: Callable[[Batches], Batches], step: str, room: Room | None = None
) -> Iterator[Any]:
    """What a function boxed on the workers, one result after another.

    Errors of ours come as results too, so that no task fails and no log fills.
    """

    def run(batches: Batches) -> Batches:
        try:
            yield from function(batches)
            return
        except Exception as error:  # noqa: BLE001 - a message may quote a cell; its kind travels as a result
            problem = sealed(told(error))
        yield pa.record_batch([pa.array([problem]), pa.nulls(1, pa.binary())], names=["problem", "result"])

    log.debug("%s", step)
    with reported(step):
        boxes = frame.mapInArrow(_on_worker(run), "problem string, result binary")
        table = arrow_table(boxes) if room is None else _within(boxes, room)
        problems = [unsealed(text) for text in table.column("problem").to_pylist() if text is not None]
        # The order of partitions is arbitrary: of several problems, the same one every time.
        for problem in sorted((found for found in problems if found is not None), key=str):
            raise in_step(problem, step)
    for boxed in table.column("result"):
        yield pickle.loads(boxed.as_buffer())


def _within(boxes: DataFrame, room: Room) -> pa.Table:
    """Boxed results, computed once, and collected only if they are within the limit."""
    from pyspark.sql import functions as sf

    kept = boxes.persist()
    try:
        (needed,) = kept.agg(sf.sum(sf.octet_length("result"))).collect()[0]
        room.take(int(needed or 0))
        return arrow_table(kept)
    finally:
        kept.unpersist()


def _merged(results: Iterator[R], merge: Callable[[R, R], R]) -> Iterator[R]:
    found: R | None = None
    for result in results:
        found = result if found is None else merge(found, result)
    if found is not None:
        yield found


def boxed(result: Any) -> pa.RecordBatch:
    """A result as the one row that carries it to the driver."""
    from pyspark import cloudpickle

    # A class of the caller's own script pickles by value.
    data = pa.array([cloudpickle.dumps(result)], pa.binary())
    return pa.record_batch([pa.nulls(1, pa.string()), data], names=["problem", "result"])

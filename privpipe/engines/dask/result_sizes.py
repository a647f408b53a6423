"""Bytes of results, measured where they are: in the task that made them, before they travel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from cloudpickle import CloudPickler

from privpipe.engines.distributed.collection import FEWER, Room

__all__ = ["Admit", "Bounded", "Measured", "Share", "result_bytes", "room_for"]


RAISE = f"raise `collected_bytes` under `engines.dask`, {FEWER}"


class _Meter:
    """A file that only counts."""

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.bytes += size
        return size


class _Sizer(CloudPickler):
    """Counts what pickles; arrays are counted without being copied."""

    def __init__(self, meter: _Meter) -> None:
        self.meter = meter
        super().__init__(meter, protocol=5)

    def reducer_override(self, value: Any) -> Any:
        plain = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if plain or isinstance(value, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
            self.meter.bytes += value.nbytes
            return int, ()
        return super().reducer_override(value)


def result_bytes(value: Any) -> int:
    """Bytes of a result as it travels, roughly.

    Examples
    --------
    >>> result_bytes(None) < 10, result_bytes([np.zeros(1000)]) // 1000, result_bytes("x" * 5000) // 1000
    (True, 8, 5)
    """
    meter = _Meter()
    _Sizer(meter).dump(value)
    return meter.bytes


def room_for(what: str, limit: int) -> Room:
    """What results may take in this process."""
    return Room("dask", what, limit, RAISE)


@dataclass(frozen=True)
class Admit:
    """Adds the bytes of a result to those of the others, and returns it; raises as `Room.take`."""

    room: Room

    def __call__(self, value: Any) -> Any:
        self.room.take(result_bytes(value))
        return value


@dataclass(frozen=True, repr=False)
class Measured:
    """A result's size, and the result itself where it is within its share."""

    size: int
    value: Any = None
    is_whole: bool = True


@dataclass(frozen=True)
class Share:
    """Measures results on a worker: those within their share of the limit come along, others wait."""

    bytes: float

    def __call__(self, value: Any) -> Measured:
        size = result_bytes(value)
        return Measured(size, value) if size <= self.bytes else Measured(size, None, is_whole=False)


@dataclass(frozen=True, repr=False)
class Bounded:
    """A function that merges results, whose own result must be within the limit."""

    function: Callable[[list[Any]], Any]
    what: str
    limit: int

    def __call__(self, parts: list[Any]) -> Any:
        return Admit(room_for(self.what, self.limit))(self.function(parts))

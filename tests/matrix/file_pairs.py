"""Pairs of files that hold a column in two types, and what a source of both is by the definition.

The values of both files are exactly what they were, whichever comes first, or a DataError names file and column. A
table of what each engine makes of them, where they are in one folder and below Hive partitions:

    python -m tests.matrix.file_pairs embedded dask spark
"""

from __future__ import annotations

import datetime as dt
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import DataError

__all__ = ["LAYOUTS", "ORDERS", "PAIRS", "Pair", "problem", "problems"]

CANARY: Final = 915148800000000001
"""Nanoseconds of an instant that no message may hold."""
DAY, NOON = dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 12)
OLD: Final[Mapping[str, Any]] = {"use_deprecated_int96_timestamps": True}
ORDERS = ("left first", "right first")
LAYOUTS = ("folder", "partitions")


@dataclass(frozen=True)
class Pair:
    """Two columns, how each is written, and the values of both; None where no type holds them."""

    left: pa.Array
    right: pa.Array
    values: list[Any] | None
    options: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default=({}, {}))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def _decimals(texts: list[str], digits: int, scale: int) -> pa.Array:
    return pa.array([Decimal(text) for text in texts], pa.decimal128(digits, scale))


def _utc(value: dt.datetime) -> dt.datetime:
    return value.replace(tzinfo=dt.UTC)


def _instants(values: list[int], unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


_SINGLE = float(np.float32(0.1))
_SECONDS = 1577836800  # of DAY
PAIRS: Final[Mapping[str, Pair]] = {
    "float32, float64": Pair(
        _array([0.1, 0.1], pa.float32()), _array([0.1, 1234567.891], pa.float64()), [_SINGLE, _SINGLE, 0.1, 1234567.891]
    ),
    "float16, float64": Pair(_array([1.5, None], pa.float16()), _array([0.1], pa.float64()), [1.5, None, 0.1]),
    "int32, int64": Pair(_array([1, 1], pa.int32()), _array([2**40, 2**40], pa.int64()), [1, 1, 2**40, 2**40]),
    "int8, uint64": Pair(_array([-1, 7], pa.int8()), _array([7, 2**60 + 1], pa.uint64()), [-1, 7, 7, 2**60 + 1]),
    "int64, uint64 beyond it": Pair(_array([1], pa.int64()), _array([2**63], pa.uint64()), None),
    "int64, float64": Pair(
        _array([1, 2**60], pa.int64()), _array([1.5, None], pa.float64()), [1.0, 2.0**60, 1.5, None]
    ),
    "int64 beyond it, float64": Pair(_array([2**53 + 1], pa.int64()), _array([1.5], pa.float64()), None),
    "bool, int64": Pair(_array([True, False], pa.bool_()), _array([1, 0], pa.int64()), None),
    "decimal(5,2), decimal(9,4)": Pair(
        _decimals(["1.25", "1.50"], 5, 2),
        _decimals(["1.2501"], 9, 4),
        [Decimal("1.25"), Decimal("1.5"), Decimal("1.2501")],
    ),
    "decimal(38,0) full, decimal(38,10)": Pair(_decimals(["9" * 38], 38, 0), _decimals(["0.5"], 38, 10), None),
    "int64, decimal(38,20)": Pair(
        _array([7], pa.int64()), _decimals(["0." + "0" * 19 + "1"], 38, 20), [Decimal(7), Decimal("1e-20")]
    ),
    "float64, decimal(9,4)": Pair(_array([0.5], pa.float64()), _decimals(["0.5"], 9, 4), None),
    "us, ns of whole microseconds": Pair(
        _instants([_SECONDS * 10**6], "us"),
        _instants([_SECONDS * 10**9 + 1000], "ns"),
        [DAY, DAY.replace(microsecond=1)],
    ),
    "us, ns a nanosecond apart": Pair(
        _instants([_SECONDS * 10**6] * 2, "us"), _instants([CANARY, CANARY + 1], "ns"), None
    ),
    "ms, ns a nanosecond apart": Pair(_instants([_SECONDS * 10**3], "ms"), _instants([CANARY], "ns"), None),
    "ms beyond us, us": Pair(_instants([10**16], "ms"), _instants([1], "us"), None),
    "int96 of the year 9999, us": Pair(
        _array([dt.datetime(9999, 12, 31), DAY], pa.timestamp("us")),
        _instants([_SECONDS * 10**6], "us"),
        [dt.datetime(9999, 12, 31), DAY, DAY],
        (OLD, {}),
    ),
    "int96 a nanosecond apart, us": Pair(
        _instants([CANARY, CANARY + 1], "ns"), _instants([_SECONDS * 10**6], "us"), None, (OLD, {})
    ),
    "Berlin, UTC": Pair(
        _instants([_SECONDS * 10**6], "us", "Europe/Berlin"),
        _instants([_SECONDS * 10**3], "ms", "UTC"),
        [_utc(DAY)] * 2,
    ),
    "without a zone, UTC": Pair(_instants([_SECONDS * 10**6], "us"), _instants([_SECONDS * 10**6], "us", "UTC"), None),
    "date, timestamp": Pair(_array([DAY.date()], pa.date32()), _array([NOON], pa.timestamp("us")), [DAY, NOON]),
    "dictionary, text of other widths": Pair(
        pa.array(["a", "b", None]).dictionary_encode(),
        _array(["a", "ä"], pa.large_string()),
        ["a", "b", None, "a", "ä"],
    ),
    "text, bytes": Pair(_array(["a"], pa.string()), _array([b"a"], pa.binary()), None),
    "NaN alone, text": Pair(
        _array([float("nan"), None], pa.float64()), _array(["a", "a"], pa.string()), [None, None, "a", "a"]
    ),
}


def written(pair: Pair, order: str, layout: str, folder: Path) -> Source:
    """The source of both files: the first in the order of names is the first of `order`."""
    files = list(zip((pair.left, pair.right), pair.options, strict=True))
    years = ("2020", "unknown")
    for at, (column, options) in enumerate(files if order == ORDERS[0] else reversed(files)):
        place = folder / f"year={years[at]}" if layout == "partitions" else folder
        place.mkdir(exist_ok=True)
        pq.write_table(pa.table({"q": column}), place / f"part-{at}.parquet", **options)
    return Source(data=str(folder), format="parquet", partitions=("year",) if layout == "partitions" else ())


def problem(engine: Engine, pair: Pair, order: str, layout: str, folder: Path) -> str:
    """What is wrong with an engine's reading of a pair; nothing where it is right."""
    source = written(pair, order, layout, folder)
    try:
        rows = engine.collect(engine.scan(source))
    except DataError as error:
        text = str(error)
        if pair.values is not None:
            return f"refused: {text}"
        good = "'q'" in text and "part-" in text and str(CANARY)[:7] not in text and "not readable" not in text
        return "" if good else f"refused without file and column: {text}"
    except Exception as error:  # noqa: BLE001 - whatever else comes is what is wrong
        return f"{type(error).__name__}: {error}"
    if pair.values is None:
        return "read, though no type holds the values of both"
    found, wanted = rows.column("q").to_pylist(), pair.values
    if Counter(found) != Counter(wanted) or {type(each) for each in found} != {type(each) for each in wanted}:
        return f"other values: {found}"
    if layout == "partitions" and Counter(rows.column("year").to_pylist()).keys() != {"2020", "unknown"}:
        return f"other partitions: {rows.column('year').to_pylist()}"
    return ""


def problems(engine: Engine, folder: Path, every: int = 1) -> Iterator[tuple[tuple[str, str, str], str]]:
    """The cells of the matrix of one engine, with what is wrong with each; of so many in a row the one, where asked."""
    cells = list(itertools.product(PAIRS, ORDERS, LAYOUTS))
    for at, (name, order, layout) in enumerate(cells):
        if (at + at // every) % every:  # of each pair another cell
            continue
        place = folder / str(at)
        place.mkdir()
        yield (name, order, layout), problem(engine, PAIRS[name], order, layout, place)


def main(names: list[str]) -> int:
    """Print a row for each cell and the number of wrong ones."""
    total, wrong = Counter[str](), Counter[str]()
    for name in names or ["embedded", "dask"]:
        options = {"driver_bytes": 0} if name == "spark" else {}  # else DuckDB reads small files
        with open_engine(name, options) as engine, tempfile.TemporaryDirectory() as folder:
            for cell, found in problems(engine, Path(folder)):
                total[name] += 1
                wrong[name] += bool(found)
                print(
                    f"{'WRONG' if found else 'right'}  {name:9}{' | '.join(cell)}{': ' if found else ''}{found[:120]}",
                    flush=True,
                )
    for name in total:
        print(f"{name}: {wrong[name]} of {total[name]} cells wrong")
    return int(bool(sum(wrong.values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

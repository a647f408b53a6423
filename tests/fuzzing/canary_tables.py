"""Hostile tables whose every cell holds a canary: what libraries quote when they fail shows it."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.testing import people

__all__ = ["CANARY", "KINDS", "hostile", "table_of"]

CANARY = r"771904|7719\D{1,2}0?4\b"
TEXT, WHOLE = "c771904x", 771904000000001
DATE = datetime.date(7719, 4, 1)
ROWS = 24
BASE = people(ROWS).rows.to_pandas()
Make = Callable[[pd.DataFrame, str, random.Random, Path], Any]


class Speaking:
    """An object that shows the canary however it is looked at."""

    def __repr__(self) -> str:
        return f"Speaking({TEXT})"

    def __str__(self) -> str:
        return TEXT


class Raising(Speaking):
    """An object that raises the canary when it is compared, hashed or written."""

    def _fail(self, *_: Any) -> NoReturn:
        raise ValueError(TEXT)

    __eq__ = __lt__ = __hash__ = __str__ = __float__ = __int__ = __len__ = _fail  # type: ignore[assignment]


class Stream:
    """A frame of another library that fails when it is read."""

    def __init__(self, frame: pd.DataFrame, error: Exception) -> None:
        self.columns = list(frame.columns)
        self._error = error

    def __arrow_c_stream__(self, requested_schema: Any = None) -> NoReturn:
        raise self._error


def _repeat(values: list[Any], rng: random.Random) -> list[Any]:
    return [values[rng.randrange(len(values))] if at >= len(values) else values[at] for at in range(ROWS)]


CELLS: dict[str, list[Any]] = {
    "datetimes far away": [datetime.datetime(7719, 4, 1, 12), datetime.datetime(1, 1, 1)],
    "dates far away": [DATE, datetime.date(1, 4, 1)],
    "dates and texts": [DATE, TEXT],
    "dates and datetimes": [DATE, datetime.datetime(7719, 4, 1)],
    "zones": [
        datetime.datetime(2071, 7, 7, tzinfo=datetime.timezone(datetime.timedelta(minutes=7))),
        datetime.datetime(7719, 4, 1, tzinfo=datetime.UTC),
    ],
    "whole numbers and texts": [WHOLE, TEXT, None],
    "floats and texts": [771904.25, TEXT],
    "huge whole numbers": [771904 * 10**40, -771904 * 10**50],
    "whole numbers beyond int64": [2**63 + WHOLE, 1],
    "decimals of 60 digits": [decimal.Decimal("771904" * 10), decimal.Decimal("0." + "771904" * 9)],
    "decimals and NaN": [decimal.Decimal("771904.5"), decimal.Decimal("NaN"), decimal.Decimal("Infinity")],
    "decimals and floats": [decimal.Decimal("771904.5"), 771904.25],
    "lists": [[771904], [TEXT, None]],
    "nested lists": [[[771904]], [[1, 2], [TEXT]]],
    "dicts": [{TEXT: 1}, {"a": 771904}],
    "tuples": [(TEXT, 1), (771904,)],
    "sets": [{TEXT}, {771904}],
    "bytes": [b"771904\xff\xfe", b"\x00771904"],
    "bytes and texts": [b"771904\xff", TEXT],
    "surrogates": ["771904\ud800", TEXT],
    "control characters": ["771904\x00\x1b[31m", "\u202e771904"],
    "speaking objects": [Speaking(), TEXT],
    "raising objects": [Raising(), Raising()],
    "raising objects and texts": [TEXT, Raising()],
    "complex numbers": [complex(771904, 1), complex(1, 771904)],
    "times": [datetime.time(7, 7, 19, 771904), None],
    "durations": [datetime.timedelta(days=771904), datetime.timedelta(microseconds=771904)],
    "truths and texts": [True, TEXT],
    "numpy scalars": [np.int64(WHOLE), np.datetime64("7719-04-01"), np.float32(771904)],
    "intervals": [pd.Interval(771904, 771905), None],
    "periods": [pd.Period("7719-04", "M"), TEXT],
    "pandas timestamps and texts": [pd.Timestamp("2071-07-07"), TEXT],
    "types": [int, TEXT],
    "texts": [TEXT, "771904"],
    "texts of numbers": ["771904000000001", "1e771904"],
    "texts of dates": ["7719-04-01", "7719-04-31"],
    "NaN, inf": [float("nan"), float("inf"), 771904.0],
    "arrays": [np.array([771904]), np.array([[771904.5]])],
    "frames": [pd.Series([771904]), TEXT],
}
DTYPES: dict[str, Callable[[], Any]] = {
    "category of mixed": lambda: pd.Categorical([TEXT, 771904] * (ROWS // 2)),
    "category of dates": lambda: pd.Categorical([DATE, datetime.date(1, 4, 1)] * (ROWS // 2)),
    "intervals of pandas": lambda: pd.arrays.IntervalArray.from_breaks(range(771904, 771904 + ROWS + 1)),
    "periods of pandas": lambda: pd.period_range("2071-07", periods=ROWS, freq="M"),
    "durations of pandas": lambda: pd.to_timedelta([771904000000] * ROWS),
    "nullable": lambda: pd.array([WHOLE, None] * (ROWS // 2), dtype="Int64"),
    "sparse": lambda: pd.arrays.SparseArray([771904.5, np.nan] * (ROWS // 2)),
    "complex": lambda: np.array([771904 + 1j] * ROWS),
    "uint64": lambda: np.array([2**64 - 771904] * ROWS, dtype="uint64"),
    "datetime64[s]": lambda: np.array(["7719-04-01"] * ROWS, dtype="datetime64[s]"),
    "records": lambda: [np.void(b"771904")] * ROWS,
}
ARROW: dict[str, Callable[[], pa.Array]] = {
    "timestamp of seconds": lambda: pa.array([915148800771904, None] * 12, pa.timestamp("s")),
    "timestamp of milliseconds": lambda: pa.array([7719040000000000000] * ROWS, pa.timestamp("ms", "Europe/Berlin")),
    "timestamp of nanoseconds": lambda: pa.array([WHOLE] * ROWS, pa.timestamp("ns", "UTC")),
    "unknown zone": lambda: pa.array([WHOLE] * ROWS, pa.timestamp("us", "Nowhere/7719")),
    "date64": lambda: pa.array([771904000000001] * ROWS, pa.date64()),
    "date32 far away": lambda: pa.array([771904000] * ROWS, pa.date32()),
    "time64": lambda: pa.array([771904000001] * ROWS, pa.time64("ns")),
    "duration": lambda: pa.array([WHOLE] * ROWS, pa.duration("s")),
    "decimal256": lambda: pa.array([decimal.Decimal("771904" * 11)] * ROWS, pa.decimal256(76, 0)),
    "negative scale": lambda: pa.array([decimal.Decimal("771904E6")] * ROWS, pa.decimal128(10, -4)),
    "list": lambda: pa.array([[771904], None] * 12),
    "struct": lambda: pa.array([{"a": TEXT}] * ROWS),
    "map": lambda: pa.array([[(TEXT, 771904)]] * ROWS, pa.map_(pa.string(), pa.int64())),
    "binary": lambda: pa.array([b"771904\xff"] * ROWS),
    "broken text": lambda: pa.Array.from_buffers(
        pa.string(), ROWS, pa.array([b"771904\xff\xfe"] * ROWS, pa.binary()).buffers()
    ),
    "dictionary of numbers": lambda: pa.array([WHOLE] * ROWS).dictionary_encode(),
    "dictionary of decimals": lambda: pa.array([decimal.Decimal("771904.5")] * ROWS).dictionary_encode(),
    "run ends": lambda: pa.RunEndEncodedArray.from_arrays([ROWS], [TEXT]),
    "union": lambda: pa.UnionArray.from_sparse(pa.array([0] * ROWS, pa.int8()), [pa.array([TEXT] * ROWS)]),
    "string view": lambda: pa.array([TEXT * 3] * ROWS, pa.string_view()),
    "month day nano": lambda: pa.array([(7719, 4, 771904)] * ROWS, pa.month_day_nano_interval()),
    "extension": lambda: pa.array([[771904.0, 1.0]] * ROWS, pa.list_(pa.float64(), 2)),
    "uuid": lambda: pa.array([b"771904771904 771"] * ROWS, pa.uuid()),
    "half floats": lambda: pa.array(np.array([7719.04] * ROWS, dtype=np.float16)),
    "uint64 of Arrow": lambda: pa.array([2**64 - 771904] * ROWS, pa.uint64()),
    "nulls": lambda: pa.nulls(ROWS),
}
QUERIES = {
    "relation that casts": f"SELECT * REPLACE (CAST('{TEXT}' || {{c}} AS INTEGER) AS {{c}}) FROM frame",
    "relation that overflows": f"SELECT * REPLACE (({WHOLE} + length({{c}}::TEXT))::TINYINT AS {{c}}) FROM frame",
    "relation that raises": f"SELECT * REPLACE (error('{TEXT}' || {{c}}::VARCHAR) AS {{c}}) FROM frame",
    "relation of dates": "SELECT * REPLACE (strptime('7719-04-x' || {c}::VARCHAR, '%Y-%m-%d') AS {c}) FROM frame",
    "relation of huge numbers": "SELECT * REPLACE (77190477190477190477190477::HUGEINT AS {c}) FROM frame",
    "relation of infinite dates": "SELECT * REPLACE (DATE 'infinity' AS {c}) FROM frame",
    "relation of lists": "SELECT * REPLACE ([771904] AS {c}) FROM frame",
    "relation of times with zones": "SELECT * REPLACE ('07:07:19.771904+07'::TIMETZ AS {c}) FROM frame",
    "relation of bits": "SELECT * REPLACE ('10111100011101000000'::BIT AS {c}) FROM frame",
}


def _cells(values: list[Any]) -> Make:
    def make(frame: pd.DataFrame, column: str, rng: random.Random, place: Path) -> Any:
        return frame.assign(**{column: pd.Series(_repeat(values, rng), dtype=object)})

    return make


def _typed(made: Callable[[], Any]) -> Make:
    return lambda frame, column, rng, place: frame.assign(**{column: made()})


def _arrow(made: Callable[[], pa.Array]) -> Make:
    def make(frame: pd.DataFrame, column: str, rng: random.Random, place: Path) -> Any:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        table = table.set_column(table.column_names.index(column), column, made())
        return _written(table, rng, place) if rng.random() < 0.4 else table

    return make


def _written(table: pa.Table, rng: random.Random, place: Path) -> Any:
    path = place / f"{rng.randrange(10**9)}.parquet"
    try:
        pq.write_table(table, path)
    except (pa.ArrowException, OSError):
        return table
    if rng.random() < 0.3:
        content = path.read_bytes()
        path.write_bytes(content[: rng.randrange(len(content))])
    return str(path)


def _query(sql: str) -> Make:
    def make(frame: pd.DataFrame, column: str, rng: random.Random, place: Path) -> Any:
        connection = duckdb.connect()
        connection.register("frame", pa.Table.from_pandas(frame, preserve_index=False))
        return connection.sql(sql.format(c=column))

    return make


def _text(suffix: str) -> Make:
    """A file of text whose cells are of another kind from some line on, or that is torn."""

    def make(frame: pd.DataFrame, column: str, rng: random.Random, place: Path) -> Any:
        path = place / f"{rng.randrange(10**9)}.{suffix}"
        bad = frame.astype({column: object})
        bad.loc[ROWS // 2 :, column] = rng.choice([TEXT, f"{WHOLE}", "7719-04-01", "7719-04-31", "1e771904"])
        text = (
            bad.to_csv(index=False) if suffix == "csv" else bad.to_json(orient="records", lines=True, date_format="iso")
        )
        damage = rng.randrange(5)
        if damage == 1:
            text = text[: rng.randrange(len(text))] + f'"{TEXT}'
        if damage == 2:
            text += f"{TEXT},{TEXT}\n" if suffix == "csv" else f'{{"age": "{TEXT}"\n'
        if damage == 3:
            text = text.replace(",", ";", rng.randrange(40))
        path.write_bytes(text.encode() + (b"\xff\xfe771904" if damage == 4 else b""))
        return str(path)

    return make


def _fail(values: Any) -> NoReturn:
    raise ValueError(f"{TEXT} {values}")


def _dask(change: Callable[[pd.DataFrame, str], pd.DataFrame]) -> Make:
    def make(frame: pd.DataFrame, column: str, rng: random.Random, place: Path) -> Any:
        import dask.dataframe as dd

        parts = dd.from_pandas(frame, npartitions=3)
        return parts.map_partitions(change, column, meta=frame.iloc[:0])

    return make


def _breaking(part: pd.DataFrame, column: str) -> pd.DataFrame:
    return part.assign(**{column: [TEXT, WHOLE, DATE, [771904]] * (len(part) // 4)})


LAZY: dict[str, Make] = {
    "polars that raises": lambda f, c, r, p: (
        pl.from_pandas(f).lazy().with_columns(pl.col(c).map_elements(_fail, return_dtype=pl.Int64))
    ),
    "polars that casts": lambda f, c, r, p: pl.from_pandas(f).lazy().with_columns(pl.lit(TEXT).cast(pl.Int64).alias(c)),
    "polars objects": lambda f, c, r, p: pl.from_pandas(f).with_columns(
        pl.Series(c, [Speaking()] * ROWS, dtype=pl.Object)
    ),
    "polars durations": lambda f, c, r, p: pl.from_pandas(f).with_columns(pl.duration(days=771904).alias(c)),
    "polars wide": lambda f, c, r, p: pl.from_pandas(f).with_columns(
        pl.Series(c, [771904 * 10**20] * ROWS, dtype=pl.Int128)
    ),
    "polars times": lambda f, c, r, p: pl.from_pandas(f).with_columns(
        pl.Series(c, [datetime.time(7, 7, 19, 771904)] * ROWS)
    ),
    "polars enum": lambda f, c, r, p: pl.from_pandas(f).with_columns(
        pl.Series(c, [TEXT] * ROWS, dtype=pl.Enum([TEXT]))
    ),
    "stream that raises": lambda f, c, r, p: Stream(f, ValueError(TEXT)),
    "stream that raises Arrow's": lambda f, c, r, p: Stream(f, pa.ArrowInvalid(TEXT)),
    "stream that has no key": lambda f, c, r, p: Stream(f, KeyError(TEXT)),
    "reader that fails": lambda f, c, r, p: pa.RecordBatchReader.from_batches(
        pa.Table.from_pandas(f, preserve_index=False).schema, _torn(pa.Table.from_pandas(f, preserve_index=False))
    ),
    "twice the column": lambda f, c, r, p: pd.concat([f, f[[c]].map(lambda _: TEXT)], axis=1),
    "columns without text": lambda f, c, r, p: f.assign(**{c: TEXT}).rename(columns={"born": 7}),
    "index of values": lambda f, c, r, p: f.set_index(pd.Index([TEXT, WHOLE] * (ROWS // 2), name=c)),
    "index of levels": lambda f, c, r, p: f.assign(**{c: TEXT}).set_index([c, "name"]),
    "dask that raises": _dask(lambda part, column: _fail(part[column])),
    "dask that breaks its meta": _dask(_breaking),
    "dask that loses a column": _dask(lambda part, column: part.assign(x=TEXT).drop(columns=column)),
    "no frame": lambda f, c, r, p: r.choice([WHOLE, {TEXT: [771904]}, [TEXT], f[c].map(lambda _: TEXT), Speaking()]),
}


def _torn(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.slice(0, 4).to_batches()
    raise ValueError(TEXT)


KINDS: dict[str, Make] = {
    **{name: _cells(values) for name, values in CELLS.items()},
    **{name: _typed(made) for name, made in DTYPES.items()},
    **{name: _arrow(made) for name, made in ARROW.items()},
    **{name: _query(sql) for name, sql in QUERIES.items()},
    "CSV": _text("csv"),
    "JSON": _text("jsonl"),
    **LAZY,
}


def table_of(kind: str, number: int, place: Path) -> Any:
    """The table of a kind, the number of which chooses the column and the rest."""
    rng = random.Random(number)
    column = rng.choice(["age", "zip", "illness", "income", "born", "name", "household", "weight"])
    return KINDS[kind](BASE.copy(), column, rng, place)


def hostile(number: int) -> str:
    """The kind of a table by its number: each in turn."""
    return list(KINDS)[number % len(KINDS)]

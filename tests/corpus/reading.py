"""Reads a table in the form its package has it and writes it as CSV; run by fetch.py where pandas and rdata are.

`python reading.py FILE[#NAME] TO.csv`
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

__all__ = ["frame_of", "write"]


def frame_of(source: str) -> Any:
    """The table at `source` as a pandas frame; `FILE.rdx#NAME` is a table of R's database of tables."""
    import pandas as pd

    path, _, name = source.partition("#")
    if path.endswith((".csv", ".csv.zip")):
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    if path.endswith(".dta"):
        return pd.read_stata(path)
    if path.endswith(".pkl.compress"):
        return pd.read_pickle(path, compression="xz")  # of a package whose version is pinned
    import rdata

    if path.endswith((".rda", ".RData")):
        (table,) = rdata.read_rda(path, constructor_dict=_constructors()).values()
        return table
    return _of_database(Path(path), name)


def _of_database(index: Path, name: str) -> Any:
    """A table of `Rdata.rdb`, by the offsets of `Rdata.rdx`: R Internals, 1.10 (lazy loading)."""
    offset, length = _parsed(_unpacked(index.read_bytes()))["variables"][name]
    chunk = index.with_suffix(".rdb").read_bytes()[offset : offset + length]
    return _parsed(_unpacked(chunk[4:]))


def _unpacked(packed: bytes) -> bytes:
    if packed[:1] == b"Z":
        plan = [{"id": lzma.FILTER_LZMA2, "preset": 6}]
        return lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=plan).decompress(packed[1:])
    if packed[:3] == b"2BZ":
        return bz2.decompress(packed[1:])
    return gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else zlib.decompress(packed)


def _parsed(serialised: bytes) -> Any:
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stream without a header is what the database has
        return rdata.conversion.convert(rdata.parser.parse_data(serialised), constructor_dict=_constructors())


def _constructors() -> dict[Any, Any]:
    """R's dates and times as pandas has them; the class IDate is a Date of whole numbers."""
    import numpy as np
    import pandas as pd
    from rdata.conversion import DEFAULT_CLASS_MAP

    def since_1970(unit: str) -> Any:
        def instants(values: Any, attributes: Any) -> Any:
            spans = pd.to_timedelta(np.asarray(values, dtype=float), unit=unit)
            return (pd.Timestamp(0) + spans).to_numpy()  # a Series would be aligned by an index that R has not

        return instants

    return {**DEFAULT_CLASS_MAP, "Date": since_1970("D"), "IDate": since_1970("D"), "POSIXct": since_1970("s")}


def write(source: str, target: Path) -> None:
    """Write the table at `source` as CSV: missing values as empty fields, whole numbers without a fraction."""
    frame = frame_of(source).drop(columns="rownames", errors="ignore")  # the numbers of R's rows are not data
    for name in frame.columns:
        values = frame[name]
        if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
            frame[name] = values.astype("Int64")
    frame.to_csv(target, index=False)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))

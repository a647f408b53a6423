"""Where a table comes from: a path with its format, or an open data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, get_args

from privpipe.engines.readers.folders import is_delta_table
from privpipe.engines.readers.text_forms import TextForm
from privpipe.engines.readers.unpacking import MOST_BYTES, PACKED
from privpipe.errors import UsageError, did_you_mean

__all__ = ["Format", "Source", "format_of", "format_said"]


Format = Literal["parquet", "csv", "json", "delta", "arrow", "excel", "orc", "avro", "stata", "spss", "sas"]
SUFFIXES: Mapping[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".orc": "orc",
    ".avro": "avro",
    ".dta": "stata",
    ".sav": "spss",
    ".zsav": "spss",
    ".sas7bdat": "sas",
    ".xpt": "sas",
}

_OF_DATABASE = "a database has tables, so write `source: {database: ..., table: ...}`"
REMEDIES: Mapping[str, str] = {
    **dict.fromkeys((".duckdb", ".ddb", ".sqlite", ".sqlite3", ".db", ".db3"), _OF_DATABASE),
    ".xls": "that is the Excel of before 2007; save them as .xlsx",
    ".rds": "that is R's own; write them with arrow::write_parquet",
    ".rdata": "that is R's own; write them with arrow::write_parquet",
    **dict.fromkeys((".xlsb", ".ods", ".numbers"), "save them as .xlsx"),
    **dict.fromkeys((".pkl", ".pickle"), "a pickle runs code when it is opened; write them as Parquet"),
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), "write their tables as Parquet"),
    **dict.fromkeys((".lz4", ".br", ".lzo", ".snappy", ".z"), f"pack them as {', '.join(PACKED)}, or unpack them"),
    **dict.fromkeys((".tar", ".tgz", ".7z", ".rar"), "an archive holds files; unpack it and give one of them"),
}
"""What to do about files that are often met and not read."""


PLAIN = TextForm()


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table to be scanned.

    Parameters
    ----------
    data : str, path, TableName, IcebergName, LakeView or frame
        A file or a folder of files (no sign of a path is a pattern), a table of a catalogue, or a pandas, polars,
        pyarrow, DuckDB, Dask or Spark frame.
    format : {"parquet", "csv", "json", "delta", "arrow", "excel", "orc", "avro", "stata", "spss", "sas"}, optional
        Default: by the file name's ending; the folder of a Delta table is one whatever its name.
    delimiter : str
        Of CSV fields.
    header : bool
        Whether the first line of each CSV file names the columns. Without one, `columns` names them in order.
    columns : tuple of str
        Names of the columns of a CSV file without a header.
    null_values : tuple of str
        CSV fields that mean "no value", after unquoting.
    max_bytes : int
        What each packed CSV or JSON file may unpack to; it is counted while unpacking.
    quoted_nulls : bool
        Whether a quoted field may mean "no value" too. Our own sink quotes the empty text and nothing that is missing.
    escaped_formulas : bool
        Whether texts of CSV files stand behind an apostrophe where they would be formulas; it is taken off.
    form : TextForm
        How the text of CSV files is written: encoding, decimal sign, dates, what is above and below the records.
    sheet : str, optional
        Of an Excel file that has several.
    partitions : tuple of str
        Columns in the names of folders above Parquet files (`year=2024`), in their order.
    version : int, optional
        Of a Delta table. Default: the newest.
    timestamp : str, optional
        Instead of `version`: the one that was the newest then.
    types : mapping of column to ColumnType
        Declared types. CSV and JSON columns without one are text; the others keep the source's type.
    """

    data: Any = field(repr=False)
    format: Format | None = None
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ("",)
    max_bytes: int = MOST_BYTES
    quoted_nulls: bool = True
    escaped_formulas: bool = False
    form: TextForm = PLAIN
    sheet: str | None = None
    partitions: tuple[str, ...] = ()
    version: int | None = None
    timestamp: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.is_path and "\0" in str(self.data):
            raise UsageError("the path of a source holds the character NUL, which no file can be called by")

    @property
    def is_path(self) -> bool:
        """Whether the data is in files."""
        return isinstance(self.data, str | PurePath)

    @property
    def resolved_format(self) -> Format:
        """The format asked for, else that of what lies there or of the name.

        Raises
        ------
        UsageError
            When neither gives it.
        """
        return self.format or format_said(str(self.data)) or format_of(str(self.data))


def format_said(path: str) -> Format | None:
    """The format that a path itself shows, by what is there or by its ending; None where it shows none.

    Examples
    --------
    >>> format_said("raw/adult.csv.gz"), format_said("lake/adult"), format_said("adult.dat")
    ('csv', None, None)
    """
    if is_delta_table(path.removeprefix("file://")):
        return "delta"
    return SUFFIXES.get(_ending(path))


def _ending(path: str) -> str:
    name = path.rstrip("/").rsplit("/", 1)[-1].casefold().lstrip(".")
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name[name.rindex(".") :] if "." in name else ""


def format_of(path: str) -> Format:
    """The format a path's ending stands for; a folder without an ending is taken for Parquet.

    Examples
    --------
    >>> format_of("raw/2024/adult.csv.gz"), format_of("lake/adult")
    ('csv', 'parquet')
    """
    suffix = _ending(path).partition("?")[0]  # what follows may be a secret
    if not suffix:
        return "parquet"
    if suffix in REMEDIES:
        raise UsageError(f"files that end in {suffix!r} are not read by `path:`: {REMEDIES[suffix]}")
    if suffix not in SUFFIXES:
        raise UsageError(
            f"cannot recognise the format of a file that ends in {suffix!r}{did_you_mean(suffix, SUFFIXES)}; "
            f"say `format:`, one of {', '.join(get_args(Format))}"
        )
    return SUFFIXES[suffix]

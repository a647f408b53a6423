"""Where a table comes from: a path with its format, what its folder holds and does not, or an open data frame."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, get_args

from privpipe.engines.readers.text_forms import TextForm
from privpipe.engines.readers.unpacking import MOST_BYTES, PACKED, unreached
from privpipe.errors import DataError, UsageError, did_you_mean

__all__ = [
    "FolderFiles",
    "Format",
    "Source",
    "folder_files",
    "folders_above",
    "format_of",
    "format_said",
    "is_delta_table",
    "refuse_table_format",
    "table_format_error",
    "table_format_of",
]


REMEDIES = {
    "Delta": "give the table's own folder and set `format: delta` (needs `pip install 'privpipe[delta]'`)",
    "Iceberg": "name the table, `source: {iceberg: db.table, catalog: name}` (needs `pip install 'privpipe[iceberg]'`)",
    "Hudi": "hand the table over as a frame (Spark's `read.format('hudi')`), or export it",
}
MARKS = {"_delta_log": "Delta", ".hoodie": "Hudi", ".hoodie_partition_metadata": "Hudi"}


def table_format_of(folder: str) -> str | None:
    """The table format whose marks a folder holds: ``Delta``, ``Iceberg`` or ``Hudi``; None for a plain folder."""
    for mark, found in MARKS.items():
        if _holds(folder, mark):
            return found
    for name in _cases("metadata"):
        try:
            names = os.listdir(os.path.join(folder, name))
        except OSError:  # no such folder, or none that can be listed
            continue
        if any(".metadata.json" in each.casefold() or each.casefold() == "version-hint.text" for each in names):
            return "Iceberg"
    return None


def _cases(name: str) -> tuple[str, str]:
    """A name as it is written, and as file systems and archives without lower case return it."""
    return name, name.upper()


def _holds(folder: str, mark: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in _cases(mark))


def is_delta_table(path: str) -> bool:
    """Whether a path is the folder of a Delta table itself; False for what is in it."""
    return _holds(path, "_delta_log")


def folders_above(path: str) -> Iterator[str]:
    """A path and the folders above it, up to the root, by its own name and by where its links lead."""
    for start in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        folder = start
        while True:
            yield folder
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)


def refuse_table_format(path: str) -> None:
    """Refuse a file or folder that is a table of such a format, or a part of one at any depth.

    Parameters
    ----------
    path : str
        It exists.

    Raises
    ------
    DataError
        It is: read as plain files, rows that were deleted or overwritten would count.
    """
    for folder in folders_above(path):
        found = table_format_of(folder)
        if found is not None:
            raise table_format_error(found, folder, path)


def table_format_error(found: str, folder: str, path: str | None = None) -> DataError:
    """What is said of a table that may not be read as plain files, and of a path within one."""
    article = "an" if found[0] in "AEIOU" else "a"
    within = f"{path!r} is in " if path is not None and os.path.abspath(path) != folder else ""
    return DataError(
        f"{within}{folder!r}{',' if within else ''} {'' if within else 'is '}{article} {found} table, whose files may "
        f"hold rows that were deleted or overwritten; it is not read as plain files: {REMEDIES[found]}"
    )


FURNITURE = ("_SUCCESS", "_metadata", "_common_metadata", "_privpipe", ".DS_Store", ".ipynb_checkpoints")
FURNITURE_BEGINS = ("_committed_", "_started_")


@dataclass(frozen=True)
class FolderFiles:
    """The files below a folder.

    Parameters
    ----------
    read : list of str
        Data files, in order of path.
    left_out : list of str
        Files and folders that may hold data and are not read, by their names below the folder; what writers put
        next to every table is not among them.
    """

    read: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def folder_files(folder: str, is_data: Callable[[str], bool], *, partitioned: bool = False) -> FolderFiles:
    """The files below a folder, found alike for every engine.

    Read are files of folders at any depth, also through links. Names with a leading ``.`` or ``_`` are left out, as
    data tools do, and files whose name `is_data` denies. Hive partitions are folders like others where the source is
    `partitioned`.

    Raises
    ------
    DataError
        Hive partitions, whose columns would go missing; a table format's folder; a link that leads nowhere or in
        circles; what is neither file nor folder; a folder that may not be listed.
    EngineError
        The device or the network gave way.
    """
    found = FolderFiles()
    _look(folder, folder, (), is_data, found, partitioned)
    found.read.sort()
    found.left_out.sort()
    return found


def _look(
    top: str,
    folder: str,
    above: tuple[str, ...],
    is_data: Callable[[str], bool],
    found: FolderFiles,
    partitioned: bool,
) -> None:
    real = os.path.realpath(folder)
    if real in above:
        raise DataError(f"{os.path.relpath(folder, top)!r} is a link to a folder above it; remove the link")
    table = table_format_of(folder)
    if table is not None:
        raise table_format_error(table, folder)
    for name, is_folder in _entries(top, folder):
        path = os.path.join(folder, name)
        below = os.path.relpath(path, top)
        if os.path.islink(path) and not name.startswith((".", "_")):
            refuse_table_format(path)
        if name.startswith((".", "_")):
            if not _is_furniture(name):
                found.left_out.append(below)
        elif is_folder and "=" in name and not partitioned:
            raise DataError(
                f"the folder holds Hive partitions (sub-folders `{name.partition('=')[0]}=...`), whose columns are not "
                "in the files; name them under `partitions:` of a Parquet source, or write it without partitions"
            )
        elif is_folder:
            _look(top, path, (*above, real), is_data, found, partitioned)
        elif is_data(name):
            found.read.append(path)
        else:
            found.left_out.append(below)


def _entries(top: str, folder: str) -> list[tuple[str, bool]]:
    """Names in a folder, each with whether it is a folder."""
    try:
        with os.scandir(folder) as entries:
            listed = [(entry.name, entry.is_dir(), entry.is_file()) for entry in entries]
    except OSError as error:
        raise unreached(f"the folder {folder!r} cannot be listed", error) from None
    for name, is_folder, is_file in listed:
        if not (is_folder or is_file or name.startswith((".", "_"))):
            below = os.path.relpath(os.path.join(folder, name), top)
            raise DataError(f"{below!r} is neither a file nor a folder (a link that leads nowhere?); remove it")
    return [(name, is_folder) for name, is_folder, _ in listed]


def _is_furniture(name: str) -> bool:
    return name in FURNITURE or name.startswith(FURNITURE_BEGINS) or name.endswith(".crc")


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
CONVERSIONS: Mapping[str, str] = {
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
        """The format asked for, else that of what is there or of the name.

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
    if suffix in CONVERSIONS:
        raise UsageError(f"files that end in {suffix!r} are not read by `path:`: {CONVERSIONS[suffix]}")
    if suffix not in SUFFIXES:
        raise UsageError(
            f"cannot recognise the format of a file that ends in {suffix!r}{did_you_mean(suffix, SUFFIXES)}; "
            f"say `format:`, one of {', '.join(get_args(Format))}"
        )
    return SUFFIXES[suffix]

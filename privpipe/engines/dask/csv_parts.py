"""CSV files as partitions: cut where records end, read as text."""

from __future__ import annotations

import logging

from privpipe.engines.base.csv_blocks import CsvDialect, csv_blocks, csv_rows, read_csv_block
from privpipe.engines.base.files import csv_columns, list_files, wrong_delimiter_hint
from privpipe.engines.base.names import check_declared, check_names
from privpipe.engines.base.source import Source
from privpipe.engines.base.stamps import stamp_of
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.engines.dask.typed import text_table

__all__ = ["csv_table"]

log = logging.getLogger("privpipe.engines.dask")
SMALLEST_BLOCK = 2**20


def csv_table(runtime: Runtime, source: Source, partition_bytes: int) -> DaskTable:
    """The table of a CSV source.

    Raises
    ------
    DataError
        Names, headers, ragged lines, unclosed quotes, cells that do not convert.
    """
    files = list_files(source)
    names = csv_columns(source, files)
    check_names(names)
    check_declared(names, source.types, hint=wrong_delimiter_hint(names, source.delimiter))
    dialect = CsvDialect.of(names, source)
    size = sum(stamp_of(name)[1] for name in files)
    wanted = max(SMALLEST_BLOCK, min(partition_bytes, size // runtime.workers))
    layouts = runtime.compute(
        "lay out CSV files",
        [runtime.task("lay out CSV", csv_blocks, path=name, dialect=dialect, size=wanted) for name in files],
    )
    blocks = [block for layout in layouts for block in layout]
    log.debug("%d CSV files in %d blocks", len(files), len(blocks))
    raw = [runtime.task("read CSV", read_csv_block, block=block, dialect=dialect) for block in blocks]
    if not raw:
        raw = [runtime.task("read CSV", csv_rows, data=b"", dialect=dialect, place="")]
    return text_table(runtime, raw, names, source.types)

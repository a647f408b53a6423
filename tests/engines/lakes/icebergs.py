"""Iceberg tables in a catalogue of SQLite, and deletes that pyiceberg reads but does not write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.engines.lakes.deltas import ROWS

CATALOG = "lake"


def catalogue(folder: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    folder.mkdir(exist_ok=True)
    found = load_catalog(CATALOG, **settings(folder))
    found.create_namespace_if_not_exists("db")
    return found


def settings(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalogue.db", "warehouse": f"file://{folder}/warehouse"}


def environment(folder: Path) -> dict[str, str]:
    return {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{key.upper()}": value for key, value in settings(folder).items()}


def made(folder: Path, rows: pa.Table = ROWS, **options: Any) -> Any:
    table = catalogue(folder).create_table("db.people", schema=rows.schema, **options)
    table.append(rows)
    return table


def overwritten(folder: Path) -> Any:
    table = made(folder)
    for _ in range(2):
        table.overwrite(ROWS)
    return table


def deleted(folder: Path) -> Any:
    table = made(folder)
    table.delete("n > 10")
    return table


def updated(folder: Path) -> Any:
    table = made(folder)
    table.upsert(pa.table({"n": [1, 2], "sex": ["x", "x"]}), join_cols=["n"])
    return table


def partitioned(folder: Path) -> Any:
    from pyiceberg.transforms import IdentityTransform

    table = catalogue(folder).create_table("db.people", schema=ROWS.schema)
    with table.update_spec() as spec:
        spec.add_field("sex", IdentityTransform())
        spec.add_field("n", IdentityTransform())
    table.append(ROWS)
    table.delete("sex = 'm'")
    return table


def evolved(folder: Path) -> Any:
    table = made(folder)
    with table.update_schema() as schema:
        schema.rename_column("sex", "gender")
        schema.add_column("more", pa_type())
    table.append(ROWS.rename_columns(["n", "gender"]).append_column("more", pa.array(["z"] * len(ROWS))))
    return table


def pa_type() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def dropped_and_added(folder: Path) -> Any:
    """A column of the same name is another one, and has no values in the old files."""
    table = made(folder)
    with table.update_schema() as schema:
        schema.delete_column("sex")
    with table.update_schema() as schema:
        schema.add_column("sex", pa_type())
    table.append(ROWS)
    return table


def empty(folder: Path) -> Any:
    table = made(folder)
    table.delete("n >= 0")
    return table


def never_written(folder: Path) -> Any:
    return catalogue(folder).create_table("db.people", schema=ROWS.schema)


def with_position_deletes(folder: Path, gone: tuple[int, ...] = (0, 3, 5)) -> Any:
    """A file of deletes by position, put into the table's next snapshot."""
    table = made(folder)
    (task,) = table.scan().plan_files()
    path = f"{folder}/warehouse/deletes.parquet"
    content = pa.table({"file_path": [task.file.file_path] * len(gone), "pos": pa.array(gone, pa.int64())})
    pq.write_table(content, path)
    return appended(table, path, len(gone), 1)


def with_equality_deletes(folder: Path) -> Any:
    table = made(folder)
    path = f"{folder}/warehouse/equal.parquet"
    field = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"n": [1, 2]}, schema=pa.schema([field])), path)
    return appended(table, path, 2, 2, equality_ids=[1])


def appended(table: Any, path: str, records: int, content: int, **more: Any) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
    from pyiceberg.table.update.snapshot import _FastAppendFiles
    from pyiceberg.typedef import Record

    class DeleteWriter(ManifestWriterV2):
        def content(self) -> Any:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    class Deletes(_FastAppendFiles):
        def new_manifest_writer(self, spec: Any) -> Any:
            return DeleteWriter(spec, table.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)

    file = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent(content),
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=records,
        file_size_in_bytes=Path(path).stat().st_size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=more.get("equality_ids"),
        sort_order_id=None,
    )
    file.spec_id = 0
    with table.transaction() as transaction:
        append = transaction.update_snapshot().fast_append()
        append.__class__ = Deletes
        append.append_data_file(file)
        append.commit()
    return table


TABLES: dict[str, Callable[[Path], Any]] = {
    "overwritten": overwritten,
    "deleted": deleted,
    "updated": updated,
    "partitioned": partitioned,
    "evolved": evolved,
    "dropped and added": dropped_and_added,
    "empty": empty,
    "never written": never_written,
    "deletes by position": with_position_deletes,
}


def quietly(make: Callable[[Path], Any], folder: Path) -> Any:
    """pyiceberg warns of overwrites that delete nothing, and of what it has not implemented."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(folder)

"""Put UCI Adult where the examples read it: PostgreSQL `adult`, Iceberg `demo.adult`, `s3://lake/raw/adult.parquet`.

`python fill.py ADULT.CSV`; the places are those of the environment. Run again, it replaces what it wrote.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

__all__ = ["fill_iceberg", "fill_postgres", "fill_store", "main"]


def fill_postgres(table: pa.Table, uri: str = "postgresql://") -> None:
    """The server that the variables of libpq name."""
    import adbc_driver_postgresql.dbapi as postgres

    with postgres.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS adult")
        cursor.adbc_ingest("adult", table, mode="create")
        connection.commit()


def fill_iceberg(table: pa.Table, catalogue: Any = None) -> None:
    """The catalogue `lake` of pyiceberg's environment."""
    from pyiceberg.catalog import load_catalog

    held = catalogue or load_catalog("lake")
    held.create_namespace_if_not_exists("demo")
    if held.table_exists("demo.adult"):
        held.drop_table("demo.adult")
    held.create_table("demo.adult", schema=table.schema).append(table)


def fill_store(table: pa.Table, url: str = "s3://lake/raw/adult.parquet") -> None:
    """An object, by what fsspec knows of the URL."""
    import fsspec

    with fsspec.open(url, "wb") as file:
        pq.write_table(table, file)


def main() -> int:
    """The command; 2 for a wrong call."""
    if len(sys.argv) != 2:
        print("usage: fill.py ADULT.CSV", file=sys.stderr)
        return 2
    table = csv.read_csv(sys.argv[1], parse_options=csv.ParseOptions(delimiter=";"))
    for fill in (fill_postgres, fill_iceberg, fill_store):
        fill(table)
        print(f"{fill.__name__}: {table.num_rows:,} records")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Tables, views and temporary views that a Spark session knows by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.blocks.table_name import TableName
from privpipe.engines.spark.failures import condition_of, reported
from privpipe.errors import DataError, did_you_mean, escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["is_table", "named_frame", "table_names"]

NO_CATALOGUE = ("CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE", "CatalogNotFound")


def named_frame(session: SparkSession, name: TableName) -> DataFrame:
    """The frame of a table or view.

    Its files are listed anew, so that neither rows that were deleted nor rows of an earlier run count.

    Raises
    ------
    DataError
        The session knows no such table, database or catalogue. A name never stands for a file, as in ``parquet.`x` ``.
    EngineError
        Its catalogue does not answer.
    """
    with reported(f"open the table {name}"):
        # Spark takes an unknown name of two parts for a format and a path; this asks its catalogue alone.
        if is_table(session, name):
            session.catalog.refreshTable(name.sql)
            return session.table(name.sql)
    raise _unknown(session, name)


def is_table(session: Any, name: TableName) -> bool:
    """Whether the session knows a table, view or temporary view of this name.

    Raises
    ------
    DataError
        It knows no catalogue that the name begins with.
    """
    try:
        return bool(session.catalog.tableExists(name.sql))
    except Exception as error:
        kinds = (condition_of(error), str(error))
        if not any(mark in kind for kind in kinds for mark in NO_CATALOGUE):
            raise
    raise DataError(
        name.located(
            f"the Spark session has no catalogue for {name}; a name of three parts begins with a catalogue that "
            "`spark.sql.catalog.NAME` configures (`engines.spark.conf`), or with spark_catalog"
        )
    )


def _unknown(session: SparkSession, name: TableName) -> DataError:
    """What is said of a name that leads to nothing."""
    where = "" if len(name.parts) > 1 else f" in {_standing(session)}"
    return DataError(
        name.located(
            f"the Spark session knows no table or view {name}{where}{_near(session, name)}; correct the name, register "
            "the view in this session, or run the job in a session with the catalogue that has it"
        )
    )


def _standing(session: SparkSession) -> str:
    try:
        return escaped(f"{session.catalog.currentCatalog()}.{session.catalog.currentDatabase()}")
    except Exception:  # noqa: BLE001 - a hint is not worth another error
        return "its current database"


def _near(session: SparkSession, name: TableName) -> str:
    """The nearest name of the same database, as the end of a sentence."""
    try:
        return did_you_mean(name.parts[-1], table_names(session, name.parts[:-1]))
    except Exception:  # noqa: BLE001 - the database may be missing too, or a catalogue that lists nothing
        return ""


def table_names(session: Any, database: tuple[str, ...]) -> list[str]:
    """Names of the tables and views of a database, those that are temporary among them.

    Raises
    ------
    EngineError
        There is no such database, or its catalogue does not answer.
    """
    within = f" IN {TableName(database).sql}" if database else ""
    with reported("list the tables of a database"):
        return [str(row["tableName"]) for row in session.sql(f"SHOW TABLES{within}").collect()]

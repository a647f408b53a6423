"""Small tables of a Spark run are on the driver: a single job costs more than all that is to be done with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from privpipe.blocks.primitives import Known
from privpipe.blocks.requests import Derivation, Request
from privpipe.engines.base.contract import Order
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.embedded import EmbeddedEngine
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.engine import EmbeddedKnown
from privpipe.engines.embedded.session import offered_memory
from privpipe.engines.embedded.stored_rows import rows_of
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.source_facts import is_small
from privpipe.engines.spark.column_types import as_it_came
from privpipe.engines.spark.driver_memory import expected_bytes
from privpipe.engines.spark.failures import reported, told
from privpipe.engines.spark.session import is_connect
from privpipe.engines.spark.sources import is_spark_frame
from privpipe.engines.spark.spark_table import Layout, SparkTable
from privpipe.engines.spark.versions import arrow_table, frame_of
from privpipe.errors import PrivpipeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Near", "where_it_lies"]


M = TypeVar("M", bound=Callable[..., Any])
MOST_COLLECTED = 1_000_000
"""Records of a frame that are asked for; of a larger one they are thrown away."""
LEAST_BYTES = 1 << 30
"""Of memory for the embedded engine: it goes through files for what takes more."""


def where_it_lies(method: M) -> M:
    """A primitive of tables that runs where they are; those of both places meet on the executors."""

    @functools.wraps(method)
    def run(engine: Any, asked: Any, *given: Any, **options: Any) -> Any:
        tables = asked.tables if isinstance(asked, Request) else (asked,)
        if any(isinstance(each, SparkTable) for each in tables):
            sent = engine.near.sent
            asked = asked.over(sent) if isinstance(asked, Request) else sent(asked)
            return method(engine, asked, *given, **options)
        with _quietly():
            return getattr(engine.near, method.__name__)(asked, *given, **options)

    return cast(M, run)


class NearKnown(EmbeddedKnown):
    """What is known of one table on the driver."""

    def estimates(self, columns: Sequence[str]) -> dict[str, int]:
        with _quietly():
            return super().estimates(columns)

    @property
    def has_room(self) -> bool:
        return False


class Near:
    """The small tables of one Spark engine, in an embedded engine that opens when the first of them comes.

    Its other methods are those of the embedded engine.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
    most : int
        Bytes of the largest table that is held here; 0: none is.
    """

    def __init__(self, session: SparkSession, most: int) -> None:
        self._session = session
        self.most = most
        self._opened: EmbeddedEngine | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    @property
    def engine(self) -> EmbeddedEngine:
        """The embedded engine."""
        if self._opened is None:
            # Spark's virtual machine is in the same container.
            self._opened = EmbeddedEngine.open({"memory_limit": f"{max(offered_memory() // 4, LEAST_BYTES)}B"})
        return self._opened

    def close(self) -> None:
        """Free the embedded engine."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def versions(self) -> dict[str, str]:
        """Versions of what worked here."""
        return {} if self._opened is None else self._opened.resources.versions

    def known(self, table: EmbeddedTable) -> Known:
        """See `Engine.known`."""
        return NearKnown(self.engine.session, table)

    def derive(self, made: Derivation) -> EmbeddedTable:
        """See `Engine.derive`."""
        with _quietly():
            return self.engine.derive(made)

    def takes(self, source: Source) -> bool:
        """Whether a source is known to be small without a job: files of this machine, or a frame of this process."""
        return not is_spark_frame(source.data) and is_small(source, self.most)

    def drawn(self, table: SparkTable) -> EmbeddedTable | None:
        """A table of the executors here, where Spark itself takes it for small and it turns out to be."""
        if not self.most or is_connect(self._session) or table.remembered.get("records", 0) > MOST_COLLECTED:
            return None
        if expected_bytes(table.frame) > self.most:
            return None
        with reported("collect a small table"):
            rows = arrow_table(table.frame.limit(MOST_COLLECTED + 1))
        if len(rows) > MOST_COLLECTED or rows.nbytes > 2 * self.most:
            return None
        columns = table.layout.visible(rows.combine_chunks())
        return self.engine.scan(Source(data=pa.Table.from_arrays(columns, schema=table.schema)))

    def sent(self, given: Any) -> Any:
        """A table of this place on the executors, with its ids; all else unchanged."""
        if not isinstance(given, EmbeddedTable):
            return given
        table = given
        layout = Layout(table.schema, table.has_record_ids)
        batches = list(rows_of(self.engine.session, table))
        rows = pa.Table.from_batches(batches).rename_columns(layout.arrow.names) if batches else None
        rows = layout.arrow.empty_table() if rows is None else rows.cast(layout.arrow)
        with reported("send a table to Spark"):
            return SparkTable(frame_of(self._session, rows, layout.struct), layout, {"records": len(rows)})

    def collect(
        self, table: EmbeddedTable, *, like: Any = None, form: ReturnForm = AS_THEY_ARE, order: Order = "keyed"
    ) -> Any:
        """See `Engine.collect`."""
        if not is_spark_frame(like):
            return self.engine.collect(table, like=like, form=form)
        return as_it_came(self._as_frame(self.engine.collect(table)), like, form)

    def _as_frame(self, rows: pa.Table) -> DataFrame:
        layout = Layout(rows.schema)
        with reported("send a table to Spark"):
            frame = frame_of(self._session, rows.rename_columns(layout.arrow.names), layout.struct)
        return frame.toDF(*rows.schema.names)


@contextmanager
def _quietly() -> Iterator[None]:
    """What goes wrong comes out as it does from an executor: errors of others may quote a cell."""
    try:
        yield
        return
    except PrivpipeError:
        raise
    except Exception as error:
        if type(error) is LookupError:  # a primitive was called without what it needs
            raise
        problem = told(error)
    raise problem from None

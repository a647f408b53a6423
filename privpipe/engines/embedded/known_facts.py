"""What the embedded engine knows of a table before it is counted: earlier counts, and estimates of distinct values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from privpipe.blocks import Histogram
from privpipe.blocks.primitives import Known
from privpipe.draws import Seed
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, quoted
from privpipe.engines.embedded.session import Session

__all__ = ["EmbeddedKnown"]


BESIDE_BYTES = 24
"""Of a row: the words that two counts sort at once, and as much again as one of them."""


class EmbeddedKnown(Known):
    """What is known of one table."""

    def __init__(self, session: Session, table: EmbeddedTable) -> None:
        self._session = session
        self._table = table

    def histogram(self, column: str) -> Histogram | None:
        return self._table.histograms.get(column)

    def content(self, seed: Seed) -> tuple[int, int] | None:
        return self._table.content.get(seed.key("record"))

    def estimates(self, columns: Sequence[str]) -> dict[str, int]:
        table = self._table
        table.require(columns)
        self._count_texts_of_files(columns)
        known = {**table.estimates, **{name: len(found) for name, found in table.histograms.items()}}
        unknown = [name for name in columns if name not in known]
        if unknown:  # a caller that asks for the values of a column asks next how many are missing
            both = ("approx_count_distinct({0}), count(*) - count({0})".format(quoted(name)) for name in unknown)
            found = self._session.row(f"SELECT {', '.join(both)} FROM {table.source}", table.frames)
            table.estimates.update(zip(unknown, map(int, found[::2]), strict=True))
            table.nulls.update(zip(unknown, map(int, found[1::2]), strict=True))
        return {name: known.get(name, table.estimates.get(name, 0)) for name in columns}

    def _count_texts_of_files(self, columns: Sequence[str]) -> None:
        """Count texts of large files by their dictionaries, those that are asked for later too: they are read once."""
        table, session = self._table, self._session
        unknown = [name for name in columns if name not in table.histograms and name not in table.estimates]
        if table.files is None or table.records(session) < session.coded_rows:
            return
        if any(pa.types.is_string(table.schema.field(name).type) for name in unknown):
            texts = [each.name for each in table.schema if pa.types.is_string(each.type)]
            found = table.files.some_of(session, texts, table.records(session))
            table.histograms.update({name: held.histogram for name, held in found.items()})

    @property
    def has_room(self) -> bool:
        session, records = self._session, self._table.records(self._session)
        return session.threads > 1 and session.coded_rows <= records <= session.room() // BESIDE_BYTES

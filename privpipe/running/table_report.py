"""What a release of tables writes for people: its tables as published, and in private what an attacker can work out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privpipe.reporting.table_pages import table_page
from privpipe.running.report_figures import RunReport
from privpipe.sinks.records import document_text
from privpipe.tables.entries import TableSet

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableReport"]


@dataclass(frozen=True)
class TableReport(RunReport):
    """The report of a release of tables.

    Parameters
    ----------
    tables : TableSet
        With all that is known of each cell.
    shown : mapping of str to pyarrow.Table
        As they leave.
    """

    tables: TableSet = field(default_factory=lambda: TableSet(tables={}), repr=False)
    shown: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.wanted:
            cells = {name: table.private_rows() for name, table in self.tables.tables.items()}
            object.__setattr__(self, "documents", {"cells": {"edition": "private", "tables": cells}})

    def _page(
        self,
        documents: Mapping[str, Mapping[str, Any]],
        figures: Mapping[str, Any],
        request: Mapping[str, Any] | None = None,
        path: str = "",
    ) -> str:
        verdict = json.loads(document_text(documents["verdict"]))
        private = verdict.get("edition") == "private"
        cells = self.documents["cells"]["tables"] if private else {}
        return table_page(verdict, self.shown, cells)

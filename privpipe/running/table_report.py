"""What a release of tables writes for people: its tables as published, and in private what an attacker can work out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privpipe.reporting.table_pages import drawn_tables, table_page
from privpipe.running.places import sink_format
from privpipe.running.report_figures import RunReport
from privpipe.sinks.records import document_text
from privpipe.tables.attacker_intervals import suppressed_rows
from privpipe.tables.entries import TableSet
from privpipe.tables.table import Table
from privpipe.tables.table_loss import table_loss

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableReport", "cells_document"]


def cells_document(tables: TableSet, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The private document of suppressed cells: their values, the intervals an attacker can derive, the cost."""
    return {
        "edition": "private",
        "tables": suppressed_rows(tables),
        "losses": {name: _losses(table) for name, table in tables.tables.items()},
        "drawn": dict(drawn),
    }


def _losses(table: Table) -> list[dict[str, Any]]:
    """Hidden cells of each figure by the depth of their labels, and in all with the share of the value."""
    rows: list[dict[str, Any]] = []
    for key in table.shown_measures:
        measure = table.measures[key]
        loss = table_loss(table.cells, measure.figures.magnitudes, measure.hidden)
        rows.append(
            {
                "figure": key,
                "depth": "all",
                "hidden": loss.hidden,
                "cells": loss.cells,
                "share": f"{loss.value_share:.2%}",
            }
        )
        rows += [
            {"figure": key, "depth": ", ".join(map(str, depth)), "hidden": hidden, "cells": cells, "share": ""}
            for depth, (hidden, cells) in sorted(loss.levels.items())
        ]
    return rows


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
    drawn: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        policy = self.context.policy
        if self.wanted and policy.tables is not None:
            drawn = drawn_tables(self.shown, policy.tables.aggregate.total, sink_format(policy))
            object.__setattr__(self, "drawn", drawn)
            object.__setattr__(self, "documents", {"cells": cells_document(self.tables, drawn)})

    def _page(
        self,
        documents: Mapping[str, Mapping[str, Any]],
        figures: Mapping[str, Any],
        request: Mapping[str, Any] | None = None,
        path: str = "",
    ) -> str:
        verdict = json.loads(document_text(documents["verdict"]))
        private = verdict.get("edition") == "private"
        cells = json.loads(document_text(self.documents["cells"])) if private else {}
        return table_page(verdict, json.loads(document_text(dict(self.drawn))), cells)

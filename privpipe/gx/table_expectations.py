"""Expectations on finished tables of cells: the audit, and the frequency rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from great_expectations.expectations.expectation import BatchExpectation

from privpipe.border import bordered
from privpipe.errors import PrivpipeError
from privpipe.gx.batch import METRIC, OpenBatch
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.running.table_validation import validate_tables

__all__ = ["ExpectMinimumFrequency", "ExpectTableAudit"]


class TableExpectation(BatchExpectation):
    """Base of both; not itself an expectation.

    The batch is a table in long form, one row per cell: a column for each dimension, a column of figures, and where it
    has one a column ``<figures>_status``. A figure is blank where it is null or its status says so.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
        Dimensions; a hierarchy as in a policy.
    total : str
        Label of all.
    original_source : str, optional
        Path of the same table without blanks.
    """

    dims: Any
    total: str = "Total"
    original_source: Any = None

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    args_keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is the base."""
        return "success_keys" not in vars(cls)

    def _policy(self, responses: list[Any], guarantees: list[dict[str, Any]]) -> Policy:
        trees = self.dims if isinstance(self.dims, Mapping) else dict.fromkeys(self.dims)
        columns: dict[str, Any] = {name: {"role": "quasi_identifier"} for name in trees}
        for name, hierarchy in trees.items():
            if hierarchy is not None:
                columns[name]["hierarchy"] = hierarchy
        for response in responses:
            if isinstance(response, Mapping):
                columns[str(response["sum"])] = {"role": "insensitive"}
        aggregate = {"by": list(trees), "responses": responses, "total": self.total}
        document = {"version": 1, "columns": columns, "transform": [{"aggregate": aggregate}], "guarantees": guarantees}
        return Policy.from_dict(document)

    def _judged(self, batch: OpenBatch) -> Assessment:
        raise TypeError(f"{type(self).__name__} judges nothing")

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        try:
            found = self._judged(metrics[METRIC])
        except PrivpipeError as error:
            details = {"outcome": "error", "threshold": None, "reason": str(error)}
            return {"success": False, "result": {"observed_value": None, "details": details}}
        row = found.verdicts[-1].to_dict()
        details = {key: row[key] for key in ("outcome", "threshold", "reason")} | {"notes": list(found.notes)}
        result = {"observed_value": row["observed"], "element_count": found.records, "details": details}
        return {"success": found.passed, "result": result}


def _responses(column: str) -> list[Any]:
    """The response of a policy that a column of figures is."""
    return ["count"] if column == "count" else [{"sum": column, "name": column}]


@bordered
class ExpectTableAudit(TableExpectation):
    """No blank cell of a finished table can be worked out from the others; observed = number that can.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    column : str
        The figures.
    total : str
    at_least : int, optional
        Least count that may be published: where figures are counts, an attacker must not narrow a blank one down within
        1 to `at_least` - 1.
    original_source : str, optional
        Path of the same table without blanks; without it only blanks are judged, and the result notes so.
    time_limit : float
        Seconds; what is not proved by then is an error.
    """

    column: str = "count"
    at_least: int | None = None
    time_limit: float = 600.0

    success_keys: ClassVar[tuple[str, ...]] = ("dims", "column", "total", "at_least", "original_source", "time_limit")

    def _judged(self, batch: OpenBatch) -> Assessment:
        guarantees: list[dict[str, Any]] = []
        if self.at_least is not None:
            guarantees.append({"minimum_frequency": {"at_least": self.at_least, "severity": "warn"}})
        guarantees.append({"table_audit": {"time_limit": self.time_limit}})
        return validate_tables(self._policy(_responses(self.column), guarantees), batch.cells(), self.original_source)


@bordered
class ExpectMinimumFrequency(TableExpectation):
    """Each published count of a finished table is 0 or at least n; observed = least count.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    at_least : int
        n.
    n_column : str
        The column of counts.
    total : str
    """

    at_least: int
    n_column: str = "count"

    success_keys: ClassVar[tuple[str, ...]] = ("dims", "at_least", "n_column", "total")

    def _judged(self, batch: OpenBatch) -> Assessment:
        cells = batch.cells()
        if self.n_column != "count":
            names = {self.n_column: "count", f"{self.n_column}_status": "count_status"}
            cells = cells.rename_columns([names.get(name, name) for name in cells.schema.names])
        asked = [{"minimum_frequency": {"at_least": self.at_least}}]
        return validate_tables(self._policy(["count"], asked), cells)

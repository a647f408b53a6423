"""Expectations on finished tables of cells: the audit, and the rules on cells that such a table can be judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from great_expectations.expectations.expectation import BatchExpectation

from privpipe.border import bordered
from privpipe.errors import PrivpipeError
from privpipe.gx.batch import METRIC, OpenBatch
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.running.table_validation import validate_tables
from privpipe.tables.finished_tables import figures_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "TABLE_EXPECTATIONS",
    "ExpectDifferencing",
    "ExpectDominance",
    "ExpectGroupDisclosure",
    "ExpectMinimumFrequency",
    "ExpectPPercent",
    "ExpectPriorPosterior",
    "ExpectTableAudit",
]

COMMON = ("dims", "total", "status_column")


class TableExpectation(BatchExpectation):
    """Base of those on tables; not itself an expectation.

    The batch is a table in long form, one row per cell: a column for each dimension, columns of figures, and where it
    has one a column of statuses. A figure is blank where it is null; one whose status shows that it is suppressed must
    be null. No result lists a blank cell, or an unexpected value.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
        Dimensions; a hierarchy as in a policy.
    total : str
        Label of all.
    status_column : str, optional
        What each figure is: published, zero, c (suppressed). Default: ``<figures>_status`` or ``status``, if there.
    """

    dims: Any
    total: str = "Total"
    status_column: str | None = None

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    args_keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is the base."""
        return "success_keys" not in vars(cls)

    def _policy(self, figures: list[str], counts: str | None, guarantees: list[dict[str, Any]]) -> Policy:
        trees = self.dims if isinstance(self.dims, Mapping) else dict.fromkeys(self.dims)
        columns: dict[str, Any] = {name: {"role": "quasi_identifier"} for name in trees}
        for name, hierarchy in trees.items():
            if hierarchy is not None:
                columns[name]["hierarchy"] = hierarchy
        responses: list[Any] = []
        for name in figures:
            responses.append({"count": [], "name": name} if name == counts else {"sum": name, "name": name})
            columns.setdefault(name, {"role": "insensitive"})
        aggregate = {"by": list(trees), "responses": responses, "total": self.total}
        document = {"version": 1, "columns": columns, "transform": [{"aggregate": aggregate}], "guarantees": guarantees}
        return Policy.from_dict(document)

    def _cells(self, batch: OpenBatch, figures: str) -> pa.Table:
        """The rows, with the column of statuses by the name that belongs to the figures."""
        rows = batch.cells()
        if self.status_column is None:
            return rows
        names = {self.status_column: f"{figures}_status"}
        return rows.rename_columns([names.get(name, name) for name in rows.schema.names])

    def _asked(self) -> dict[str, Any]:
        raise TypeError(f"{type(self).__name__} asks nothing")

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


@bordered
class ExpectTableAudit(TableExpectation):
    """No blank cell of a finished table can be worked out from the others; observed = number that can.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    column : str
        The figures.
    n_column : str, optional
        The column of counts, where the figures are sums; a figure without contributors is 0. Default: `column`
        itself, if it is called count.
    total : str
    status_column : str, optional
    at_least : int, optional
        Least count that may be published: where figures are counts, an attacker must not narrow a blank one down within
        1 to `at_least` - 1, nor find a population of fewer in all.
    original_source : str, optional
        Path of the same table without blanks; without it only blanks are judged, and the result notes so.
    time_limit : float
        Seconds; a cell not proved by then is an error.
    """

    column: str = "count"
    n_column: str | None = None
    at_least: int | None = None
    original_source: Any = None
    time_limit: float = 600.0

    success_keys: ClassVar[tuple[str, ...]] = (
        *COMMON,
        "column",
        "n_column",
        "at_least",
        "original_source",
        "time_limit",
    )

    def _judged(self, batch: OpenBatch) -> Assessment:
        guarantees: list[dict[str, Any]] = []
        if self.at_least is not None:
            guarantees.append({"minimum_frequency": {"at_least": self.at_least, "severity": "warn"}})
        guarantees.append({"table_audit": {"time_limit": self.time_limit}})
        counts = self.n_column or ("count" if self.column == "count" else None)
        figures = list(dict.fromkeys([self.column, *([self.n_column] if self.n_column else [])]))
        policy = self._policy(figures, counts, guarantees)
        return validate_tables(policy, self._cells(batch, self.column), self.original_source, extra_columns=True)


class CountExpectation(TableExpectation):
    """Base of those on published counts; not itself an expectation."""

    n_column: str = "count"

    def _judged(self, batch: OpenBatch) -> Assessment:
        policy = self._policy([self.n_column], self.n_column, [self._asked()])
        return validate_tables(policy, self._cells(batch, self.n_column), extra_columns=True)


@bordered
class ExpectMinimumFrequency(CountExpectation):
    """Each published count of a finished table is 0 or at least n; observed = least count.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    at_least : int
        n.
    n_column : str
        The column of counts.
    total : str
    status_column : str, optional
    """

    at_least: int

    success_keys: ClassVar[tuple[str, ...]] = (*COMMON, "at_least", "n_column")

    def _asked(self) -> dict[str, Any]:
        return {"minimum_frequency": {"at_least": self.at_least}}


@bordered
class ExpectDifferencing(CountExpectation):
    """Nested published cells differ by no contributor or by at least n; observed = pairs that do not.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    at_least : int
        n.
    n_column : str
        The column of counts.
    total : str
    status_column : str, optional
    """

    at_least: int

    success_keys: ClassVar[tuple[str, ...]] = (*COMMON, "at_least", "n_column")

    def _asked(self) -> dict[str, Any]:
        return {"differencing": {"at_least": self.at_least}}


@bordered
class ExpectGroupDisclosure(CountExpectation):
    """No published group has all its members but k in one published cell; observed = pairs of group and cell that do.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    columns : list of str
        Dimensions that are attributes.
    known : int
        k.
    share : float, optional
        A cell with at least this share of its group fails as well.
    n_column : str
        The column of counts.
    total : str
    status_column : str, optional
    """

    columns: list[str]
    known: int = 0
    share: float | None = None

    success_keys: ClassVar[tuple[str, ...]] = (*COMMON, "columns", "known", "share", "n_column")

    def _asked(self) -> dict[str, Any]:
        share = {} if self.share is None else {"share": self.share}
        return {"group_disclosure": {"columns": self.columns, "known": self.known, **share}}


class SumExpectation(TableExpectation):
    """Base of those on the largest contributions of published sums; not itself an expectation.

    The batch has these contributions, so it is internal: publish it without them.
    """

    column: str
    top_columns: list[str]
    n_column: str = "count"

    def _judged(self, batch: OpenBatch) -> Assessment:
        rows = self._cells(batch, self.column)
        [(name, parameters)] = self._asked().items()
        policy = self._policy([self.column], None, [{name: parameters}])
        return validate_tables(policy, rows, self._true(rows, policy), extra_columns=True)

    def _true(self, rows: pa.Table, policy: Policy) -> pa.Table:
        """What is known of each cell; where the sum is blank nothing is judged, and any figure will do."""
        import pyarrow as pa

        names = [column for column in (self.n_column, self.column, *self.top_columns) if column in rows.schema.names]
        missing = {self.n_column, self.column, *self.top_columns} - set(names)
        dims = list(self.dims)
        if missing or not set(dims) <= set(rows.schema.names):
            return rows  # what is missing is said where the table is read
        places = max(figures_of(rows.column(name), name)[2] for name in names if name != self.n_column)
        tops = [figures_of(rows.column(name), name, places)[0] for name in self.top_columns]
        values, blank, _ = figures_of(rows.column(self.column), self.column, places)
        counts, unknown, _ = figures_of(rows.column(self.n_column), self.n_column)
        some = sum((top != 0).astype(np.int64) for top in tops) if tops else np.zeros(rows.num_rows, dtype=np.int64)
        found = {dim: rows.column(dim) for dim in dims}
        found["count:contributors"] = pa.array(np.where(unknown, np.maximum(some, 1), counts))
        found[f"{self.column}:total"] = _decimals(np.where(blank, 0, values), places)
        for rank, top in enumerate(tops, 1):
            found[f"{self.column}:largest_{rank}"] = _decimals(np.where(blank, 0, top), places)
        return pa.table(found)


def _decimals(units: Any, places: int) -> pa.Array:
    import decimal

    import pyarrow as pa

    return pa.array([decimal.Decimal(int(unit)).scaleb(-places) for unit in units], pa.decimal128(38, places))


@bordered
class ExpectPPercent(SumExpectation):
    """No contributor can estimate another's value to within p percent of it; observed = least percentage.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    column : str
        The sums.
    top_columns : list of str
        The largest contributions of each cell, falling: two, and one more for each of a coalition beyond the first.
    n_column : str
        Contributors of each cell.
    at_least : float
        p.
    coalition : int
        Contributors that pool what they know.
    total : str
    status_column : str, optional
    """

    at_least: float
    coalition: int = 1

    success_keys: ClassVar[tuple[str, ...]] = (*COMMON, "column", "top_columns", "n_column", "at_least", "coalition")

    def _asked(self) -> dict[str, Any]:
        return {"p_percent": {"at_least": self.at_least, "coalition": self.coalition}}


@bordered
class ExpectDominance(SumExpectation):
    """The n largest contributors have at most a share k of each published sum; observed = greatest share.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    column : str
        The sums.
    top_columns : list of str
        The largest contributions of each cell, falling; at least `contributors` of them.
    n_column : str
        Contributors of each cell.
    contributors : int
        n.
    at_most : float
        k, a share.
    total : str
    status_column : str, optional
    """

    contributors: int
    at_most: float

    success_keys: ClassVar[tuple[str, ...]] = (*COMMON, "column", "top_columns", "n_column", "contributors", "at_most")

    def _asked(self) -> dict[str, Any]:
        return {"dominance": {"contributors": self.contributors, "at_most": self.at_most}}


@bordered
class ExpectPriorPosterior(SumExpectation):
    """No one who knew each contribution to within q percent can estimate one to within p; observed = least percentage.

    Parameters
    ----------
    dims : list of str, or mapping of column to hierarchy
    column : str
        The sums.
    top_columns : list of str
        The two largest contributions of each cell.
    n_column : str
        Contributors of each cell.
    p, q : float
        Percent.
    total : str
    status_column : str, optional
    """

    p: float
    q: float

    success_keys: ClassVar[tuple[str, ...]] = (*COMMON, "column", "top_columns", "n_column", "p", "q")

    def _asked(self) -> dict[str, Any]:
        return {"prior_posterior": {"p": self.p, "q": self.q}}


TABLE_EXPECTATIONS = {
    "table_audit": ExpectTableAudit,
    "minimum_frequency": ExpectMinimumFrequency,
    "p_percent": ExpectPPercent,
    "dominance": ExpectDominance,
    "prior_posterior": ExpectPriorPosterior,
    "group_disclosure": ExpectGroupDisclosure,
    "differencing": ExpectDifferencing,
}
"""By the guarantee on cells that each asks."""

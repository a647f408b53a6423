"""An expectation that no column looks like an identifier that HIPAA Safe Harbor removes."""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.expectations.expectation import BatchExpectation

from privpipe.border import bordered
from privpipe.errors import PrivpipeError
from privpipe.gx.batch import METRIC, OpenBatch

__all__ = ["ExpectSafeHarbor"]


@bordered
class ExpectSafeHarbor(BatchExpectation):
    """No column looks like one of the 18 kinds of identifiers of 45 CFR 164.514(b)(2); observed = such columns.

    It searches the names of columns and their distinct values (`privpipe.reporting.safe_harbor`). A PASS does not show
    that the batch conforms: free text may name people in forms that no pattern finds.

    Parameters
    ----------
    vouched : list of str, optional
        Columns that a person looked at and vouches for, such as ``zip`` after only its first three digits were left.
    """

    vouched: list[str] | dict[str, str] = []

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = ("vouched",)
    args_keys: ClassVar[tuple[str, ...]] = ()

    @property
    def awaited(self) -> list[str]:
        """Names of the parameters that each run must give."""
        return [self.vouched["$PARAMETER"]] if isinstance(self.vouched, dict) else []

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        batch: OpenBatch = metrics[METRIC]
        try:
            found = [each for each in batch.safe_harbor() if each.column not in self.vouched]
        except PrivpipeError as error:
            details = {"outcome": "error", "threshold": 0, "reason": str(error)}
            return {"success": False, "result": {"observed_value": None, "details": details}}
        columns = sorted({each.column for each in found})
        reason = "; ".join(f"column {each.column!r} seems to hold {each}" for each in found)
        details = {"outcome": "fail" if found else "pass", "threshold": 0, "reason": reason}
        return {"success": not found, "result": {"observed_value": len(columns), "details": details}}

"""A Checkpoint action under which a failing run fails."""

from __future__ import annotations

from typing import Any, Literal

from great_expectations.checkpoint.actions import ActionContext, ValidationAction
from great_expectations.checkpoint.checkpoint import CheckpointResult

from privpipe.errors import Refused

__all__ = ["RaiseOnFailure"]


class RaiseOnFailure(ValidationAction):
    """Raise `Refused` when any expectation of the checkpoint failed: a report alone stops no publish."""

    type: Literal["privpipe_raise_on_failure"] = "privpipe_raise_on_failure"

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Raise, or say that nothing failed."""
        if checkpoint_result.success:
            return {"failed": 0}
        failed = [
            outcome.expectation_config.type
            for run in checkpoint_result.run_results.values()
            for outcome in run.results
            if not outcome.success and outcome.expectation_config is not None
        ]
        raise Refused(f"refused: {len(failed)} expectation(s) failed: {', '.join(sorted(failed))}")

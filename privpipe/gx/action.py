"""A Checkpoint action that raises an error when a validation fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from great_expectations.checkpoint.actions import ActionContext, ValidationAction
from great_expectations.checkpoint.checkpoint import CheckpointResult

from privpipe.errors import Refused
from privpipe.gx.expectations import EXPECTATIONS

__all__ = ["DECLARED", "RaiseOnFailure", "is_privacy_type"]

DECLARED = "privacy_expectations"
"""Under ``privpipe`` of a suite's meta: how many privacy expectations it was saved with.

Great Expectations drops an expectation that it does not know from a suite, with a line in a log."""
_TYPES = frozenset(f"expect_{name}" for name in EXPECTATIONS)


def is_privacy_type(name: str) -> bool:
    """Whether an expectation of this type is one of ours.

    Examples
    --------
    >>> is_privacy_type("expect_k_anonymity"), is_privacy_type("expect_column_to_exist")
    (True, False)
    """
    return name in _TYPES


class RaiseOnFailure(ValidationAction):
    """Raise `Refused` when an expectation of the checkpoint failed, and when a validation judged less than it should.

    A report alone stops no publish. Neither does a validation whose suite holds no privacy expectation, or has lost
    some: a process that did not import `privpipe.gx` before it read the suite.
    """

    type: Literal["privpipe_raise_on_failure"] = "privpipe_raise_on_failure"

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Raise, or say that nothing failed."""
        declared = _declared(checkpoint_result)
        for run in checkpoint_result.run_results.values():
            _require_judged(run, declared.get(run.suite_name, 0))
        if checkpoint_result.success:
            return {"failed": 0}
        failed = [
            outcome.expectation_config.type
            for run in checkpoint_result.run_results.values()
            for outcome in run.results
            if not outcome.success and outcome.expectation_config is not None
        ]
        raise Refused(f"refused: {len(failed)} expectation(s) failed: {', '.join(sorted(failed))}")


def _declared(result: CheckpointResult) -> Mapping[str, int]:
    """By name of the suite the number of privacy expectations it holds, or held when it was saved."""
    found: dict[str, int] = {}
    for definition in result.checkpoint_config.validation_definitions:
        suite = definition.suite
        held = sum(is_privacy_type(expectation.expectation_type) for expectation in suite.expectations)
        saved = (suite.meta.get("privpipe") or {}).get(DECLARED, 0)
        found[suite.name] = max(found.get(suite.name, 0), held, saved)
    return found


def _require_judged(run: Any, declared: int) -> None:
    types = [outcome.expectation_config.type for outcome in run.results if outcome.expectation_config is not None]
    judged = sum(map(is_privacy_type, types))
    if judged and judged >= declared:
        return
    said = f"{judged} of the {declared} privacy expectations" if judged or declared else "no privacy expectation"
    raise Refused(
        f"refused: the validation of suite {run.suite_name!r} evaluated {said}, so nothing vouches for its data; "
        "import privpipe.gx before the suite is read, and save a suite that was changed on purpose with save_suite"
    )

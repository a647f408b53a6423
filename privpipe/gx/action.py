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

    What fails with the severity ``warning`` is counted and does not raise; at least one privacy expectation of each
    suite must be able to.
    A report alone stops no publish. Neither does a validation whose suite holds no privacy expectation, or has lost
    some: a process that did not import `privpipe.gx` before it read the suite.
    """

    type: Literal["privpipe_raise_on_failure"] = "privpipe_raise_on_failure"

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Raise, or say that nothing failed, and how many only warned."""
        declared = _declared(checkpoint_result)
        for run in checkpoint_result.run_results.values():
            _require_judged(run, declared.get(run.suite_name, 0))
        if checkpoint_result.success:
            return {"failed": 0}
        results = [outcome for run in checkpoint_result.run_results.values() for outcome in run.results]
        missed = [outcome for outcome in results if not outcome.success]
        failed = [_type(outcome) for outcome in missed if not _only_warns(outcome)]
        if missed and not failed:
            return {"failed": 0, "warned": len(missed)}
        raise Refused(f"refused: {len(failed)} expectation(s) failed: {', '.join(sorted(failed))}")


def _type(outcome: Any) -> str:
    return "unknown" if outcome.expectation_config is None else str(outcome.expectation_config.type)


def _only_warns(outcome: Any) -> bool:
    """Whether an expectation is of severity `warning`, where this version of Great Expectations knows severities."""
    severity = getattr(outcome.expectation_config, "severity", None)
    return getattr(severity, "value", severity) == "warning"


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
    ours = [outcome for outcome in run.results if is_privacy_type(_type(outcome))]
    judged = len(ours)
    if judged and judged >= declared:
        if all(map(_only_warns, ours)):
            raise Refused(
                f"refused: every privacy expectation of suite {run.suite_name!r} only warns, so nothing vouches for "
                "its data; give one the severity critical"
            )
        return
    said = f"{judged} of the {declared} privacy expectations" if judged or declared else "no privacy expectation"
    raise Refused(
        f"refused: the validation of suite {run.suite_name!r} evaluated {said}, so nothing vouches for its data; "
        "import privpipe.gx before the suite is read, and save a suite that was changed on purpose with save_suite"
    )

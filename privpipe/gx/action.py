"""A Checkpoint action that raises an error when a validation fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from great_expectations.checkpoint.actions import ActionContext, ValidationAction
from great_expectations.checkpoint.checkpoint import CheckpointResult

from privpipe.errors import Refused
from privpipe.gx.expectations import EXPECTATIONS
from privpipe.gx.joint_expectations import JOINT_EXPECTATIONS

__all__ = ["DECLARED", "RaiseOnFailure", "is_privacy_type"]

DECLARED = "privacy_expectations"
"""Under ``privpipe`` of a suite's meta: how many privacy expectations it was saved with.

Great Expectations drops an expectation that it does not know from a suite, with a line in a log."""
_TYPES = frozenset(f"expect_{name}" for name in (*EXPECTATIONS, *JOINT_EXPECTATIONS, "safe_harbor"))


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

    A report by itself does not stop a publication. Neither does a validation whose suite holds no privacy expectation,
    or has lost some because a process did not import `privpipe.gx` before it read the suite. An expectation of severity
    ``warning`` or ``info`` that fails is a Python warning, and the run continues; at least one privacy expectation of
    each suite must be critical.

    Parameters
    ----------
    expects : int or list of str, optional
        How many privacy expectations each validation must evaluate, or their types, such as
        ``["expect_k_anonymity"]``. Left out, as many as its suite was saved with, and at least one.
    """

    type: Literal["privpipe_raise_on_failure"] = "privpipe_raise_on_failure"
    expects: int | list[str] | None = None

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Raise, or say how many warnings there are.

        Raises
        ------
        Refused
            An expectation failed whose severity is critical, or fewer were evaluated than there should be.
        """
        declared = _declared(checkpoint_result)
        for run in checkpoint_result.run_results.values():
            _require_judged(run, declared.get(run.suite_name, 0), self.expects)
        if checkpoint_result.success:
            return {"failed": 0, "warned": 0}
        results = [outcome for run in checkpoint_result.run_results.values() for outcome in run.results]
        missed = [outcome for outcome in results if not outcome.success]
        failed = sorted(_told(outcome) for outcome in missed if not _only_warns(outcome))
        if failed or not missed:
            raise Refused(f"refused: {len(failed)} of {len(results)} expectation(s) failed: {'; '.join(failed)}")
        types = "; ".join(sorted(map(_told, missed)))
        warnings.warn(f"{len(missed)} expectation(s) that only warn failed: {types}", stacklevel=2)
        return {"failed": 0, "warned": len(missed)}


def _type(outcome: Any) -> str:
    return "unknown" if outcome.expectation_config is None else str(outcome.expectation_config.type)


def _told(outcome: Any) -> str:
    """The type of an expectation that failed; of ours also what was observed and required, or why it was not judged."""
    name, result = _type(outcome), outcome.result or {}
    if not is_privacy_type(name):
        return name  # what others observed may be a value of the table
    if details := result.get("details"):
        return f"{name} ({details['reason']})"
    info = outcome.exception_info or {}
    for raised in (info, *info.values()):
        # Only what this package raised is known to quote no value.
        if isinstance(raised, Mapping) and "privpipe.errors." in str(raised.get("exception_traceback")):
            return f"{name} (not judged: {raised['exception_message']})"
    return f"{name} (not judged)"


def _only_warns(outcome: Any) -> bool:
    """Whether an expectation is of severity warning or info; old versions of Great Expectations know none."""
    severity = getattr(outcome.expectation_config, "severity", None)
    return getattr(severity, "value", severity) in ("warning", "info")


def _declared(result: CheckpointResult) -> Mapping[str, int]:
    """By name of the suite the number of privacy expectations it holds, or held when it was saved."""
    found: dict[str, int] = {}
    for definition in result.checkpoint_config.validation_definitions:
        suite = definition.suite
        held = sum(is_privacy_type(expectation.expectation_type) for expectation in suite.expectations)
        saved = (suite.meta.get("privpipe") or {}).get(DECLARED, 0)
        found[suite.name] = max(found.get(suite.name, 0), held, saved)
    return found


def _require_judged(run: Any, declared: int, expects: int | Sequence[str] | None) -> None:
    ours = [outcome for outcome in run.results if is_privacy_type(_type(outcome))]
    judged = len(ours)
    if isinstance(expects, int):
        declared = max(declared, expects)
    lacking = [] if expects is None or isinstance(expects, int) else sorted(set(expects) - set(map(_type, run.results)))
    if judged and judged >= declared and not lacking:
        if all(map(_only_warns, ours)):
            raise Refused(
                f"refused: every privacy expectation of suite {run.suite_name!r} only warns, so nothing vouches for "
                "its data; give one the severity critical"
            )
        return
    said = f"{judged} of the {declared} privacy expectations" if judged or declared else "no privacy expectation"
    if lacking:
        said = f"{said} and lacks {', '.join(lacking)}" if judged < declared else f"no {', no '.join(lacking)}"
    raise Refused(
        f"refused: the validation of suite {run.suite_name!r} evaluated {said}, so nothing vouches for its data; "
        "import privpipe.gx before the suite is read (`privpipe gx protect` does it for all that open the context), "
        "and save a suite that was changed on purpose with save_suite"
    )

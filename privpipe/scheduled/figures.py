"""The public figures of a verdict under a policy, and what did not hold in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.judging import Assessment
from privpipe.judging.public_figures import public_figures as figures_of
from privpipe.running.run_documents import public_rules

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["public_figures", "refusal"]


def public_figures(assessment: Assessment, policy: Policy) -> dict[str, Any]:
    """What the public edition of the verdict says of each guarantee; of a refused table no more than of a release."""
    shown = assessment.public_dict(public_rules(policy, policy.released_roles.columns))
    return figures_of(shown, (*assessment.built_in, *assessment.verdicts))


def refusal(figures: dict[str, Any]) -> str:
    """What did not hold, in a sentence for a log."""
    failed = [row for row in figures["guarantees"] if row["outcome"] != "pass" and row["severity"] == "fail"]
    said = [f"{row['guarantee']}: asked {_shown(row['asked'])}, reached {_shown(row['reached'])}" for row in failed]
    return "; ".join(said) or "a column lost more than the policy allows"


def _shown(figure: Any) -> str:
    return "a figure that is not shown" if figure is None else str(figure)

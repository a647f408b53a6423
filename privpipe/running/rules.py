"""A policy's rules for reading values, as tables are judged by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.judging import JudgingRules
from privpipe.judging.gate import Gate

if TYPE_CHECKING:
    from privpipe.blocks import Histogram
    from privpipe.policy import Policy

__all__ = ["judging_rules", "withholds_counts"]


def withholds_counts(policy: Policy) -> bool:
    """Whether a model or a stage of the policy forbids counts of the source."""
    return any(entry.forbids_counts for entry in (*policy.entries, *policy.transform))


def judging_rules(policy: Policy, base: dict[str, Histogram] | None = None) -> JudgingRules:
    """The policy's rules for reading values; records that are drawn from a model are of no person."""
    refused = [name for name, column in policy.columns.items() if column.nulls == "refuse"]
    return JudgingRules(
        nulls=policy.nulls,
        refuse_nulls=tuple(refused),
        wildcard=policy.wildcard,
        person=None if policy.draws_records else policy.person_id,
        household=None if policy.draws_records else policy.household_id,
        mark=policy.suppression_mark,
        base=base or {},
        hierarchies=policy.hierarchies,
        versions=policy.versions,
        empty=policy.empty,
        gate=Gate(
            undeclared="note" if policy.undeclared == "note" else "refuse",
            metadata=policy.metadata,
            notes=True,
            pseudonyms=policy.pseudonyms,
        ),
    )

"""The methods that may serve a policy that stands, tried on a sample of its source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from privpipe.drafting.methods import Candidate, candidates
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.surviving import lost_of_use
from privpipe.drafting.trying import SECONDS, Clock, Trial, sample_of, tried
from privpipe.engines import Engine, open_engine
from privpipe.errors import PolicyError, UnsupportedError, UsageError
from privpipe.policy import Policy

__all__ = ["Suggestion", "suggested"]

SEARCHES = ("generalize", "mondrian", "local_recoding", "suppress_cells", "suppress_records")
Suggestion = dict[str, Any]


def suggested(
    policy: Policy, *, seconds: float = SECONDS, tell: Callable[[str], None] = lambda step: None
) -> list[Suggestion]:
    """What each method makes of a sample, the least loss first; those that do not meet the guarantees last.

    The other stages of the policy stay as they are; what searches for its guarantees is replaced.

    Parameters
    ----------
    policy : Policy
    seconds : float
        The time that trials may take.
    tell : callable, optional
        Called with each step.

    Raises
    ------
    UsageError
        No quasi-identifier has a hierarchy.
    """
    names = [name for name in policy.roles.quasi_identifiers if name in policy.hierarchies]
    if not names:
        raise UsageError("no quasi-identifier of the policy has a `hierarchy:`, so there is nothing to choose from")
    clock = Clock(seconds, tell)
    with open_engine("embedded") as engine:
        rows = sample_of(engine, policy)
        found = [
            _row(policy, trial) for trial in _trials(policy, _candidates(policy, names, rows), rows, engine, clock)
        ]
    return sorted(found, key=lambda row: (row["loss"] is None, row["score"] if row["loss"] is not None else 1.0))


def _candidates(policy: Policy, names: list[str], rows: Any) -> list[Candidate]:
    profiles = []
    for name in names:
        column = rows.column(name)
        kind: Any = policy.types.get(name, "text")
        numeric = kind in NUMBERS
        profiles.append(
            Profile(name, kind, len(rows), column.null_count, len(column.unique()), spread=1.0 if numeric else 0.0)
        )
    hierarchies = {name: policy.hierarchies[name].to_dict() for name in names}
    k = max((int(each.parameters().get("k") or 1) for each in policy.guarantees), default=2)
    return list(candidates(profiles, hierarchies, [each.name() for each in policy.guarantees], max(k, 2)))


def _trials(policy: Policy, methods: list[Candidate], rows: Any, engine: Engine, clock: Clock) -> Iterator[Trial]:
    for at, method in enumerate(methods):
        if at and clock.left <= 0:
            return
        clock.tell(f"try {method.stages[0].partition(':')[0]}")
        try:
            made = _with(policy, method.stages)
        except (PolicyError, UnsupportedError):
            continue
        yield tried(method.stages, made, rows.slice(0, method.records) if method.records else rows, engine)


def _with(policy: Policy, stages: tuple[str, ...]) -> Policy:
    from privpipe.policy.plain_values import from_yaml

    document: Any = copy.deepcopy(dict(policy.document))
    lines, _ = from_yaml("\n".join(f"- {stage}" for stage in stages), "stages")
    kept = [each for each in document.get("transform") or [] if next(iter(each)) not in SEARCHES]
    document["transform"] = [*kept, *lines]
    return Policy.from_dict(document, policy.base_dir)


def _row(policy: Policy, trial: Trial) -> Suggestion:
    uses = {str(use): lost_of_use(use, trial.paired) for use in policy.uses} if trial.paired is not None else {}
    score = sum(uses.values()) / len(uses) if uses else trial.loss
    return {
        "stages": list(trial.stages),
        "loss": trial.loss if trial.holds else None,
        "score": score if trial.holds else None,
        "uses": uses,
        "columns": dict(trial.columns),
        "suppressed": trial.suppressed if trial.holds else None,
        "records": trial.records,
        "seconds": round(trial.seconds, 1),
    }

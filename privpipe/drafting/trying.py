"""Try the methods that may meet a draft's guarantees on a sample, and choose the one that keeps most."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.drafting.draft import Method
from privpipe.draws import Seed
from privpipe.engines import Engine, open_engine
from privpipe.errors import DataError, HierarchyError, NoSolutionError, Refused

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["chosen_method"]

STAGES = (
    "generalize: {search: optimal, suppress_at_most: 0.05}",
    "mondrian: {}",
    "local_recoding: {suppress_at_most: 0.05}",
)
QUICK = ("k_anonymity", "distinct_l_diversity")
"""Guarantees that local recoding judges inside its search."""
LATER = ("t_closeness",)
"""Proposed guarantees that are given up where nothing meets them; some guarantee has to judge a sensitive column."""
MOST_LOSS = 0.9
"""Mean loss of a column from which on a guarantee that may be given up blanks more than it protects."""
MOST_RECORDS = 30_000
SECONDS = 60.0


def chosen_method(draft: Callable[[Method], str], home: Path) -> Method:
    """The method whose release of a sample loses least, with the figures of all.

    Parameters
    ----------
    draft : callable
        The text of the policy with a method.
    home : Path
    """
    end = time.monotonic() + SECONDS
    with open_engine("embedded") as engine:
        rows: Any = None
        for given_up in range(len(LATER) + 1):
            without = LATER[:given_up]
            losses: dict[str, float | None] = {}
            for stage in STAGES:
                policy = _loaded(draft(Method(stage, without=without)), home)
                if losses and (time.monotonic() > end or _is_slow(stage, policy)):
                    continue
                if rows is None:
                    rows = _sample(engine, policy)
                losses[stage] = _loss(policy, rows, engine)
            most = MOST_LOSS if given_up < len(LATER) else 1.0
            met = {stage: loss for stage, loss in losses.items() if loss is not None and loss <= most}
            if met:
                best = min(met, key=lambda stage: met[stage])
                return Method(best, tuple(_notes(losses, best)), without)
    return Method(notes=("No method met all guarantees: choose fewer quasi-identifiers, or lower thresholds.",))


def _notes(losses: dict[str, float | None], best: str) -> Iterator[str]:
    yield "What the quasi-identifiers lose on a sample, from 0 (nothing) to 1 (all); the least was chosen:"
    for stage, loss in losses.items():
        yield f"  {'cannot meet the guarantees' if loss is None else format(loss, '.3f')}: {stage}"
    if not best.startswith("generalize"):
        yield "Cells of one column may have labels of several levels."


def _loaded(text: str, home: Path) -> Policy:
    from privpipe.policy import Policy
    from privpipe.policy.plain_values import from_yaml

    document, report = from_yaml(text, "draft")
    report.raise_if_wrong()
    return Policy.from_dict(document, home)


def _sample(engine: Engine, policy: Policy) -> Any:
    """All records, or about as many as the limit says."""
    from privpipe.running.run import source_of

    table = engine.scan(source_of(policy))
    records = engine.count(table)
    if records > MOST_RECORDS:
        named = engine.with_record_ids(table, None, Seed.of(secrets.token_bytes(32)))
        table = engine.thinned(named, MOST_RECORDS / records)
    return engine.collect(table)


def _is_slow(stage: str, policy: Policy) -> bool:
    return stage.startswith("local_recoding") and any(each.name() not in QUICK for each in policy.binding)


def _loss(policy: Policy, rows: Any, engine: Engine) -> float | None:
    """Mean loss of the recoded columns where the policy's guarantees hold on the sample; None where they do not."""
    from privpipe.running.verbs import plan

    try:
        made = plan(rows, policy, engine=engine)
        policy.apply(rows, engine=engine)
    except (NoSolutionError, Refused, DataError, HierarchyError):
        return None
    losses = made.stages[-1].detail["column_losses"].values()
    return float(sum(losses) / len(losses)) if losses else 0.0

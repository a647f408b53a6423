"""`compare`: settings of a policy, several policies or stages over one table, or two finished runs, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privpipe.border import bordered
from privpipe.engines.base.frames import at_hand
from privpipe.errors import UsageError
from privpipe.policy import Policy
from privpipe.policy.plain_values import written
from privpipe.reporting.risk_utility import RiskUtilityMap
from privpipe.reporting.run_comparison import RunComparison, compare_runs
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.frames import about
from privpipe.running.settings_grid import Chosen, compare_grid, compare_policies
from privpipe.running.tables_read import pinned_tables
from privpipe.transforms.base import Transformer

__all__ = ["compare"]


@bordered
def compare(
    first: Any,
    others: Any = None,
    *,
    policy: Policy | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    risk: Sequence[str] = (),
    loss: Sequence[str] = (),
    engine: Any = None,
    progress: Callable[[str], None] | None = None,
) -> RiskUtilityMap | RunComparison:
    """Compare risk and loss of several settings, policies or stages, or the figures of two finished runs.

    ======================================  ==================================================================
    `compare(run, run)`                     two releases, by their folders, private records or results
    `compare(frame, [policy, policy])`      each policy over one table
    `compare(frame, [stage, stage],         each stage (or list of stages) in the place of the policy's
    policy=...)`
    `compare(frame, policy=..., grid=...)`  each combination of values at places of the policy
    ======================================  ==================================================================

    Parameters
    ----------
    first : path or frame, or a finished run
        None: the policy's own source.
    others : sequence of policies or stages, or the second run
    policy : Policy, path or mapping, optional
    grid : mapping of place to list of values, optional
        As ``"transform[0].rank_swap.p": [0.02, 0.05]``.
    risk, loss : sequence of str
        Measures that count as risk and as loss, of the policies or any other; left out, all of risk and the first of
        loss.
    engine : str or Engine, optional
    progress : callable, optional
        Called with each point.

    Returns
    -------
    RiskUtilityMap or RunComparison
        With `rows`, `to_pandas()` and `to_dict()`. All points share the seed and the sample of attacked records;
        nothing is published.

    Raises
    ------
    UsageError
        Nothing of these, or a policy without the measures of the first.
    NoSolutionError
        No point has a solution.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> policy = pp.Policy(
    ...     roles=pp.Roles(quasi_identifiers=["age"]),
    ...     guarantees=[pp.models.KAnonymity(k=2)],
    ...     measures=[pp.measures.ProsecutorRisk(), pp.measures.InformationLoss(measure="il1s")],
    ... )
    >>> stages = [pp.transforms.TopCode(columns=["age"], at=at) for at in (35, 38)]
    >>> pp.compare(pd.DataFrame({"age": [30, 30, 40, 50]}), stages, policy=policy)
    RiskUtilityMap(2 points, 2 met all guarantees, 1 unbeaten)
    """
    left, right = _run(first), _run(others)
    if left is not None and right is not None and policy is None and grid is None:
        if risk or loss or engine is not None or progress is not None:
            raise UsageError("compare: risk=, loss=, engine= and progress= are not for finished runs")
        return compare_runs(RunDocuments.read(left), RunDocuments.read(right))
    first = at_hand(first, "compare")
    if grid is not None:
        if policy is None or others is not None:
            raise UsageError("compare: grid= varies one policy; give a frame (or None), policy= and grid=")
        if not isinstance(grid, Mapping) or not grid:
            raise UsageError("compare: grid= maps places of the policy to lists of values")
        return compare_grid(_over(first, _policy(policy)), grid, risk=risk, loss=loss, engine=engine, progress=progress)
    if isinstance(others, str) or not isinstance(others, Sequence) or not others:
        raise UsageError(
            "compare: give two finished runs; a frame and a list of policies, or of stages with policy=; or a frame, "
            "policy= and grid="
        )
    points = _points(first, others, policy)
    base = points[0][1]
    return compare_policies(base, points, Chosen.of(base, risk, loss), engine, progress)


def _points(frame: Any, others: Sequence[Any], policy: Any) -> list[tuple[dict[str, str], Policy]]:
    staged = [_stages(each) for each in others]
    if all(staged):
        if policy is None:
            raise UsageError("compare: stages are compared under the guarantees and measures of policy=")
        base = _over(frame, _policy(policy))
        names = [f"#{at}: {' + '.join(stage.name() for stage in stages)}" for at, stages in enumerate(staged, 1)]
        return [({"stages": name}, _with_stages(base, stages)) for name, stages in zip(names, staged, strict=True)]
    if any(staged) or policy is not None:
        raise UsageError("compare: give policies, or stages with policy=, not both")
    policies = [_over(frame, _policy(each)) for each in others]
    return [({"policy": f"#{at}: {each.name}"}, each) for at, each in enumerate(policies, 1)]


def _with_stages(policy: Policy, stages: tuple[Transformer, ...]) -> Policy:
    document = {**policy.document, "transform": [written(stage) for stage in stages]}
    return Policy.from_dict(document, policy.base_dir).replaced(
        source=policy.source, population=policy.population, versions=policy.versions
    )


def _stages(given: Any) -> tuple[Transformer, ...]:
    """The stages of one point; none where it is something else."""
    stages = (given,) if isinstance(given, Transformer) else given
    found = isinstance(stages, list | tuple) and all(isinstance(each, Transformer) for each in stages)
    return tuple(stages) if found else ()


def _policy(given: Any) -> Policy:
    if isinstance(given, Policy):
        return given
    if not isinstance(given, Mapping | str | os.PathLike):
        raise UsageError(f"compare: {type(given).__name__} is no policy, stage or list of stages")
    return Policy.from_dict(given) if isinstance(given, Mapping) else Policy.load(given)


def _over(frame: Any, policy: Policy) -> Policy:
    return pinned_tables(policy if frame is None else about(policy, frame))


def _run(given: Any) -> str | None:
    """The place of a finished run, where it is one."""
    path = given if isinstance(given, str | os.PathLike) else getattr(given, "path", None)
    return os.fspath(path) if isinstance(path, str | os.PathLike) else None

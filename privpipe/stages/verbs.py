"""Learn a stage from a frame, and run it over one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.judging.column_loss import LossTable
from privpipe.policy import Policy
from privpipe.running.plan import Plan
from privpipe.running.verbs import transform as transform_by_plan
from privpipe.stages.asked import Asked
from privpipe.stages.learnt import LearntStage
from privpipe.stages.stage_over import StageOver
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import StageOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["apply", "fit", "transform"]

F = TypeVar("F")
Stages = Transformer | Sequence[Transformer]


@bordered
def apply(stage: Transformer, frame: Any, options: Mapping[str, Any]) -> Any:
    """See `StageFace.apply`."""
    return _applied((stage,), frame, Asked.of(type(stage).__name__, options))


@bordered
def fit(stage: Transformer, frame: Any, options: Mapping[str, Any]) -> LearntStage:
    """See `StageFace.fit`."""
    asked = Asked.of(type(stage).__name__, options)
    if "empty" in asked.values:
        raise UsageError("empty= is for `apply`: from a frame without records nothing is learnt")
    seed = _seed(asked)
    with StageOver((stage,), frame, asked, seed) as over:
        staged = over.staged()
        released = tuple(staged.table.schema.names)
        return LearntStage(own=stage, made=staged.plan, asked=asked, released=released, seed=seed)


@overload
def transform(
    data: str | PurePath,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: Literal[False] = False,
    **options: Unpack[StageOptions],
) -> pa.Table: ...


@overload
def transform(
    data: F,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: Literal[False] = False,
    **options: Unpack[StageOptions],
) -> F: ...


@overload
def transform(
    data: F,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: Literal[True],
    **options: Unpack[StageOptions],
) -> tuple[F, LossTable]: ...


@bordered
def transform(
    data: Any,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: bool = False,
    **options: Unpack[StageOptions],
) -> Any:
    """Apply a plan to a table, or stages that learn from it; what goes in comes out. The result is *not* judged.

    Parameters
    ----------
    data : path or frame
    plan : Plan, Transformer or sequence of Transformer
        A plan from `plan`, or read with `Plan.from_json`; else stages, which run one after the other.
    policy : Policy, optional
        Of a plan that was read from JSON without one.
    losses : bool
        Give back (frame, LossTable): the same frame, and what each column lost, as ``privpipe transform`` shows it.
        Whoever reads the frame does not get the table, whose figures are of the raw values.
    options : see `StageOptions`
        Beside stages all of them; beside a plan `engine` and `progress`.

    Returns
    -------
    frame
        Of the kind of `data`; a pyarrow Table for a path.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> stages = [pp.transforms.TopCode(columns=["age"], at=80), pp.transforms.BottomCode(columns=["age"], at=18)]
    >>> pp.transform(pd.DataFrame({"age": [3, 40, 95]}), stages)["age"].tolist()
    [18, 40, 80]
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(plan, Plan):
        for name in given:
            if name not in ("engine", "progress"):
                raise UsageError(f"{name}= is for stages that learn; the plan says it itself")
        return transform_by_plan(data, plan, policy=policy, losses=losses, **given)  # type: ignore[arg-type]
    stages = (plan,) if isinstance(plan, Transformer) else plan
    if not isinstance(stages, Sequence) or not stages or not all(isinstance(each, Transformer) for each in stages):
        raise UsageError("give a plan, a stage, or a list of stages, as in [RankSwap(columns=[...], p=0.05)]")
    if policy is not None:
        raise UsageError("policy= is for a plan; stages take roles=, hierarchies=, guarantees= and seed=")
    return _applied(stages, data, Asked.of("transform", given), losses=losses)


def _applied(stages: Sequence[Transformer], frame: Any, asked: Asked, *, losses: bool = False) -> Any:
    with StageOver(stages, frame, asked, _seed(asked), compared=losses) as over:
        staged = over.staged()
        lost = over.lost(staged) if losses else None
        out = over.returned(staged)
        return (out, lost) if losses else out


def _seed(asked: Asked) -> Seed:
    return asked.seed.resolve() if asked.seed is not None else Seed.from_os()

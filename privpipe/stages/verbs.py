"""Learn a stage from a frame, and run it over one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.draws import Seed
from privpipe.stages.asked import Asked
from privpipe.stages.learnt import LearntStage
from privpipe.stages.stage_over import StageOver
from privpipe.transforms.base import Transformer

__all__ = ["apply", "fit"]


def apply(stage: Transformer, frame: Any, options: Mapping[str, Any]) -> Any:
    """See `StageFace.apply`."""
    asked = Asked.of(stage, options)
    with StageOver(stage, frame, asked, _seed(asked)) as over:
        return over.returned(over.staged())


def fit(stage: Transformer, frame: Any, options: Mapping[str, Any]) -> LearntStage:
    """See `StageFace.fit`."""
    asked = Asked.of(stage, options)
    seed = _seed(asked)
    with StageOver(stage, frame, asked, seed) as over:
        return LearntStage(own=stage, made=over.staged().plan, asked=asked, seed=seed)


def _seed(asked: Asked) -> Seed:
    return asked.seed.resolve() if asked.seed is not None else Seed.from_os()

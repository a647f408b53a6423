"""The key of a stage's draws: its parameters, the figures it learnt, and the source or the masked value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from privpipe.draws import Draws, Seed
from privpipe.running.plan import canonical_json

if TYPE_CHECKING:
    from privpipe.transforms.base import StagePlan, Transformer

__all__ = ["stage_draws", "stages_digest"]


def stage_draws(seed: Seed, at: int, stage: Transformer, made: StagePlan | None, source: str) -> Draws:
    """The draws of a stage once its plan is known.

    Parameters
    ----------
    seed : Seed
    at : int
        Position of the stage.
    made : StagePlan or None
        None before the stage is planned: for `Transformer.entering`, whose stages say that nothing learnt shapes
        their draws.
    source : str
        The keyed fingerprint of the source. Draws that are bound to the values they mask leave it out, so that a
        value that did not change keeps its noise whatever else the source holds.
    """
    figures = {} if made is None else stage.shaping(made)
    bound = canonical_json([stage.parameters(), figures, None if stage.draws_by_value() else source])
    return Draws(seed, at, stage.name(), hashlib.sha256(bound.encode()).hexdigest())


def stages_digest(stages: Sequence[StagePlan]) -> str:
    """SHA-256 over the plans of all stages."""
    text = canonical_json([[stage.name, stage.parameters, stage.detail] for stage in stages])
    return hashlib.sha256(text.encode()).hexdigest()

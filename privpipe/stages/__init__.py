"""Transformers as stages over data frames: what `apply`, `fit` and a fitted stage do."""

from __future__ import annotations

from privpipe.stages.learnt import LearntStage, load
from privpipe.stages.verbs import apply, fit, transform

__all__ = ["LearntStage", "apply", "fit", "load", "transform"]

"""Transformers as stages over data frames: what `apply`, `fit` and a fitted stage do."""

from __future__ import annotations

from privpipe.stages.fitted_stage import LearntStage, apply, fit, load, transform
from privpipe.stages.table_frames import aggregate, table_frame

__all__ = ["LearntStage", "aggregate", "apply", "fit", "load", "table_frame", "transform"]

"""Transformers as stages over data frames: what `apply`, `fit` and a fitted stage do."""

from __future__ import annotations

from privpipe.stages.fitted_stage import LearntStage, apply, fit, load, transform

__all__ = ["LearntStage", "apply", "fit", "load", "transform"]

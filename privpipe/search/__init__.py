"""Choose a generalization under a policy; registers a planner for each stage that needs a search."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from privpipe.errors import UsageError

__all__ = ["PLANNERS", "planner_of"]

PLANNERS = {
    "generalize": "privpipe.transforms.recoding.planner",
    "local_recoding": "privpipe.transforms.local_recoding.planner",
    "mondrian": "privpipe.transforms.mondrian.planner",
    "suppress_cells": "privpipe.transforms.local_suppression.planner",
}
"""Module of the planner of each searching stage: its function `plan(engine, table, stage, context)`."""


def planner_of(stage: str) -> Callable[..., Any]:
    """The planner of a stage, by its catalogue name."""
    if stage not in PLANNERS:
        raise UsageError(f"no search is registered for the stage {stage!r}")
    planner: Callable[..., Any] = importlib.import_module(PLANNERS[stage]).plan
    return planner

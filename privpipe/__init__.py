"""privpipe: a disclosure-control gate for data pipelines.

>>> import privpipe as pp
>>> pp.KAnonymity(k=5)
KAnonymity(k=5)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

__version__ = "0.1.0"

WIRES = {
    "Assessment": "privpipe.judging",
    "Cost": "privpipe.running.release_cost",
    "FittedStage": "privpipe.transforms.face",
    "Hierarchy": "privpipe.hierarchies",
    "Plan": "privpipe.running.plan",
    "Policy": "privpipe.policy",
    "Roles": "privpipe.roles",
    "Seed": "privpipe.draws",
    "Verdict": "privpipe.blocks",
    "assess": "privpipe.checks",
    "average_risk": "privpipe.observe",
    "check": "privpipe.checks",
    "checked": "privpipe.checks",
    "compare": "privpipe.running.exploration",
    "explain": "privpipe.cli.explanation",
    "fetch": "privpipe.running.published_release",
    "init": "privpipe.drafting.initial_policy",
    "k_anonymity": "privpipe.observe",
    "l_diversity": "privpipe.observe",
    "plan": "privpipe.running.verbs",
    "plan_cost": "privpipe.running.release_cost",
    "read_release": "privpipe.running.published_release",
    "release": "privpipe.running.verbs",
    "report": "privpipe.reporting.report",
    "t_closeness": "privpipe.observe",
    "transform": "privpipe.stages",
    "uniqueness": "privpipe.observe",
    "validate": "privpipe.running.verbs",
}
ROOMS = ("errors", "measures", "models", "observe", "relations", "tables", "transforms")
CATALOGUES = ("models", "transforms", "measures")
"""Rooms whose entries are names of the package too, as in `pp.KAnonymity`; loaded when one is asked for."""

__all__ = sorted((*WIRES, *ROOMS, "__version__"))


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return importlib.import_module(f"privpipe.{name}")
    if name in WIRES:
        return getattr(importlib.import_module(WIRES[name]), name)
    if not name[:1].isupper():  # a submodule too is asked for here first
        raise AttributeError(f"module 'privpipe' has no attribute {name!r}")
    for catalogue in _catalogues():
        if name in catalogue.class_names:
            return catalogue.of_class(name)
    from privpipe.errors import did_you_mean

    raise AttributeError(f"module 'privpipe' has no attribute {name!r}{did_you_mean(name, __dir__())}")


def _catalogues() -> Iterator[Any]:
    return (importlib.import_module(f"privpipe.{room}").CATALOGUE for room in CATALOGUES)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for catalogue in _catalogues() for name in catalogue.class_names)})

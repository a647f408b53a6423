"""Figures of a frame: for every entry that has a form without a threshold, a function that gives what it observes.

>>> import pandas as pd
>>> import privpipe as pp
>>> frame = pd.DataFrame({"zip": ["081", "081", "082", "082"], "illness": ["flu", "flu", "flu", "cold"]})
>>> pp.observe.k_anonymity(frame, ["zip"]), pp.observe.distinct_l_diversity(frame, ["zip"], "illness")
(2, 1)
"""

from __future__ import annotations

import importlib
from typing import Any

from privpipe.observe.figures import average_risk, figures, k_anonymity, l_diversity, t_closeness, uniqueness

__all__ = ["average_risk", "figures", "k_anonymity", "l_diversity", "t_closeness", "uniqueness"]


RELEASED_MODELS = ("ModelGenerators", "linear_model", "model_generators", "tree_rules")
"""Names of a module that figures of frames do not need."""


def __getattr__(name: str) -> Any:
    if name in RELEASED_MODELS:
        return getattr(importlib.import_module("privpipe.observe.released_models"), name)
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return figures.attribute(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *RELEASED_MODELS, *figures.names()})

"""Transformers as scikit-learn estimators: a class for every transformer of the catalogue, also of plug-ins.

>>> import numpy as np
>>> from privpipe.sklearn import TopCode
>>> TopCode(at=80).fit_transform(np.array([[30.0], [95.0]])).tolist()
[[30.0], [80.0]]
"""

from __future__ import annotations

from typing import Any

from privpipe.sklearn.estimator import StageEstimator, estimator_of, names

__all__ = ["StageEstimator"]


def __getattr__(name: str) -> type[StageEstimator]:
    found: type[StageEstimator] | None = None if name.startswith("_") else estimator_of(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__() -> list[Any]:
    return sorted({*__all__, *names()})

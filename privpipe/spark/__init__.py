"""Spark ML: an estimator and a model for every transformer, and gates, as stages of Spark's own pipelines.

The classes are made from the catalogue when they are first asked for, those of plug-ins too::

    from pyspark.ml import Pipeline
    from privpipe.models import KAnonymity
    from privpipe.spark import Generalize, RankSwap, ReleaseGate

    seed = {"from_env": "PRIVPIPE_SEED"}
    roles = {"quasi_identifiers": ["age", "zip"], "sensitive": ["illness"]}
    ages = {"age": {"intervals": {"widths": [10, 50]}}}
    stages = [
        RankSwap(inputCols=["income"], p=0.05, seed=seed),
        Generalize(levels={"age": 1}, roles=roles, hierarchies=ages, seed=seed),
        ReleaseGate(guarantees=[KAnonymity(k=5)], roles=roles),
    ]
    model = Pipeline(stages=stages).fit(df)
    model.write().overwrite().save("models/visits")
    released = model.transform(df)

A stage by itself judges nothing; `ReleaseGate` does, and `Release` runs a whole policy. `release_batches` releases the
batches of a stream.

Examples
--------
>>> from privpipe.spark import RankSwap
>>> swap = RankSwap(inputCols=["income"], p=0.05)
>>> swap.getP(), swap.getInputCols(), swap.getPartner()
(0.05, ['income'], 'unswapped')
"""

from __future__ import annotations

from typing import Any

from privpipe.spark.batches import BatchReleases, release_batches
from privpipe.spark.gate import ReleaseGate, ReleaseGateModel
from privpipe.spark.release import Release, ReleaseModel
from privpipe.spark.stage_classes import made, made_names
from privpipe.spark.stages import StageEstimator, StageModel
from privpipe.transforms import CATALOGUE

_OWN = [
    each.__name__
    for each in (
        *(BatchReleases, Release, ReleaseGate, ReleaseGateModel, ReleaseModel, StageEstimator, StageModel),
        release_batches,
    )
]

__all__ = sorted((*_OWN, *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    return made(name)


def __dir__() -> list[str]:
    return sorted({*_OWN, *made_names()})

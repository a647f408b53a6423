"""The quality model of a stage, with what its guarantees and its budget allow it to assume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.errors import PrivpipeError
from privpipe.kernels.quality import QualityModel, quality_model
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.budget import budget_of
from privpipe.transforms.suppression.class_failures import judged_sets

if TYPE_CHECKING:
    from privpipe.transforms.recoding.encoded import EncodedTable
    from privpipe.transforms.recoding.stage import GeneralizeStage

__all__ = ["searched_quality"]


def searched_quality(table: EncodedTable, stage: GeneralizeStage, context: StageContext) -> QualityModel:
    """The model that a stage names, over its encoded table.

    Bounds may count on what a node must meet: suppression within the limit, and the least size of a class that any
    guarantee over all columns sets.

    Raises
    ------
    UsageError, UnsupportedError
        Parameters that do not fit the table; the message begins with the stage's place in the policy.
    """
    budget = None if stage.limit is None else budget_of(stage.limit, table.records, context)
    everything = {*table.columns, *table.fixed}
    sizes = [
        model.least_size()
        for keys, models in judged_sets(context, serves=stage.serves).class_models.items()
        for model in models
        if everything <= set(keys) and not model.needs_population
    ]
    try:
        return quality_model(
            table, stage.loss, budget=budget if stage.is_search else None, least_class=max(sizes, default=1)
        )
    except PrivpipeError as error:
        raise type(error)(f"{context.place}: {error}") from None

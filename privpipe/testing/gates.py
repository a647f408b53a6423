"""Gates to try a model with: thresholds that it draws, thresholds on its own figures, and cases at a threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from privpipe.blocks import Facts, Guarantee
from privpipe.blocks.oracle_classes import Case, around_figure
from privpipe.errors import UsageError
from privpipe.testing.oracle import beside
from privpipe.testing.random_classes import ClassTable, with_parameters

__all__ = ["at_threshold", "random_gate"]


def at_threshold(model: Guarantee, observed: Any, facts: Facts) -> Iterator[tuple[str, Guarantee, bool]]:
    """Gates around the model's own figure of a table, and whether each must pass over it.

    Examples
    --------
    >>> from privpipe.models import AverageRisk
    >>> [(what, passes) for what, _, passes in at_threshold(AverageRisk(at_most=1.0), 0.25, Facts())][-2:]
    [('clearly beyond', False), ('clearly within', True)]
    """
    own = beside(type(model), "around")
    for what, parameters, passes in (_around if own is None else own)(model, observed, facts):
        try:
            yield what, with_parameters(model, parameters), passes
        except UsageError:
            continue  # no threshold of this model: a share above 1, an l below 1


def _around(model: Guarantee, observed: Any, facts: Facts) -> Iterable[Case]:
    demanded = model.demanded()
    if isinstance(observed, Mapping) and isinstance(demanded, Mapping):
        rules = model.rules()  # type: ignore[attr-defined]
        for name, (direction, _) in rules.items():
            for what, value, passes in around_figure(observed[name], direction):
                yield f"{name} {what}", {**observed, name: value}, passes
        return
    if isinstance(observed, Mapping):
        observed = observed[model.figure]  # type: ignore[attr-defined]
    if model.threshold_field is not None:
        for what, value, passes in around_figure(observed, model.direction):
            yield what, {model.threshold_field: value}, passes


def random_gate(rng: np.random.Generator, model: Guarantee, table: ClassTable, facts: Facts) -> Guarantee:
    """A gate of the model: as it stands, by a threshold of its own, or on the figure of one of these classes.

    A threshold of its own is what ``thresholds(rng)`` beside the model gives.
    """
    own = beside(type(model), "thresholds")
    kind = rng.random()
    if own is not None and kind < 0.45:
        return with_parameters(model, own(rng))
    if kind < 0.8:
        one = table.take([int(rng.integers(len(table)))])
        observed = model.judge(model.measure(one.block(), facts), facts).observed
        for _, gate, passes in at_threshold(model, observed, facts) if observed is not None else ():
            if passes:
                return gate
    return model

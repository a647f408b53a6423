"""The quality model of a search or a report, with its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le

from privpipe.blocks.arrays import Floats
from privpipe.blocks.parameters import check_parameters, require_number
from privpipe.errors import UsageError, did_you_mean

__all__ = [
    "DEFAULT_AGGREGATES",
    "PARAMETERS",
    "Aggregate",
    "Attacker",
    "LossSpec",
    "QualityName",
    "checked_quality",
    "penalties_of",
    "quality_parameters",
    "require_columns_of",
]

Aggregate = Literal["geometric_mean", "arithmetic_mean", "sum", "max", "rank"]
Attacker = Literal["prosecutor", "journalist"]
QualityName = Literal[
    "loss",
    "precision",
    "precision_monotonic",
    "entropy",
    "entropy_monotonic",
    "normalized_entropy",
    "discernibility",
    "discernibility_monotonic",
    "aecs",
    "height",
    "ambiguity",
    "kl_divergence",
    "entropy_based",
    "publisher_payout",
    "static",
    "classification",
]
DEFAULT_AGGREGATES: Mapping[str, Aggregate] = {
    "loss": "geometric_mean",
    "precision": "arithmetic_mean",
    "precision_monotonic": "arithmetic_mean",
    "entropy": "sum",
    "entropy_monotonic": "sum",
    "normalized_entropy": "sum",
    "height": "sum",
    "static": "arithmetic_mean",
}
"""Models with one figure per column, and how these become one unless the policy says otherwise."""

BY_FACTOR = [
    "loss",
    "precision",
    "entropy",
    "entropy_monotonic",
    "normalized_entropy",
    "aecs",
    "entropy_based",
    "publisher_payout",
]
AMOUNTS = {"publisher_benefit": 1200.0, "publisher_loss": 300.0, "adversary_gain": 300.0, "adversary_cost": 4.0}
PARAMETERS: Mapping[str, str] = {
    "compat": "kl_divergence",
    **dict.fromkeys(("attacker", *AMOUNTS), "publisher_payout"),
    "penalties": "static",
    "response": "classification",
}
"""Parameters that one model alone has."""


@dataclass(frozen=True, kw_only=True)
class LossSpec:
    """A quality model with its parameters; small figures are good.

    Parameters
    ----------
    name : str
        The model, Iyengar's `loss` unless given otherwise.
    aggregate : {"geometric_mean", "arithmetic_mean", "sum", "max", "rank"}, optional
        How the columns' figures become one; the default is the model's. None for models without one figure per column.
    gs_factor : float
        In [0, 1]; below 0.5 suppression is cheap, above it generalization is.
    weights : mapping of column to float
        At least 0; columns left out have weight 1.
    compat : {"arx"}, optional
        Of `kl_divergence`: one term per record, as ARX sums, instead of one per distinct combination.
    attacker : {"prosecutor", "journalist"}, optional
        Of `publisher_payout`: who attacks; the default is the prosecutor.
    publisher_benefit, publisher_loss, adversary_gain, adversary_cost : float, optional
        Of `publisher_payout`: what an unchanged record is worth and what a successful attack costs the publisher
        (1200, 300), what it brings the attacker and what an attempt costs (300, 4).
    penalties : mapping of column to list of float, optional
        Of `static`: the figure of each level of each column.
    response : str, optional
        Of `classification`: the column that is predicted.

    Examples
    --------
    >>> LossSpec(name="precision").aggregate, LossSpec(name="aecs", gs_factor=0.75).g
    ('arithmetic_mean', 0.5)
    >>> LossSpec(name="publisher_payout").publisher_benefit
    1200.0
    """

    name: QualityName = "loss"
    aggregate: Aggregate | None = None
    gs_factor: Annotated[float, Ge(0), Le(1)] = 0.5
    weights: dict[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    compat: Literal["arx"] | None = None
    attacker: Attacker | None = None
    publisher_benefit: Annotated[float | None, Ge(0)] = None
    publisher_loss: Annotated[float | None, Ge(0)] = None
    adversary_gain: Annotated[float | None, Ge(0)] = None
    adversary_cost: Annotated[float | None, Ge(0)] = None
    penalties: dict[str, list[float]] | None = None
    response: str | None = None

    def __post_init__(self) -> None:
        check_parameters(self, "Generalize", "loss.")
        checked_quality("Generalize", "loss.", self)
        object.__setattr__(self, "aggregate", self.aggregate or DEFAULT_AGGREGATES.get(self.name))
        if self.name == "publisher_payout":
            object.__setattr__(self, "attacker", self.attacker or "prosecutor")
            for amount, default in AMOUNTS.items():
                given = getattr(self, amount)
                object.__setattr__(self, amount, default if given is None else float(given))

    @property
    def g(self) -> float:
        """Factor of generalization, min(1, 2 - 2 gs_factor)."""
        return min(1.0, 2.0 - 2.0 * self.gs_factor)

    @property
    def s(self) -> float:
        """Factor of suppression, min(1, 2 gs_factor)."""
        return min(1.0, 2.0 * self.gs_factor)

    def weights_of(self, columns: Sequence[str]) -> Floats:
        """Weights of these columns, divided by the largest; all 1 where all are 0."""
        weights = np.array([self.weights.get(column, 1.0) for column in columns], dtype=np.float64)
        top = weights.max(initial=0.0)
        return np.ones(len(weights)) if top == 0 else weights / top


def require_columns_of(spec: LossSpec, columns: Sequence[str]) -> None:
    """Refuse weights of columns that are not generalized: a slip of the pen would pass unseen.

    Raises
    ------
    UsageError
    """
    for name in spec.weights:
        if name not in columns:
            raise UsageError(f"loss.weights: {name!r} is not a generalized column{did_you_mean(name, list(columns))}")


def quality_parameters(spec: Any) -> dict[str, Any]:
    """The parameters that a model has and that are set, by name: what a plan or a report shows of it.

    Examples
    --------
    >>> quality_parameters(LossSpec(name="height"))
    {'name': 'height', 'aggregate': 'sum', 'weights': {}}
    """
    found: dict[str, Any] = {"name": spec.name}
    if spec.name in DEFAULT_AGGREGATES:
        found["aggregate"] = spec.aggregate
    if spec.name in BY_FACTOR:
        found["gs_factor"] = spec.gs_factor
    if spec.name in DEFAULT_AGGREGATES:
        found["weights"] = dict(spec.weights)
    own = (parameter for parameter, model in PARAMETERS.items() if model == spec.name)
    return found | {parameter: value for parameter in own if (value := getattr(spec, parameter)) is not None}


def checked_quality(owner: str, place: str, spec: Any) -> None:
    """Check what names a quality model, by whatever entry has its parameters.

    Parameters
    ----------
    owner, place : str
        Class of the entry, and what stands before the parameters' names in it.

    Raises
    ------
    UsageError
        A parameter that the model does not have, or one that it needs and is not there.
    """
    if spec.aggregate is not None:
        _belongs(owner, f"{place}aggregate", spec.name in DEFAULT_AGGREGATES, spec.name)
    _belongs(owner, f"{place}gs_factor", spec.gs_factor == 0.5 or spec.name in BY_FACTOR, spec.name)
    _belongs(owner, f"{place}weights", not spec.weights or spec.name in DEFAULT_AGGREGATES, spec.name)
    for parameter, model in PARAMETERS.items():
        _belongs(owner, f"{place}{parameter}", getattr(spec, parameter) is None or spec.name == model, spec.name)
    _check_own(owner, place, spec)


def _belongs(owner: str, parameter: str, has: bool, name: str) -> None:
    if not has:
        raise UsageError(f"{owner}: {parameter} is not a parameter of the quality model {name}")


def _check_own(owner: str, place: str, spec: Any) -> None:
    """Check the parameters that one model alone has."""
    if spec.name == "static" and not spec.penalties:
        raise UsageError(f"{owner}: {place}penalties is required: a mapping of each column to a figure a level")
    for column, figures in (spec.penalties or {}).items():
        if not isinstance(figures, list | tuple) or not figures:
            raise UsageError(f"{owner}: {place}penalties.{column} must be a list with a figure for each level")
        for level, figure in enumerate(figures):
            require_number(owner, f"{place}penalties.{column}[{level}]", figure, least=0)
    if spec.name == "classification" and (not isinstance(spec.response, str) or not spec.response):
        raise UsageError(f"{owner}: {place}response is required: the column that is predicted")


def penalties_of(spec: LossSpec, column: str, height: int, columns: Sequence[str]) -> Floats:
    """The figures of a column's levels under the model `static`.

    Raises
    ------
    UsageError
        Penalties of a column that is not generalized, none for one that is, or too few or too many levels.
    """
    given = spec.penalties or {}
    for name in given:
        if name not in columns:
            raise UsageError(f"loss.penalties: {name!r} is not a generalized column{did_you_mean(name, columns)}")
    if column not in given:
        raise UsageError(f"loss.penalties: {column!r} has none; give a figure for each of its {height + 1} levels")
    if len(given[column]) != height + 1:
        raise UsageError(
            f"loss.penalties.{column}: {len(given[column])} figures for {height + 1} levels (0 is the raw value)"
        )
    return np.array(given[column], dtype=np.float64)

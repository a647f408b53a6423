"""Iyengar's loss as a stage's quality model, and the loss of a class by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.entry import require_choice, require_number

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy

__all__ = ["Aggregate", "LossSpec", "OwnUnitLoss", "aggregated", "normalised", "own_loss", "unit_losses"]

Aggregate = Literal["geometric_mean", "arithmetic_mean", "sum", "max", "rank"]
SAME_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class LossSpec:
    """The quality model of a search.

    Parameters
    ----------
    name : {"loss"}
        Iyengar's loss.
    aggregate : {"geometric_mean", "arithmetic_mean", "sum", "max", "rank"}
        How the columns' losses become one.
    gs_factor : float
        In [0, 1]; below 0.5 suppression is cheap, above it generalization is.
    weights : mapping of column to float
        At least 0; columns left out weigh 1.
    """

    name: Literal["loss"] = "loss"
    aggregate: Aggregate = "geometric_mean"
    gs_factor: float = 0.5
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_choice("Generalize", "loss.name", self.name, ("loss",))
        require_choice("Generalize", "loss.aggregate", self.aggregate, get_args(Aggregate))
        require_number("Generalize", "loss.gs_factor", self.gs_factor, least=0, most=1)
        for column, weight in self.weights.items():
            require_number("Generalize", f"loss.weights.{column}", weight, least=0)

    @property
    def g(self) -> float:
        """Factor of generalization, min(1, 2 - 2 gs_factor)."""
        return min(1.0, 2.0 - 2.0 * self.gs_factor)

    @property
    def s(self) -> float:
        """Factor of suppression, min(1, 2 gs_factor)."""
        return min(1.0, 2.0 * self.gs_factor)

    def weights_of(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Weights of these columns, divided by the largest; all 1 where all are 0."""
        weights = np.array([self.weights.get(column, 1.0) for column in columns], dtype=np.float64)
        top = weights.max(initial=0.0)
        return np.ones(len(weights)) if top == 0 else weights / top


def unit_losses(hierarchy: Hierarchy, level: int, loss: LossSpec) -> dict[str | None, float]:
    """u of a record that is kept, by its released text at a level; None stands for a missing value.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"]])
    >>> {label: round(u, 3) for label, u in unit_losses(ages, 1, LossSpec()).items()}
    {'child': 0.5, 'adult': 0.0}
    """
    texts: list[str | None] = list(hierarchy.texts(level))
    if hierarchy.null_code is not None and level == 0:
        texts[hierarchy.null_code] = None
    return dict(zip(texts, normalised(hierarchy.shares(level), hierarchy.domain_size, loss).tolist(), strict=True))


def normalised(share: NDArray[np.float64], domain_size: float, loss: LossSpec) -> NDArray[np.float64]:
    """u of a kept record that carries a label of this share: 0 at a single value of the domain, 1 at all of it."""
    least = loss.g / domain_size
    if least == 1:
        return np.zeros(len(share))
    return np.maximum(0.0, (loss.g * share - least) / (1.0 - least))


@dataclass(frozen=True)
class OwnUnitLoss:
    """Own loss of classes: the quality model over the records of one class alone.

    `units` maps each generalized column, in policy order, to the losses of its released texts.
    """

    units: Mapping[str, Mapping[str | None, float]] = field(repr=False)
    loss: LossSpec

    def __call__(self, classes: Any) -> NDArray[np.float64]:
        from privpipe.hierarchies import canonical_text

        columns = [name for name in self.units if name in classes.schema.names]
        each = np.zeros((classes.num_rows, len(columns)))
        for at, name in enumerate(columns):
            each[:, at] = [self.units[name][text] for text in canonical_text(classes[name], None).to_pylist()]
        return own_loss(each, columns, self.loss)


def own_loss(each: NDArray[np.float64], columns: Sequence[str], loss: LossSpec) -> NDArray[np.float64]:
    """Aggregate of per-column losses, shape (n, m) to (n, 1); under `rank` to (n, m), the largest first.

    To twelve digits: what orders classes must not be the rounding of a sum.

    Parameters
    ----------
    columns : sequence of str
        Their names, for the weights, which are brought to a largest of 1 among them.

    Examples
    --------
    >>> own_loss(np.array([[0.0, 1.0]]), ["age", "zip"], LossSpec()).round(4).tolist()
    [[0.4142]]
    >>> own_loss(np.array([[0.5, 1.0]]), ["age", "zip"], LossSpec(aggregate="rank", weights={"age": 4})).tolist()
    [[0.5, 0.25]]
    """
    return np.round(aggregated(each * loss.weights_of(columns), loss.aggregate), SAME_DIGITS)


def aggregated(scaled: NDArray[np.float64], aggregate: Aggregate) -> NDArray[np.float64]:
    """Aggregate of weighted per-column losses, shape (n, m) to (n, 1), under `rank` to (n, m).

    Added and multiplied column by column, so that a row's figure does not depend on its neighbours.
    """
    if aggregate == "rank":
        return -np.sort(-scaled, axis=1)
    n, m = scaled.shape
    total = np.ones(n) if aggregate == "geometric_mean" else np.zeros(n)
    for column in scaled.T:
        if aggregate == "geometric_mean":
            total *= 1.0 + column
        else:
            total = np.maximum(total, column) if aggregate == "max" else total + column
    if aggregate == "geometric_mean":
        total = total ** (1.0 / max(m, 1)) - 1.0
    elif aggregate == "arithmetic_mean":
        total /= max(m, 1)
    return total[:, None]

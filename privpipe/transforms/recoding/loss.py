"""Losses of recoding: the quality model of a stage, the loss of a class, and the loss of cells with separate
levels (Iyengar's loss and NCP).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.quality_spec import Aggregate, LossSpec, quality_parameters
from privpipe.kernels.cluster_labels import UNIT
from privpipe.kernels.quality.model import aggregated, normalised, own_loss

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy

__all__ = [
    "Aggregate",
    "LossSpec",
    "OwnUnitLoss",
    "aggregated",
    "cell_loss",
    "column_loss",
    "loss_units",
    "mean_penalty",
    "normalised",
    "own_loss",
    "quality_parameters",
    "unit_losses",
    "weight_units",
]


def unit_losses(hierarchy: Hierarchy, level: int, loss: LossSpec) -> dict[str | None, float]:
    """u of a record that is kept, by its released text at a level; None stands for a missing value.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"]])
    >>> {label: round(u, 3) for label, u in unit_losses(ages, 1, LossSpec()).items()}
    {'child': 0.5, 'adult': 0.0}
    """
    losses = normalised(hierarchy.shares(level), hierarchy.domain_size, loss)
    return dict(zip(hierarchy.released(level), losses.tolist(), strict=True))


@dataclass(frozen=True)
class OwnUnitLoss:
    """Own loss of classes: Iyengar's loss over the records of one class alone, whatever the quality model.

    `units` maps each generalized column, in policy order, to the losses of its released texts.
    """

    units: Mapping[str, Mapping[str | None, float]] = field(repr=False)
    loss: LossSpec

    def __call__(self, classes: Any) -> Floats:
        from privpipe.hierarchies import canonical_text

        columns = [name for name in self.units if name in classes.schema.names]
        each = np.zeros((classes.num_rows, len(columns)))
        for at, name in enumerate(columns):
            each[:, at] = [self.units[name][text] for text in canonical_text(classes[name], None).to_pylist()]
        return own_loss(each, columns, self.loss)


def column_loss(counts: Ints, shares: Floats, domain: float, gone: int = 0) -> float:
    """u of one column, in [0, 1]: 0 where each cell is a single value, 1 where each stands for the whole domain.

    Parameters
    ----------
    counts, shares : ndarray, shape (n,)
        Records, and the share of the domain that their label stands for.
    domain : float
        D, the size of the domain.
    gone : int
        Suppressed records, whose share is 1.

    Examples
    --------
    >>> column_loss(np.array([2, 2]), np.array([0.25, 1.0]), 4.0)
    0.5
    """
    records = int(counts.sum()) + gone
    least = records / domain
    if records == least:
        return 0.0
    # Added one by one, in one order: a library's dot product may add otherwise elsewhere.
    total = float(np.cumsum(counts * shares)[-1]) if len(counts) else 0.0
    return max(0.0, (total + gone - least) / (records - least))


def cell_loss(columns: Sequence[float]) -> float:
    """The columns' losses as one, by the geometric mean.

    Examples
    --------
    >>> cell_loss([0.0, 1.0]).__round__(4)
    0.4142
    """
    return float(aggregated(np.array([columns], dtype=np.float64), "geometric_mean")[0, 0])


def mean_penalty(counts: Ints, penalties: Sequence[Floats], gone: int = 0) -> float:
    """GCP: the mean NCP of all cells, those of suppressed records being 1.

    Source: Ghinita et al., VLDB 2007.

    Examples
    --------
    >>> mean_penalty(np.array([3, 1]), [np.array([0.0, 1.0]), np.array([0.5, 0.5])])
    0.375
    """
    records = int(counts.sum()) + gone
    total = sum(float(np.cumsum(counts * column)[-1]) + gone for column in penalties)
    return total / (records * len(penalties))


def loss_units(hierarchy: Hierarchy, level: int) -> Ints:
    """What a record with each leaf loses at a level, in units: no rounding of a processor decides.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> towns = Hierarchy.from_rows([["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]])
    >>> (loss_units(towns, 1) / UNIT).tolist()
    [0.5, 0.5, 0.0]
    """
    domain = hierarchy.domain_size
    lost = (hierarchy.shares(level) * domain - 1.0) / max(domain - 1.0, 1.0) * (domain > 1)
    return np.rint(lost * UNIT).astype(np.int64)


def weight_units(lost: int, records: int) -> int:
    """What a column's loss counts in that of the geometric mean, 1 / (1 + u), in units.

    Parameters
    ----------
    lost : int
        What all its records lose together, in units.

    Examples
    --------
    >>> weight_units(0, 5) == UNIT, weight_units(5 * UNIT, 5) == UNIT // 2
    (True, True)
    """
    return UNIT * UNIT * records // (UNIT * records + lost)

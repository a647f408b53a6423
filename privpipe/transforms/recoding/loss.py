"""The quality model of a stage, and the loss of a class by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.quality_spec import Aggregate, LossSpec, quality_parameters
from privpipe.kernels.quality.aggregate import aggregated, normalised, own_loss

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy

__all__ = [
    "Aggregate",
    "LossSpec",
    "OwnUnitLoss",
    "aggregated",
    "normalised",
    "own_loss",
    "quality_parameters",
    "unit_losses",
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

    def __call__(self, classes: Any) -> NDArray[np.float64]:
        from privpipe.hierarchies import canonical_text

        columns = [name for name in self.units if name in classes.schema.names]
        each = np.zeros((classes.num_rows, len(columns)))
        for at, name in enumerate(columns):
            each[:, at] = [self.units[name][text] for text in canonical_text(classes[name], None).to_pylist()]
        return own_loss(each, columns, self.loss)

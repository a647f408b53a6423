"""How much of a class's information its labels have lost, from the hierarchies and the labels alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Histogram, RowBlock
from privpipe.blocks.label_information import INFORMATION, information_lost
from privpipe.errors import DataError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.hierarchies.canonical import canonical_text
from privpipe.roles import column_type_of

__all__ = ["INFORMATION", "LabelShares"]

MASK = "*"
NULL = "null"


@dataclass(frozen=True)
class LabelShares:
    """ln share of every released label, by column.

    Parameters
    ----------
    logs : mapping of column to mapping of label to float
        ln share_j(v), at most 0; a missing value is under None.
    domain : float
        sum_j ln D_j.
    """

    column: ClassVar[str] = INFORMATION
    logs: Mapping[str, Mapping[str | None, float]] = field(repr=False)
    domain: float

    @classmethod
    def of(cls, columns: Sequence[str], facts: Facts) -> LabelShares:
        """The shares of the labels that the facts' histograms hold, by the declared hierarchies.

        A column without a hierarchy, and one that is not text, is raw: each of its values has the same share.

        Raises
        ------
        DataError
            Labels that the hierarchy does not have.
        """
        logs: dict[str, Mapping[str | None, float]] = {}
        domain = 0.0
        for column in columns:
            histogram, spec = facts.histograms[column], facts.hierarchies.get(column)
            kind, labels = column_type_of(histogram.values.type), _texts(column, histogram)
            found = None if spec is None else _along(spec, labels, kind)
            if found is None and spec is not None and kind == "text":
                raise DataError(
                    f"column {column!r} has labels that its hierarchy does not have without the original values: the "
                    "share of the domain behind them is not known"
                )
            size, logs[column] = found or _raw(labels)  # numbers and dates are no labels: such a column is raw
            domain += math.log(size)
        return cls(logs, domain)

    def __call__(self, rows: RowBlock) -> RowBlock:
        """The rows with the loss of their labels, in [0, 1], as one more column."""
        import pyarrow as pa

        total = np.zeros(len(rows), dtype=np.float64)
        for column, logs in self.logs.items():
            values = rows.column(column)
            coded = values.dictionary_encode() if not pa.types.is_dictionary(values.type) else values
            known = canonical_text(coded.dictionary, column_type_of(coded.dictionary.type), column=column)
            # A label that only a population has is in no class that is judged.
            table = np.array([logs.get(text, 0.0) for text in known.to_pylist()] + [logs.get(None, 0.0)])
            codes = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
            total += table[codes]
        loss = pa.array(information_lost(total, self.domain))
        batch = rows.batch.append_column(pa.field(INFORMATION, pa.float64()), loss)
        return RowBlock(batch, rows.record_ids if rows._ids is not None else None)


def _texts(column: str, histogram: Histogram) -> list[str | None]:
    texts: list[str | None] = canonical_text(
        histogram.values, column_type_of(histogram.values.type), column=column
    ).to_pylist()
    return texts


def _raw(labels: Sequence[str | None]) -> tuple[float, dict[str | None, float]]:
    return float(len(labels)), dict.fromkeys(labels, -math.log(len(labels)))


def _along(
    spec: HierarchySpec, labels: Sequence[str | None], kind: str
) -> tuple[float, dict[str | None, float]] | None:
    """D and ln share of each label; None where the hierarchy does not have them all."""
    hierarchy = spec.build([], [], kind)
    if None in labels or (NULL in labels and all(NULL not in level for level in hierarchy.levels.labels)):
        hierarchy = spec.build([None], [1], kind)  # missing values are a leaf of their own
    shares = _shares_by_level(hierarchy)
    named = [label for label in labels if label is not None]
    # A masked cell of suppressed records stands for any value.
    found: dict[str | None, float] = {MASK: 0.0}
    named = [label for label in named if label != MASK or any(MASK in level for level in shares)]
    if any(all(label not in level for level in shares) for label in named):
        return None
    size = max(hierarchy.domain_size, 1.0)
    found[None] = -math.log(size)
    found.update({label: math.log(share) for label, share in _share_of_each(named, shares).items()})
    return size, found


def _shares_by_level(hierarchy: Hierarchy) -> list[dict[str, float]]:
    """The share of the domain behind each label, level by level."""
    shares: list[dict[str, float]] = []
    for level in range(hierarchy.height + 1):
        each: NDArray[np.float64] = hierarchy.shares(level)
        # Releases of before wrote a label for missing values; where it is a value's too, the value counts.
        found = dict(zip(hierarchy.texts(level), each.tolist(), strict=True))
        shown = zip(hierarchy.released(level), each.tolist(), strict=True)
        shares.append(found | {text: share for text, share in shown if text is not None})
    return shares


def _share_of_each(labels: Sequence[str], shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By one level for the whole column where one fits; else a label counts as the coarsest node of its name."""
    fitting = next((level for level in shares if all(label in level for label in labels)), None)
    if fitting is not None:
        return {label: fitting[label] for label in labels}
    return {label: max(level[label] for level in shares if label in level) for label in labels}

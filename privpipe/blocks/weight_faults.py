"""Sampling weights that are none: missing, infinite, or below the one person that every record stands for."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np

from privpipe.blocks.facts import Facts
from privpipe.blocks.primitives import Primitives
from privpipe.blocks.row_block import RowBlock
from privpipe.tolerance import at_least

__all__ = ["WeightFaults", "weight_faults"]


MOST = 2.0**53
"""Above it whole numbers of people have gaps, and no sum of fewer weights overflows."""
IN_WORDS = {"below_one": "below 1", "too_large": "above 2^53"}


@dataclass(frozen=True, kw_only=True)
class WeightFaults:
    """How many records have which fault; each record counts once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"w": [None, float("inf"), -9.0, 0.0, 0.5, 1.0]}))
    >>> CountedFaults("w").measure(rows, Facts()).sentence("w")[:72]
    "5 of 6 records have no usable weight in 'w' (1 missing, 1 infinite, 1 ne"
    """

    records: int = 0
    missing: int = 0
    infinite: int = 0
    negative: int = 0
    zero: int = 0
    below_one: int = 0
    too_large: int = 0

    @property
    def faulty(self) -> int:
        """Records with a fault."""
        return int(sum(astuple(self))) - self.records

    def merge(self, other: WeightFaults) -> WeightFaults:
        """Of both sets of records."""
        names = [each.name for each in fields(self)]
        return WeightFaults(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def sentence(self, column: str) -> str:
        """What is wrong with how many of them, and what to do; or nothing."""
        if not self.faulty:
            return ""
        faults = [each.name for each in fields(self) if each.name != "records" and getattr(self, each.name)]
        counted = ", ".join(f"{getattr(self, name):,} {IN_WORDS.get(name, name)}" for name in faults)
        return (
            f"{self.faulty:,} of {self.records:,} records have no usable weight in {column!r} ({counted}); a weight is "
            "the number of people of the population that a record stands for, itself among them: a finite number of "
            "at least 1."
        )


@dataclass(frozen=True)
class CountedFaults:
    """Counts the faults of a weight column, block by block."""

    column: str

    def measure(self, rows: RowBlock, facts: Facts) -> WeightFaults:
        """Of the records of one block."""
        weights = rows[self.column]
        infinite = np.isinf(weights)
        below = ~np.asarray(at_least(weights, 1.0)) & ~np.isnan(weights) & ~infinite
        return WeightFaults(
            records=len(rows),
            missing=int(np.isnan(weights).sum()),
            infinite=int(infinite.sum()),
            negative=int((below & (weights < 0)).sum()),
            zero=int((below & (weights == 0)).sum()),
            below_one=int((below & (weights > 0)).sum()),
            too_large=int((~infinite & (weights > MOST)).sum()),
        )

    def merge(self, left: WeightFaults, right: WeightFaults) -> WeightFaults:
        """Of both sets of blocks."""
        return left.merge(right)


def weight_faults(engine: Primitives, table: Any, column: str) -> str:
    """What is wrong with the sampling weights of a table's records, or nothing.

    A column that holds no numbers is left to whatever sums it, which refuses it by its type.
    """
    import pyarrow.types as pt

    kind = table.schema.field(column).type
    if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        return ""
    found = engine.reduce_rows(table, [column], CountedFaults(column), Facts())
    return "" if found is None else found.sentence(column)

"""What every engine's `aggregate` returns: cells with their figures in one Arrow table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks.aggregate_query import AggregateQuery

__all__ = ["Cells"]

Ints = NDArray[np.int64]


class Cells:
    """Gathers figures of cells; those that an engine left out follow from others.

    Parameters
    ----------
    query : AggregateQuery
    number : int
        Cells.
    """

    def __init__(self, query: AggregateQuery, number: int) -> None:
        self._query = query
        self._number = number
        self._figures: dict[str, Ints] = {}
        self._lists: dict[str, Ints] = {}

    def add(self, name: str, values: Ints) -> None:
        """A figure of each cell."""
        self._figures[name] = values

    def add_largest(
        self, at: int, cells: Ints, ranks: Ints, values: Ints, products: Ints | None, codes: Ints | None
    ) -> None:
        """The largest contributions of a measure, each with its cell and its rank from 0."""
        shape = (self._number, self._query.largest)
        made = []
        for given in (values, products, codes):
            found = np.zeros(shape, dtype=np.int64)
            if given is not None:
                found[cells, ranks] = given
            made.append(found)
        if products is not None or codes is not None:
            # Codes are compared rather than contributors, whose order other figures do not show.
            order = np.lexsort(tuple(-each for each in reversed(made)), axis=-1)
            made = [np.take_along_axis(each, order, axis=-1) for each in made]
        for name, found in zip(("largest", "products", "holders"), made, strict=True):
            self._lists[f"{name}_{at}"] = found

    def table(self, keys: Sequence[pa.ChunkedArray]) -> pa.Table:
        """Keys and figures: see `Engine.aggregate`."""
        made = self._figures
        made.setdefault("single", np.zeros(self._number, dtype=np.int64))
        empty = np.zeros(self._number, dtype=np.int64)
        for at, measure in enumerate(self._query.measures):
            present = made.setdefault(f"present_{at}", made["contributors"])
            made.setdefault(f"single_{at}", made["single"])
            made.setdefault(f"nonzero_{at}", present)
            made.setdefault(f"negative_{at}", empty)
            made.setdefault(f"magnitude_{at}", made[f"total_{at}"])
            if not measure.once and self._query.largest and f"largest_{at}" not in self._lists:
                self.add_largest(at, empty[:0], empty[:0], empty[:0], None, None)
        columns = {name: pa.array(values) for name, values in sorted(made.items())}
        for name, values in sorted(self._lists.items()):
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), self._query.largest)
        return pa.table({**{f"key_{at}": key for at, key in enumerate(keys)}, **columns})

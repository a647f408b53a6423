"""What every engine's `aggregate` returns: cells with their figures in one Arrow table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from privpipe.blocks.aggregate_query import AggregateMeasure, AggregateQuery, Ranks
from privpipe.blocks.arrays import Ints

__all__ = ["Cells", "added_sql", "figures_sql", "ranks_sql"]


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


def added_sql(how: str, name: str) -> str:
    """A figure of one contributor in one cell from those of its records: see `AggregateQuery.added`."""
    # Null where records disagree.
    return f"CASE WHEN min({name}) = max({name}) THEN min({name}) END" if how == "once" else f"{how}({name})"


def figures_sql(
    at: int, measure: AggregateMeasure, names: Mapping[str, str], *, zeros: bool = True, negatives: bool = True
) -> dict[str, str]:
    """What is added up of a measure in each cell, as SQL that DuckDB and Spark both read.

    Parameters
    ----------
    names : mapping of str to str
        Of the columns of the measure, as SQL has them.
    zeros, negatives : bool
        Whether there may be any; where there are none, `Cells` knows the figures that are left out.
    """
    value = names[measure.column]
    asked = {"total": f"sum({value})"}
    if zeros:
        asked["nonzero"] = f"count_if({value} <> 0)"
    if negatives:
        asked |= {"negative": f"count_if({value} < 0)", "magnitude": f"sum(abs({value}))"}
    if measure.squares:
        asked["square"] = f"sum({value} * {value})"
    if measure.product is not None:
        product = names[measure.product]
        asked |= {"product": f"sum({product})", "size": f"sum(abs({product}))"}
    found = {f"{name}_{at}": f"CAST(coalesce({figure}, 0) AS BIGINT)" for name, figure in asked.items()}
    if measure.waived is not None:
        bound = f"max(CASE WHEN {names[measure.waived]} = 0 THEN abs({value}) END)"
        found[f"unwaived_{at}"] = f"CAST(coalesce({bound}, -1) AS BIGINT)"
    return found


def ranks_sql(keys: Sequence[str], ranks: Sequence[Ranks], counted: str) -> str:
    """What `Engine.ranked` returns, as SQL that DuckDB and Spark both read.

    Parameters
    ----------
    keys : sequence of str
        Names of the columns of a cell.
    ranks : sequence of Ranks
    counted : str
        Rows of the keys, a `value` and the `number` of contributors of the cell that have it, each value once.
    """
    cell = f"PARTITION BY {', '.join(keys)} " if keys else ""
    common = any(each.kind == "commonest" for each in ranks)
    place = f", row_number() OVER ({cell}ORDER BY number DESC, value) AS place" if common else ""
    return (
        f"SELECT {', '.join([*keys, 'value', 'number', 'before', 'present'])} FROM (SELECT *, "
        f"CAST(sum(number) OVER ({cell}ORDER BY value) AS BIGINT) - number AS before, "
        f"CAST(sum(number) OVER ({cell}) AS BIGINT) AS present{place} FROM {counted}) AS summed "
        f"WHERE {' OR '.join(map(_wanted, ranks))}"
    )


def _wanted(ranks: Ranks) -> str:
    """Whether a value has a wanted rank. Of a window, floors are compared without a division."""
    if ranks.kind != "window":
        return {"first": "before = 0", "last": "before + number = present", "commonest": "place = 1"}[ranks.kind]
    start = f"({ranks.numerator} * (present - 1) + {ranks.offset})"
    after = f"(before + number) * {ranks.denominator} > {start}"
    return f"({after} AND (before - {ranks.width - 1}) * {ranks.denominator} <= {start})"

"""Records of each stratum with a value of each column, and the combinations of strata that are released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.errors import UnsupportedError, UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.categories import labelled
from privpipe.transforms.person_counts import PersonCounts
from privpipe.transforms.strata import Strata, stratum_keys
from privpipe.transforms.synthesis.value_holders import holders_of_combinations

__all__ = ["MOST_DRAWN", "combinations_of", "planned_records", "require_counts", "with_known"]

MOST_DRAWN = 500_000_000
"""Records that are drawn at once: their numbers are made on the driver, 4 GB of them."""


def with_known(engine: Primitives, table: Any, strata: Strata, columns: Sequence[str]) -> Strata:
    """The strata with the number of values of each column."""
    if not columns:
        return strata
    if not strata.by:
        nulls = engine.facts(table, FactsRequest(nulls=tuple(columns))).nulls
        return replace(strata, known={name: (strata.records[0] - nulls[name],) for name in columns})
    found = engine.reduce_rows(table, (*strata.by, *columns), _Known(strata, tuple(columns)), Facts())
    counts = np.zeros((len(columns), len(strata)), np.int64) if found is None else found
    return replace(strata, known={name: tuple(row) for name, row in zip(columns, counts.tolist(), strict=True)})


@dataclass(frozen=True)
class _Known:
    strata: Strata
    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Any) -> NDArray[np.int64]:
        import pyarrow.compute as pc

        numbers = self.strata.of(block)
        rows = []
        for name in self.columns:
            known = ~pc.is_null(block.column(name), nan_is_null=True).to_numpy(zero_copy_only=False)
            rows.append(np.bincount(numbers[known & (numbers >= 0)], minlength=len(self.strata)))
        return np.stack(rows)

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return left + right


def combinations_of(
    engine: Primitives, table: Any, strata: Strata, min_count: int, persons: PersonCounts
) -> list[dict[str, Any]]:
    """Values of the stratum columns, as text, with the stratum and the records to stand for; rare ones go.

    Rare are those of fewer records than `min_count`, or of fewer persons where these are distinguished.
    """
    if not strata.by:
        return [{"values": [], "stratum": 0, "records": strata.records[0]}]
    distinct = engine.distinct(table, strata.by).combine_chunks()
    if not len(distinct):
        return []
    batch = distinct.select(list(strata.by)).to_batches()[0]
    numbers = strata.of(RowBlock(batch)).tolist()
    texts = list(zip(*(labelled(batch.column(name)).to_pylist() for name in strata.by), strict=True))
    keys = stratum_keys(batch, strata.key)
    order = np.argsort(keys)
    held = holders_of_combinations(engine, table, strata.by, keys[order], strata.key, persons)
    counts = distinct["__count"].to_numpy()[order].astype(np.int64)
    holders = counts if held is None else held.counts()
    return [
        {"values": list(texts[at]), "stratum": numbers[at], "records": count}
        for at, count, number in zip(order.tolist(), counts.tolist(), holders.tolist(), strict=True)
        if numbers[at] >= 0 and number >= min_count
    ]


def require_counts(detail: Mapping[str, Any], context: StageContext) -> None:
    """Refuse a plan whose numbers of records and strata are none.

    Raises
    ------
    UsageError
    """
    counts = [each["records"] for each in (*detail["combinations"], *detail["models"])]
    strata = [each["stratum"] for each in detail["combinations"]]
    if not all(type(each) is int and each >= 0 for each in (*counts, *strata)):
        raise UsageError(f"{context.place}: the plan counts records that are none: make a new plan")


def planned_records(detail: Mapping[str, Any], here: int | None, fewer: bool, context: StageContext) -> int:
    """The records that the models of a plan are of.

    Parameters
    ----------
    detail : mapping
        Of the plan, which whoever sealed it anew wrote.
    here : int, optional
        Records of the table; None: the models do not say how many they are of.
    fewer : bool
        Whether records may have been suppressed.

    Raises
    ------
    UsageError
        They are of another number.
    UnsupportedError
        More than are drawn at once.
    """
    wanted = sum(model["records"] for model in detail["models"])
    if here is not None and (wanted > here or (wanted < here and not fewer)):
        raise UsageError(
            f"{context.place}: the plan draws another number of records than the table has: make a new plan"
        )
    if wanted > MOST_DRAWN:
        raise UnsupportedError(
            f"{context.place}: draws at most {MOST_DRAWN:,} records at once; say how many with `records:`"
        )
    return int(wanted)

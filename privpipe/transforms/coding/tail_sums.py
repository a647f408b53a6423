"""What lies beyond the thresholds of top and bottom coding: exact sums, and the persons behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Facts, RowBlock
from privpipe.errors import DataError
from privpipe.transforms.coding.tail_thresholds import limits_of, lying_beyond
from privpipe.transforms.person_counts import PersonCounts, Persons
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    from privpipe.kernels.sums.exact import ExactSums

__all__ = ["BeyondSums", "Tail", "merged_tails", "tail_mean"]

Tail = tuple["ExactSums", Persons]
"""Exact sums of some values, and whose they are."""
Tails = dict[tuple[int, int], Tail]


@dataclass(frozen=True)
class BeyondSums:
    """Sums of the values beyond and their persons, by column and stratum; and infinite cells by column."""

    strata: Strata
    columns: tuple[str, ...]
    thresholds: Mapping[str, list[Any]]
    upper: bool
    persons: PersonCounts

    def measure(self, block: RowBlock, facts: Facts) -> tuple[Tails, dict[str, int]]:
        from privpipe.kernels.columns.scaled_numbers import scaled_numbers
        from privpipe.kernels.sums.exact import measure_sums

        numbers, codes = self.strata.of(block), self.persons.codes(block)
        found: Tails = {}
        infinite: dict[str, int] = {}
        for at, column in enumerate(self.columns):
            array = block.column(column)
            values, _, scale = scaled_numbers(array, column)
            if values.dtype.kind == "f" and np.isinf(values).any():
                infinite[column] = int(np.isinf(values).sum())
            limits = limits_of(self.thresholds[column], array.type)
            beyond = lying_beyond(array, column, limits[numbers], self.upper)
            for number in np.unique(numbers[beyond & (numbers >= 0)]).tolist():
                here = beyond & (numbers == number)
                found[at, number] = measure_sums([values[here]], None, [scale]), self.persons.of(codes, here)
        return found, infinite

    def merge(
        self, left: tuple[Tails, dict[str, int]], right: tuple[Tails, dict[str, int]]
    ) -> tuple[Tails, dict[str, int]]:
        infinite = {name: left[1].get(name, 0) + right[1].get(name, 0) for name in left[1] | right[1]}
        return merged_tails(left[0], right[0], self.persons), infinite


def merged_tails(left: Tails, right: Tails, persons: PersonCounts) -> Tails:
    """The tails of two blocks as those of both."""
    found = dict(left)
    for key, (sums, theirs) in right.items():
        mine = found.get(key)
        found[key] = (sums, theirs) if mine is None else (mine[0].merge(sums), persons.merged(mine[1], theirs))
    return found


def tail_mean(tail: Tail, at_least: int, column: str, place: str, instead: str) -> float:
    """The mean that replaces the values of a tail.

    Raises
    ------
    DataError
        It would be of fewer than `at_least` persons, or of fewer records where no persons are distinguished.
    """
    sums, persons = tail
    counted = PersonCounts.number(persons) if persons else sums.count
    if counted < at_least:
        whose = f" (different persons: {counted:,})" if persons else ""
        raise DataError(
            f"{place}: {sums.count:,} values of column {column!r}{whose} would be replaced by their mean, fewer than "
            f"at_least = {at_least}: that discloses them; {instead}"
        )
    return sums.mean()

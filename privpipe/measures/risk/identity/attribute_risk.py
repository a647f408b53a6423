"""Which columns identify: distinction and separation of a set of columns, and of every small set of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, Guarantee, SizeModel, Tally, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import KeyColumns, LargestShare, OwnColumns, PositiveNumber
from privpipe.blocks.way import DISTINCT
from privpipe.errors import UsageError

__all__ = ["AttributeRisk", "Distinction", "Separation", "distinction", "separation", "set_name"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnSetMeasure(SizeModel):
    """A figure of the classes that `columns` form.

    `columns` may be of any role. They are the keys of the entry, so a search, a suite and a judgement count the same.
    """

    threshold_field = "at_most"
    protects_nobody_at = 1

    columns: Annotated[OwnColumns, Doc("the set of columns, of any role; left out: all quasi-identifiers")] = None
    at_most: Annotated[float | None, Ge(0), Le(1)] = None

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns(as_keys=True)


def distinction(sizes: Ints, counts: Ints) -> float:
    """Distinct combinations / records, given the number (`counts`) of classes of each size (`sizes`).

    Examples
    --------
    >>> distinction(np.array([1, 2]), np.array([3, 1]))
    0.8
    """
    records = int(sizes @ counts)
    return int(counts.sum()) / records if records else float("nan")


@dataclass(frozen=True, kw_only=True, repr=False)
class Distinction(ColumnSetMeasure):
    """Share of distinct combinations of some columns among the records; observed = combinations / records.

    Parameters
    ----------
    columns : tuple of str, optional
        Of any role. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Notes
    -----
    In (0, 1]; 1 when the columns are a key of the table.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = Distinction(columns=("sex",), at_most=0.5)
    >>> verdict = measure.judge(measure.measure(ClassBlock(np.array([3, 2])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('pass', 0.4)
    """

    observes = float
    source = "Motwani, Xu, Efficient Algorithms for Masking and Finding Quasi-Identifiers, VLDB SDM workshop, 2007"
    threat = "An intruder who knows these columns of a person finds a record with few others like it."
    formula = "distinct combinations / n <= at_most"
    choose = (
        "Near 1 the columns are a key: anyone who knows them finds the person. 0.05 means 20 records a combination "
        "on average, while single ones may still be unique: pair it with k_anonymity."
    )

    at_most: Annotated[LargestShare, Doc("largest share of distinct combinations among the records")] = None

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        return distinction(sizes, counts)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.3), cls(columns=("zip",), at_most=0.5), cls(at_most=0.0)]


def separation(sizes: Ints, counts: Ints) -> float:
    """Share of record pairs in different classes; NaN where there is no pair.

    In Python integers up to the last division: n(n - 1) leaves 64 bits from three billion records on.

    Examples
    --------
    >>> separation(np.array([2, 3]), np.array([1, 1]))
    0.6
    """
    records = int(sizes @ counts)
    if records < 2:
        return float("nan")
    pairs = records * (records - 1)
    alike = sum(count * size * (size - 1) for size, count in zip(sizes.tolist(), counts.tolist(), strict=True))
    return float((pairs - alike) / pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class Separation(ColumnSetMeasure):
    """Share of record pairs that differ on some columns; observed = 1 - sum n_c (n_c - 1) / (n (n - 1)).

    Parameters
    ----------
    columns : tuple of str, optional
        Of any role. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Notes
    -----
    A table of one record has no pair: undefined, and as a guarantee an error.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = Separation(columns=("sex",), at_most=0.5)
    >>> verdict = measure.judge(measure.measure(ClassBlock(np.array([3, 2])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.6)
    """

    observes = float
    source = "Motwani, Xu, Efficient Algorithms for Masking and Finding Quasi-Identifiers, VLDB SDM workshop, 2007"
    threat = "An intruder distinguishes people by columns that were not considered identifying."
    formula = "1 - sum n_c (n_c - 1) / (n (n - 1)) <= at_most"
    choose = (
        "Above 0.9 a single column deserves the role quasi_identifier. As a gate on a column released as insensitive, "
        "0.9 keeps it from becoming identifying unnoticed."
    )

    at_most: Annotated[LargestShare, Doc("largest share of record pairs that the columns distinguish")] = None

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        return separation(sizes, counts)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.7), cls(columns=("zip",), at_most=0.5), cls(at_most=0.0)]


@dataclass(frozen=True, kw_only=True, repr=False)
class AttributeRisk(Guarantee):
    """Distinction and separation of every set of up to `max_dim` columns: which of them identify.

    Reported only; `distinction` and `separation` are the gates of one set. observed = by set (its columns joined by
    ``+``) a mapping of `distinction` and `separation`, smaller sets first.

    Parameters
    ----------
    columns : tuple of str, optional
        Of any role. Default: all quasi-identifiers.
    max_dim : int
        Columns in the largest sets; from the number of columns on, every set.
    max_sets : int
        Sets at most: sizes are taken whole, from single columns up, as long as they fit.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Raises
    ------
    UsageError
        More columns than `max_sets`.

    Notes
    -----
    All figures come of one count of the distinct combinations of `columns`, held in memory as codes. A table of one
    record has no pair, so no separation (null).

    Examples
    --------
    >>> from privpipe.blocks import DistinctBlock
    >>> block = DistinctBlock(("sex", "state"), np.array([[0, 0], [0, 1], [1, 2], [1, 0]]), np.array([2, 1, 1, 1]))
    >>> measure = AttributeRisk()
    >>> for columns, figures in measure.measure(block, Facts()).observed.items():
    ...     print(columns, figures)
    sex {'distinction': 0.4, 'separation': 0.6}
    state {'distinction': 0.6, 'separation': 0.7}
    sex+state {'distinction': 0.8, 'separation': 0.9}
    """

    way = DISTINCT
    observes = dict[str, Any]
    source = "Motwani, Xu, Efficient Algorithms for Masking and Finding Quasi-Identifiers, VLDB SDM workshop, 2007"
    threat = "Columns released as harmless distinguish people, alone or together."
    formula = "for each set: distinct combinations / n, and the share of record pairs that differ on it"
    choose = (
        "For choosing quasi-identifiers: name the columns in question. A column above 0.9 separation, or a small "
        "set near 1 distinction, is a quasi-identifier if an intruder can know it."
    )

    columns: Annotated[OwnColumns, Doc("columns to combine, of any role; left out: all quasi-identifiers")] = None
    max_dim: Annotated[PositiveNumber, Doc("columns in the largest sets")] = 3
    max_sets: Annotated[PositiveNumber, Doc("sets at most; sizes are taken whole as long as they fit")] = 2000

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns(as_keys=True)

    def is_gate(self) -> bool:
        return False

    def column_sets(self, columns: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
        """The sets, as positions in `columns`, smaller ones first."""
        left = self.max_sets
        if len(columns) > left:
            raise UsageError(f"attribute_risk: {len(columns)} columns make more than max_sets = {left:,} sets")
        for size in range(1, min(self.max_dim, len(columns)) + 1):
            left -= math.comb(len(columns), size)
            if left < 0:
                return
            yield from combinations(range(len(columns)), size)

    def measure(self, block: Any, facts: Facts) -> Tally:
        """The figures of a `DistinctBlock`."""
        from privpipe.kernels.classes.coded_classes import projected_sizes

        found = {}
        for places in self.column_sets(block.columns):
            sizes = np.unique(projected_sizes(block.codes[:, places], block.counts), return_counts=True)
            pairs_apart = separation(*sizes)
            found[set_name([block.columns[at] for at in places])] = {
                "distinction": distinction(*sizes),
                "separation": None if math.isnan(pairs_apart) else pairs_apart,
            }
        return Tally(observed=found, records=block.records)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        figures = observed.observed
        best = max(figures, key=lambda name: (figures[name]["separation"] or 0.0, figures[name]["distinction"]))
        return Verdict(
            self,
            figures,
            outcome="pass",
            reason=f"{len(figures):,} column sets over {observed.records:,} records; {best} distinguishes most pairs.",
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(max_dim=1), cls(max_dim=2, max_sets=3), cls(columns=("zip",))]


def set_name(columns: list[str]) -> str:
    """The columns joined by ``+``; a name that contains a plus is quoted.

    Examples
    --------
    >>> set_name(["age", "sex"]), set_name(["a+b", "c"])
    ('age+sex', "'a+b'+c")
    """
    return "+".join(repr(name) if "+" in name else name for name in columns)

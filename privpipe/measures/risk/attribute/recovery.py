"""Recovery: how well one released column predicts the original value of another, by the best guess in every class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Protocol, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Guarantee, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LargestShare, OwnColumns, PositiveNumber, PositiveShare, Stricter
from privpipe.blocks.verdict import Comparison
from privpipe.blocks.way import BESIDE
from privpipe.errors import UsageError
from privpipe.tolerance import at_most, floor_share

__all__ = ["Guesses", "Guessing", "PairCounts", "Recovered", "Recovery", "in_percent"]


@dataclass(frozen=True)
class Guesses:
    """Guesses over some classes.

    Parameters
    ----------
    records : int
    right : int
        Records of the most frequent value of their class.
    determined : int
        Records in classes of one value alone, large enough to count.
    """

    records: int = 0
    right: int = 0
    determined: int = 0


@dataclass(frozen=True)
class Guessing:
    """A reduction: in each class the most frequent value of `column` is guessed.

    Examples
    --------
    >>> from privpipe.testing.class_blocks import block_of
    >>> Guessing("region", 2).measure(block_of(region=[[2, 1], [3, 0], [1, 0]]), Facts())
    Guesses(records=7, right=6, determined=3)
    """

    column: str
    min_group: int = 1

    def measure(self, block: ClassBlock, facts: Facts) -> Guesses:
        """The guesses in whole classes."""
        if not len(block):
            return Guesses()
        cells = block.cells[self.column]
        starts = cells.offsets[:-1]
        alone = (np.diff(cells.offsets) == 1) & (block.sizes >= self.min_group)
        return Guesses(
            records=block.records,
            right=int(np.maximum.reduceat(cells.counts, starts).sum()),
            determined=int(block.sizes[alone].sum()),
        )

    def merge(self, left: Guesses, right: Guesses) -> Guesses:
        """Both together."""
        return Guesses(left.records + right.records, left.right + right.right, left.determined + right.determined)


class PairCounts(Protocol):
    """Counts over the records that original and release have in common."""

    records: int

    def distinct(self, column: str) -> int:
        """Distinct values of a released column; a missing value is one."""

    def guesses(self, column: str, evidence: tuple[str, ...], min_group: int) -> Guesses:
        """Guesses of the original values of a column by released columns."""

    def labels(self, column: str) -> Guesses:
        """Guesses of the released values of a column by its original ones."""


@dataclass(frozen=True)
class Recovered:
    """What some released columns reveal about another in addition to its label.

    Parameters
    ----------
    column : str
        The column that was transformed.
    by : tuple of str
        One released column, or two.
    right, by_label, determined, records : int
        Records guessed right with the evidence, and by the label alone; records with one value left; all records.
    """

    column: str
    by: tuple[str, ...]
    right: int
    by_label: int
    determined: int
    records: int

    @property
    def recovered(self) -> float:
        """Share of the records guessed right with the evidence."""
        return self.right / self.records

    @property
    def gain(self) -> float:
        """Share of the records that the evidence adds to the label."""
        return (self.right - self.by_label) / self.records

    def __str__(self) -> str:
        """What is revealed about which column, for how many records."""
        shown = " and ".join(f"`{name}`" for name in self.by)
        verb = "tells" if len(self.by) == 1 else "together tell"
        return f"{shown} {verb} `{self.column}` for {in_percent(self.recovered)} of the records"


@dataclass(frozen=True, kw_only=True, repr=False)
class Recovery(Guarantee):
    """Gain in guessing the original value of a transformed column from its label and another released column.

    Parameters
    ----------
    columns : tuple of str, optional
        Transformed columns whose values are guessed. Default: all that differ between original and release, numbers
        and dates that were perturbed excepted.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    pairs : bool
        Whether two columns are taken together as evidence too.
    max_distinct : float
        In (0, 1], a share of the records: released columns with more distinct values are not evidence here, since a
        near-unique value occurs with one record and would predict everything.
    min_group : int
        Records of the smallest group that counts as determined.
    quasi_identifiers : tuple of str, optional
        The same as `columns`; give one of the two.

    Notes
    -----
    For a transformed column g and other released columns c: recovered = sum over (label, c) of max over g of
    n(g, label, c) / n, baseline = sum over labels of max over g of n(g, label) / n; the largest difference is
    compared. A missing value and a mark are labels like any other; suppressed records are left out. A number or date
    of which one value was released under several labels is perturbed: linkage and interval disclosure judge it, and it
    is passed over unless `columns` name it or a stage took it for categories.

    Source: what a column's label leaves open is what the modal guess errs by (Goodman and Kruskal's lambda, JASA 49,
    1954).

    Examples
    --------
    >>> found = [Recovered("region", ("weight",), right=8, by_label=4, determined=6, records=8)]
    >>> verdict = Recovery(at_most=0.05).judge_recovered(found, records=8)
    >>> verdict.outcome, verdict.observed["gain"]
    ('fail', 0.5)
    """

    way = BESIDE
    threshold_field = "at_most"
    protects_nobody_at = 1
    observes = dict[str, Any]
    source = "Goodman and Kruskal, JASA 49, 1954"
    threat = "An intruder infers a generalized value from another column that was released unchanged."
    formula = "max over c of (sum over (label, c) of max_g n(g, label, c) - sum over labels of max_g n(g, label)) / n"
    choose = "0.05; with several columns of few values set `pairs`, which costs one count for each pair."

    columns: Annotated[
        OwnColumns, Doc("transformed columns whose values are guessed; left out: all that were transformed")
    ] = None
    at_most: Annotated[LargestShare, Doc("largest share of records that a column adds to what the label reveals")] = (
        None
    )
    pairs: Annotated[bool, Stricter("equal"), Doc("whether two columns are taken together too")] = False
    max_distinct: Annotated[
        PositiveShare, Doc("share of the records; columns with more distinct values are near-unique and no evidence")
    ] = 0.1
    min_group: Annotated[PositiveNumber, Doc("records of the smallest group that counts as determined")] = 1

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()
        if self.columns is not None and self.quasi_identifiers not in (None, self.columns):
            raise UsageError("Recovery: quasi_identifiers and columns name different sets; give columns alone")

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that it was asked to guess."""
        return self.columns or self.quasi_identifiers or ()

    def recovered(
        self, counts: PairCounts, columns: Sequence[str], released: Sequence[str], perturbed: Sequence[str]
    ) -> Iterator[Recovered]:
        """What each released column reveals about each transformed one.

        Parameters
        ----------
        counts : PairCounts
        columns : sequence of str
            Columns of both tables that may have been transformed.
        released : sequence of str
            All released columns.
        perturbed : sequence of str
            Those of `columns` that are not categories unless each value has one label.
        """
        n = counts.records
        most = floor_share(self.max_distinct, n)
        evidence = [name for name in released if counts.distinct(name) <= most] if n else []
        for column in columns if n else ():
            base = counts.guesses(column, (column,), self.min_group).right
            if base == n or (column in perturbed and counts.labels(column).right < n):
                continue
            others = [name for name in evidence if name != column]
            sets: list[tuple[str, ...]] = [(name,) for name in others]
            sets += combinations(others, 2) if self.pairs else []
            for by in sets:
                found = counts.guesses(column, (column, *by), self.min_group)
                yield Recovered(column, by, found.right, base, found.determined, n)

    def compared_with(self, counts: PairCounts, columns: Sequence[str], released: Sequence[str]) -> Comparison:
        """How many columns of both tables have another released column as evidence, where there is another."""
        most = floor_share(self.max_distinct, counts.records)
        evidence = {name for name in released if counts.distinct(name) <= most} if counts.records else set()
        told = sum(bool(evidence - {name}) or len(released) == 1 for name in columns)
        what = "columns of both tables have another released column of few enough values as evidence"
        return Comparison(told, len(columns), what, "raise max_distinct, or name columns of both tables")

    def judge_recovered(self, found: Sequence[Recovered], records: int) -> Verdict:
        """The verdict by what was recovered; the first of equal gains counts."""
        if not records:
            return self.not_judged("no record is in both tables")
        if not found:
            reason = f"observed 0{self.asked}; no released column is evidence for one that was transformed."
            nothing = {"gain": 0.0, "recovered": None, "baseline": None, "determined": None}
            return Verdict(self, nothing, "pass", self.demanded(), reason=reason)
        worst = max(found, key=lambda each: each.gain)
        observed = {
            "gain": worst.gain,
            "recovered": worst.recovered,
            "baseline": worst.by_label / records,
            "determined": worst.determined / records,
        }
        passed = self.at_most is None or bool(at_most(worst.gain, self.at_most))
        reason = (
            f"observed {short(worst.gain)}{self.asked}: {worst}, its label alone for "
            f"{in_percent(observed['baseline'])}; one value is left for {in_percent(observed['determined'])}."
        )
        return Verdict(self, observed, "pass" if passed else "fail", self.demanded(), reason=reason)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.05), cls(at_most=1.0, pairs=True, max_distinct=1.0, min_group=3)]


def in_percent(share: float) -> str:
    """A share as a sentence shows it, rounded down, so that only all is 100 %.

    Examples
    --------
    >>> in_percent(1.0), in_percent(0.99999), in_percent(1 / 3)
    ('100 %', '99.9 %', '33.3 %')
    """
    return f"{math.floor(share * 1000 + 1e-9) / 10:g} %"

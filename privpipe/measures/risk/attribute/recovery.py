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

__all__ = [
    "Chance",
    "Confirmed",
    "Confirming",
    "Guesses",
    "Guessing",
    "PairCounts",
    "Recovered",
    "Recovery",
    "beyond_chance",
    "in_percent",
]


LARGE = 30


@dataclass(frozen=True)
class Guesses:
    """Guesses over some classes.

    Parameters
    ----------
    records : int
    right : int
        Records of the most frequent value of their class.
    determined : int
        Records in classes with only one value that are large enough to count.
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


@dataclass(frozen=True)
class Confirmed:
    """Guesses of each record by the others of its class.

    Parameters
    ----------
    right : float
        Records whose value is the most frequent one of the others; where two values are, half of them.
    alone : int
        Records without others, about which nothing can be guessed.
    """

    right: float = 0.0
    alone: int = 0


@dataclass(frozen=True)
class Confirming:
    """A reduction: in each class the value of each record is guessed from the other records, so that luck adds nothing.

    In classes of 30 records or more luck adds little, and the most frequent value is guessed: of several values that
    are equally frequent the others of a record would never show its own.

    Examples
    --------
    >>> from privpipe.testing.class_blocks import block_of
    >>> Confirming("region").measure(block_of(region=[[3, 1], [2, 1], [1, 1], [1, 0]]), Facts())
    Confirmed(right=4.0, alone=1)
    """

    column: str

    def measure(self, block: ClassBlock, facts: Facts) -> Confirmed:
        """The guesses in whole classes."""
        if not len(block):
            return Confirmed()
        cells = block.cells[self.column]
        classes = np.repeat(np.arange(len(block)), np.diff(cells.offsets))
        counts = cells.counts[np.lexsort((-cells.counts, classes))]
        starts = cells.offsets[:-1]
        first = counts[starts]
        several = np.diff(cells.offsets) > 1
        second = np.where(several, counts[np.minimum(starts + 1, len(counts) - 1)], 0)
        share = np.where(first - 1 > second, 1.0, np.where((first - 1 == second) & (second > 0), 0.5, 0.0))
        share[block.sizes >= LARGE] = 1.0
        return Confirmed(float((first * share).sum()), int((block.sizes == 1).sum()))

    def merge(self, left: Confirmed, right: Confirmed) -> Confirmed:
        """Both together."""
        return Confirmed(left.right + right.right, left.alone + right.alone)


@dataclass(frozen=True)
class Chance:
    """A reduction: records that groups of the sizes of `evidence`, drawn at random from each class, would determine.

    Examples
    --------
    >>> from privpipe.testing.class_blocks import block_of
    >>> block = block_of(region=[[2, 2]], weight=[[2, 2]])
    >>> round(Chance("region", "weight").measure(block, Facts()), 6)
    1.333333
    """

    column: str
    evidence: str
    min_group: int = 1

    def measure(self, block: ClassBlock, facts: Facts) -> float:
        """Of whole classes; the order of the sum is that of the classes."""
        values, groups = block.cells[self.column], block.cells[self.evidence]
        found = 0.0
        for at, size in enumerate(block.sizes.tolist()):
            sizes, times = np.unique(groups.counts[groups.offsets[at] : groups.offsets[at + 1]], return_counts=True)
            times = times[sizes >= self.min_group]
            sizes = sizes[sizes >= self.min_group]
            held, repeated = np.unique(values.counts[values.offsets[at] : values.offsets[at + 1]], return_counts=True)
            drawn = _drawn_alike(sizes[:, None], held[None, :], size)
            found += float((sizes * times) @ (drawn @ repeated))
        return found

    def merge(self, left: float, right: float) -> float:
        """Both together."""
        return left + right


def _drawn_alike(drawn: Any, held: Any, records: int) -> Any:
    """Probability that this many records, drawn from all without replacement, are all among those held."""
    from scipy.special import gammaln

    left = np.maximum(held - drawn, 0)
    logs = gammaln(held + 1) - gammaln(left + 1) + gammaln(records - drawn + 1) - gammaln(records + 1)
    return np.where(held >= drawn, np.exp(np.minimum(logs, 0.0)), 0.0)


class PairCounts(Protocol):
    """Counts over the records that original and release have in common."""

    records: int

    def distinct(self, column: str) -> int:
        """Distinct values of a released column; a missing value is one."""

    def guesses(self, column: str, evidence: tuple[str, ...], min_group: int) -> Guesses:
        """Guesses of the original values of a column by released columns."""

    def labels(self, column: str) -> Guesses:
        """Guesses of the released values of a column by its original ones."""

    def confirmed(self, column: str, evidence: tuple[str, ...]) -> Confirmed:
        """Guesses of the original value of each record by the other records of the same evidence."""

    def chance(self, column: str, evidence: tuple[str, ...], min_group: int) -> float:
        """Records that the last column of the evidence would determine in addition to the others, were it drawn."""


@dataclass(frozen=True)
class Recovered:
    """What some released columns reveal about another in addition to its label.

    Parameters
    ----------
    column : str
        The column that was transformed.
    by : tuple of str
        One released column, or two.
    right, by_label, determined : float
        Records guessed correctly with the evidence, and by the label alone; records with one value left.
    records : int
        All records.
    """

    column: str
    by: tuple[str, ...]
    right: float
    by_label: float
    determined: float
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
    determined_at_most : float, optional
        In [0, 1], a share of the records: that of those with one value left. Left out, it is reported.
    beyond_chance : bool
        Whether figures above a threshold are judged without what random groups of the same sizes would show: each value
        is guessed from the other records of its group, and records are determined in excess of the number expected.
    quasi_identifiers : tuple of str, optional
        The same as `columns`; give one of the two.

    Notes
    -----
    For a transformed column g and other released columns c: recovered = sum over (label, c) of max over g of
    n(g, label, c) / n, baseline = sum over labels of max over g of n(g, label) / n; the largest difference is
    compared. A missing value and a mark are labels like any other; suppressed records are left out. A number or date
    of which one value was released under several labels is perturbed: linkage and interval disclosure judge it, and it
    is passed over unless `columns` name it or a stage took it for categories.

    A release whose policy has no `recovery` among its guarantees is refused where `recovery: {at_most: 0.5,
    determined_at_most: 0.2, beyond_chance: true}` fails for a column that was generalized or suppressed, measured on at
    most 200,000 records; an entry of the policy decides instead.

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
    determined_at_most: Annotated[LargestShare, Doc("largest share of records that have one value left")] = None
    beyond_chance: Annotated[
        bool, Stricter("equal"), Doc("whether figures above a threshold are judged without what random groups show")
    ] = False

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()
        if self.columns is not None and self.quasi_identifiers not in (None, self.columns):
            raise UsageError("Recovery: quasi_identifiers and columns name different sets; give only columns")

    @property
    def named(self) -> tuple[str, ...]:
        """The columns to be guessed."""
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
                yield self._judged(counts, Recovered(column, by, found.right, base, found.determined, n))

    def _judged(self, counts: PairCounts, found: Recovered) -> Recovered:
        """What is compared with the thresholds."""
        thresholds = (self.at_most, self.determined_at_most)
        if not self.beyond_chance or not (self.exceeded(found) or thresholds == (None, None)):
            return found
        return beyond_chance(counts, found, self.min_group)

    def exceeded(self, found: Recovered) -> bool:
        """Whether a figure is above its threshold."""
        gained = self.at_most is not None and not at_most(found.gain, self.at_most)
        share = found.determined / found.records
        return gained or (self.determined_at_most is not None and not at_most(share, self.determined_at_most))

    def compared_with(self, counts: PairCounts, columns: Sequence[str], released: Sequence[str]) -> Comparison:
        """How many columns of both tables have another released column as evidence, where there is another."""
        most = floor_share(self.max_distinct, counts.records)
        evidence = {name for name in released if counts.distinct(name) <= most} if counts.records else set()
        told = sum(bool(evidence - {name}) or len(released) == 1 for name in columns)
        what = "columns of both tables have another released column of few enough values as evidence"
        return Comparison(told, len(columns), what, "raise max_distinct, or name columns of both tables")

    def judge_recovered(self, found: Sequence[Recovered], records: int) -> Verdict:
        """The verdict on the recovered values; the first of equal gains counts."""
        if not records:
            return self.not_judged("no record is in both tables")
        if not found:
            reason = f"observed 0{self.asked}; no released column is evidence for one that was transformed."
            nothing = {"gain": 0.0, "recovered": None, "baseline": None, "determined": None}
            return Verdict(self, nothing, "pass", self.demanded(), reason=reason)
        exceeding = [each for each in found if self.exceeded(each)]
        worst = max(exceeding or found, key=lambda each: each.gain)
        observed = {
            "gain": worst.gain,
            "recovered": worst.recovered,
            "baseline": worst.by_label / records,
            "determined": worst.determined / records,
        }
        most = self.determined_at_most
        allowed = "" if most is None else f" (at most {in_percent(most)})"
        reason = (
            f"observed {short(worst.gain)}{self.asked}: {worst}, its label alone for "
            f"{in_percent(observed['baseline'])}; one value is left for {in_percent(observed['determined'])}{allowed}"
            f"{', beyond chance' if self.beyond_chance else ''}."
        )
        return Verdict(self, observed, "fail" if exceeding else "pass", self.demanded(), reason=reason)

    @classmethod
    def examples(cls) -> list[Self]:
        guard = cls(at_most=0.5, determined_at_most=0.2, beyond_chance=True)
        return [cls(), cls(at_most=0.05), cls(at_most=1.0, pairs=True, max_distinct=1.0, min_group=3), guard]


def beyond_chance(counts: PairCounts, found: Recovered, min_group: int) -> Recovered:
    """The same minus what groups of these sizes would show by chance; never more than was found.

    Each value is guessed from the other records of its group: of one alone it is guessed as well as by its label.
    """
    n = found.records
    label, with_it = (counts.confirmed(found.column, (found.column, *by)) for by in ((), found.by))
    base = min(label.right + label.alone / n, found.by_label)
    right = min(with_it.right + with_it.alone * base / n, base + found.right - found.by_label)
    chance = counts.chance(found.column, (found.column, *found.by), min_group)
    return Recovered(found.column, found.by, max(right, base), base, max(found.determined - chance, 0.0), n)


def in_percent(share: float) -> str:
    """A share as a sentence shows it, rounded down, so that only all is 100 %.

    Examples
    --------
    >>> in_percent(1.0), in_percent(0.99999), in_percent(1 / 3)
    ('100 %', '99.9 %', '33.3 %')
    """
    return f"{math.floor(share * 1000 + 1e-9) / 10:g} %"

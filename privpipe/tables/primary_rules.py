"""Primary rules: which cells are unsafe by themselves, and how far a reader must be kept from their value.

All figures are integers or rationals: ties are decided exactly, and equality is safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools
from privpipe.errors import DataError, UsageError
from privpipe.tables.aggregates import CellFigures, exact, pattern_mask, rational, times
from privpipe.tables.audit_problem import Levels

__all__ = [
    "Concentration",
    "Dominance",
    "Lower",
    "MinimumFrequency",
    "OfHoldings",
    "PPercent",
    "PriorPosterior",
    "Protection",
    "Rule",
    "Settings",
    "of_implied",
    "of_noisy",
    "protection_levels",
]

Exact = Any  # an array of int64, or of Python integers where those could overflow
Weights = Literal["replicate", "sample", "known"]
Negative = Literal["refuse", "absolute", "frequency"]
Safety = Literal["safe", "unsafe"]
Lower = Literal["symmetric", "none"]


@dataclass(frozen=True)
class Protection:
    """How far from the true value a reader must be kept: numerators over one denominator, in units of the response.

    `lower` is None where the rule leaves it to the settings of the table (symmetric, or none).
    """

    upper: Exact
    lower: Exact | None
    denominator: int = 1


class Rule(ABC):
    """A primary rule."""

    largest: int = 0
    """How many of the largest contributions it needs."""

    @abstractmethod
    def unsafe(self, figures: CellFigures) -> Bools:
        """Cells that must not be published.

        Raises
        ------
        DataError
            The figures cannot be judged by it.
        """

    @abstractmethod
    def protection(self, figures: CellFigures) -> Protection:
        """Levels of all cells; they mean something where the cell is unsafe."""

    @abstractmethod
    def observed(self, figures: CellFigures, published: Bools) -> Fraction | None:
        """The figure of the published cell that is nearest to the threshold, or beyond it; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class MinimumFrequency(Rule):
    """A cell with contributors has at least n; observed = least number of contributors of a published cell.

    Parameters
    ----------
    at_least : int
        n; a cell with 0 < N < n is unsafe.
    protect : "masked", "exact" or mapping {"percent": r}
        Levels of an unsafe count: a reader learns no more than from a mask "1 to n-1"; holds two values possible; or
        finds r percent of N on both sides. A sum has level 0: it must not be determined exactly.
    zeros : {"safe", "unsafe"}
        Whether an empty cell may be published.
    structural : sequence of mapping of column to label
        Cells that everyone knows to be empty; never unsafe.
    count : {"contributors", "nonzero"}
        Contributors, or those whose contribution is not 0.
    population : bool
        Judge sums of weights rather than contributors in the sample.

    Examples
    --------
    >>> MinimumFrequency(at_least=10)
    MinimumFrequency(at_least=10, protect='masked', zeros='safe', structural=(), count='contributors', population=False)
    """

    at_least: int
    protect: Literal["masked", "exact"] | dict[str, Any] = "masked"
    zeros: Safety = "safe"
    structural: Sequence[dict[str, str]] = ()
    count: Literal["contributors", "nonzero"] = "contributors"
    population: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.at_least, bool) or not isinstance(self.at_least, int) or self.at_least < 1:
            raise UsageError(f"minimum_frequency: at_least must be an integer of at least 1, got {self.at_least!r}")
        if isinstance(self.protect, dict):
            if list(self.protect) != ["percent"] or self._percent < 0:
                raise UsageError("minimum_frequency: protect must be masked, exact or {percent: r} with r >= 0")
        elif self.protect not in ("masked", "exact"):
            raise UsageError(
                f"minimum_frequency: protect must be masked, exact or {{percent: r}}, not {self.protect!r}"
            )
        _one_of("minimum_frequency: zeros", self.zeros, Safety)
        _one_of("minimum_frequency: count", self.count, Literal["contributors", "nonzero"])

    @property
    def _percent(self) -> Fraction:
        return rational(cast(dict[str, Any], self.protect)["percent"], "minimum_frequency: percent")

    def _counts(self, figures: CellFigures) -> tuple[NDArray[np.int64], int]:
        """What is compared with n, and the unit of it."""
        if self.population and figures.population is not None:
            return figures.population, figures.weight_unit
        return figures.nonzero if self.count == "nonzero" else figures.contributors, 1

    def unsafe(self, figures: CellFigures) -> Bools:
        counts, unit = self._counts(figures)
        found: Bools = (figures.contributors > 0) & (counts < self.at_least * unit)
        if self.count == "nonzero":
            found &= counts > 0
        if self.zeros == "unsafe":
            known = pattern_mask(figures.cells, self.structural, "minimum_frequency: structural")
            if bool((figures.contributors[known] > 0).any()):
                raise DataError(
                    f"minimum_frequency: {int((figures.contributors[known] > 0).sum())} cells that `structural` "
                    "declares always empty have records; correct the patterns or the data"
                )
            found |= (figures.contributors == 0) & ~known
        return found

    def protection(self, figures: CellFigures) -> Protection:
        counts, nothing = figures.contributors, np.zeros(len(figures), dtype=np.int64)
        if isinstance(self.protect, dict):
            # Ceilings, so that the level is whole and at least 1.
            size = np.abs(figures.totals)
            percent = self._percent
            level = exact(size, percent.numerator)
            level = np.maximum(-((-level) // (100 * percent.denominator)), 1)
            return Protection(level, level)
        if self.protect == "exact" or not figures.counting or figures.population is not None:
            return Protection(nothing, nothing)
        least = 0 if self.zeros == "unsafe" else 1
        return Protection(np.maximum(self.at_least - 1 - counts, 0), np.maximum(counts - least, 0))

    def observed(self, figures: CellFigures, published: Bools) -> Fraction | None:
        counts, unit = self._counts(figures)
        shown = counts[published & (figures.contributors > 0)]
        return Fraction(int(shown.min()), unit) if len(shown) else None


@dataclass(frozen=True, kw_only=True)
class Concentration(Rule):
    """A rule about the share of the largest contributions in a cell's sum.

    Parameters
    ----------
    weights : {"replicate", "sample", "known"}
        A contribution with weight w counts as w equal ones; contributions of the sample against the weighted total;
        readers know the weights.
    negative : {"refuse", "absolute", "frequency"}
        What negative contributions do: an error; all quantities are absolute; cells that have some are left to the
        frequency rule.
    zero_sums : {"safe", "unsafe"}
        Whether a cell of contributors that all contribute 0 may be published.
    """

    weights: Weights = "replicate"
    negative: Negative = "refuse"
    zero_sums: Safety = "unsafe"

    def __post_init__(self) -> None:
        _one_of("weights", self.weights, Weights)
        _one_of("negative", self.negative, Negative)
        _one_of("zero_sums", self.zero_sums, Safety)

    @abstractmethod
    def excess(self, figures: CellFigures) -> tuple[Exact, int]:
        """By how much each cell is beyond the rule: numerators and denominator; unsafe where above 0."""

    @abstractmethod
    def ratios(self, figures: CellFigures) -> tuple[Exact, Exact, bool]:
        """Numerators and denominators of the observed figure, and whether the greatest is the worst."""

    def unsafe(self, figures: CellFigures) -> Bools:
        found = np.asarray(self.excess(figures)[0] > 0, dtype=np.bool_) & self._judged(figures)
        if self.zero_sums == "unsafe":
            found |= (figures.contributors > 0) & (figures.nonzero == 0)
        return found

    def protection(self, figures: CellFigures) -> Protection:
        numerators, denominator = self.excess(figures)
        return Protection(np.where(self._judged(figures), np.maximum(numerators, 0), 0), None, denominator)

    def observed(self, figures: CellFigures, published: Bools) -> Fraction | None:
        above, below, greatest = self.ratios(figures)
        chosen = np.flatnonzero(published & self._judged(figures) & np.asarray(below > 0, dtype=np.bool_))
        if not len(chosen):
            return None
        # Floats only choose the few candidates among which rationals decide.
        ratio = above[chosen].astype(np.float64) / below[chosen].astype(np.float64)
        worst = ratio.max() if greatest else ratio.min()
        near = chosen[np.abs(ratio - worst) <= 1e-9 * abs(worst)]
        pairs = {(int(above[at]), int(below[at])) for at in near}
        return (max if greatest else min)(Fraction(*pair) for pair in pairs)

    def _judged(self, figures: CellFigures) -> Bools:
        found: Bools = figures.nonzero > 0
        if self.negative == "frequency":
            found = found & (figures.negative == 0)
        if figures.unwaived is not None:
            found = found & (figures.unwaived >= 0)
        return found

    def _total(self, figures: CellFigures) -> Exact:
        """Sums of the cells, which negative contributions must not have made small."""
        if self.negative == "refuse" and bool((figures.negative > 0).any()):
            number = int((figures.negative > 0).sum())
            raise DataError(
                f"response {figures.response!r}: {number:,} cells hold negative contributions, by which shares mean "
                "nothing; write `negative: absolute` or `negative: frequency` in the rule"
            )
        return exact(figures.magnitudes if self.negative == "absolute" else figures.totals)

    def _first(self, figures: CellFigures) -> Exact:
        """The largest contribution that is to be protected, in the unit of the totals."""
        first = figures.largest[:, 0] if figures.unwaived is None else np.maximum(figures.unwaived, 0)
        return exact(first, figures.weight_unit)

    def _top(self, figures: CellFigures, number: int) -> Exact:
        """Sum of the `number` largest contributions, in the unit of the totals."""
        figures.require(number)
        if figures.weighted is None:
            return self._unweighted(figures, number)
        if figures.unwaived is not None:
            raise UsageError(f"response {figures.response!r}: waivers and weights cannot be judged together")
        if self.weights == "sample":
            return exact(figures.largest[:, :number], figures.weight_unit).sum(axis=1)
        if self.weights == "known":
            return exact(figures.weighted[:, :number]).sum(axis=1)
        return self._replicated(figures, number)

    def _unweighted(self, figures: CellFigures, number: int) -> Exact:
        largest = exact(figures.largest[:, :number])
        top = largest.sum(axis=1)
        if figures.unwaived is None:
            return top
        last = largest[:, number - 1]
        return np.where(figures.unwaived >= figures.largest[:, number - 1], top, top - last + figures.unwaived)

    def _replicated(self, figures: CellFigures, number: int) -> Exact:
        if figures.persons:
            raise UsageError(
                f"response {figures.response!r}: `weights: replicate` needs records as contributors, for no one knows "
                "whose the replicas of a person are; write `weights: sample` or `weights: known`"
            )
        unit = figures.weight_unit
        weighted = cast(NDArray[np.int64], figures.weighted)
        left = np.full(len(figures), number * unit, dtype=np.int64)
        top: Exact = np.zeros(len(figures), dtype=np.int64)
        for place in range(min(number, figures.largest.shape[1])):
            value = figures.largest[:, place]
            weight = np.where(value > 0, np.abs(weighted[:, place]) // np.maximum(value, 1), 0)
            taken = np.minimum(np.maximum(weight, unit), left)  # a weight below 1 is one whole contribution
            top = top + times(value, taken, 2 * number)
            left = left - np.where(value > 0, taken, 0)
        return top


@dataclass(frozen=True, kw_only=True)
class Dominance(Concentration):
    """The n largest contributors have at most a share k of a cell's sum; observed = greatest share.

    Source: Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 4.

    Parameters
    ----------
    contributors : int
        n.
    at_most : number
        k, in (0, 1); equality is safe.

    Examples
    --------
    >>> Dominance(contributors=2, at_most=0.85).share
    Fraction(17, 20)
    """

    contributors: int
    at_most: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("dominance: contributors", self.contributors, 10)
        if not 0 < self.share < 1:
            raise UsageError(f"dominance: at_most must be a share between 0 and 1, as in 0.85, got {self.at_most!r}")

    @property
    def share(self) -> Fraction:
        return rational(self.at_most, "dominance: at_most")

    @property
    def largest(self) -> int:  # type: ignore[override]
        return self.contributors

    def excess(self, figures: CellFigures) -> tuple[Exact, int]:
        share = self.share
        top, total = self._top(figures, self.contributors), self._total(figures)
        return exact(top, share.denominator) - exact(total, share.numerator), share.numerator

    def ratios(self, figures: CellFigures) -> tuple[Exact, Exact, bool]:
        return self._top(figures, self.contributors), self._total(figures), True


@dataclass(frozen=True, kw_only=True)
class PPercent(Concentration):
    """No coalition of contributors knows another's value to less than p percent; observed = least percentage.

    Source: Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 4.

    Parameters
    ----------
    at_least : number
        p, above 0; equality is safe.
    coalition : int
        Contributors, after the largest, that pool their knowledge.

    Examples
    --------
    >>> PPercent(at_least=10).largest
    2
    """

    at_least: Any
    coalition: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("p_percent: coalition", self.coalition, 9)
        if not rational(self.at_least, "p_percent: at_least") > 0:
            raise UsageError(f"p_percent: at_least must be a percentage above 0, got {self.at_least!r}")

    @property
    def largest(self) -> int:  # type: ignore[override]
        return self.coalition + 1

    @property
    def share(self) -> Fraction:
        """p/100."""
        return rational(self.at_least, "p_percent: at_least") / 100

    def excess(self, figures: CellFigures) -> tuple[Exact, int]:
        return self._beyond(figures, self.coalition + 1, self.share)

    def _beyond(self, figures: CellFigures, number: int, share: Fraction) -> tuple[Exact, int]:
        rest = self._total(figures) - self._top(figures, number)
        first = self._first(figures)
        return exact(first, share.numerator) - exact(rest, share.denominator), share.denominator

    def ratios(self, figures: CellFigures) -> tuple[Exact, Exact, bool]:
        rest = self._total(figures) - self._top(figures, self.largest)
        return exact(rest, 100), self._first(figures), False


@dataclass(frozen=True, kw_only=True)
class PriorPosterior(PPercent):
    """No one who knew each contribution to q percent knows one to less than p percent; observed = least percentage.

    It is the p % rule with 100 p / q; `at_least` is p and `prior` is q.

    Examples
    --------
    >>> PriorPosterior(at_least=10, prior=50).largest
    2
    """

    prior: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior is None or not 0 < rational(self.at_least, "p") < rational(self.prior, "prior_posterior: prior"):
            raise UsageError("prior_posterior: give at_least (p) and prior (q), percentages with 0 < p < q")
        if self.coalition != 1:
            raise UsageError("prior_posterior: it is about one contributor; for coalitions use p_percent")

    @property
    def share(self) -> Fraction:
        return rational(self.at_least, "p") / rational(self.prior, "q")

    def excess(self, figures: CellFigures) -> tuple[Exact, int]:
        return self._beyond(figures, 2, self.share)

    def ratios(self, figures: CellFigures) -> tuple[Exact, Exact, bool]:
        rest = self._total(figures) - self._top(figures, 2)
        prior = rational(self.prior, "q")
        return exact(rest, prior.numerator), exact(self._first(figures), prior.denominator), False


@dataclass(frozen=True)
class OfHoldings(Rule):
    """A rule whose contributors are the values of a column, as of holdings that persons or branches belong to."""

    rule: Rule
    column: str

    @property
    def largest(self) -> int:  # type: ignore[override]
        return self.rule.largest

    def unsafe(self, figures: CellFigures) -> Bools:
        return self.rule.unsafe(self._seen(figures))

    def protection(self, figures: CellFigures) -> Protection:
        return self.rule.protection(self._seen(figures))

    def observed(self, figures: CellFigures, published: Bools) -> Fraction | None:
        return self.rule.observed(self._seen(figures), published)

    def _seen(self, figures: CellFigures) -> CellFigures:
        if self.column not in figures.others:
            raise UsageError(
                f"response {figures.response!r}: contributors were not counted by {self.column!r}; give the guarantee "
                "to `aggregate` too"
            )
        return figures.others[self.column]


def of_implied(rule: Rule) -> Rule:
    """The rule as it judges populations that published cells imply: none of them is known to be empty."""
    if isinstance(rule, OfHoldings):
        return OfHoldings(of_implied(rule.rule), rule.column)
    return replace(rule, zeros="safe", structural=()) if isinstance(rule, MinimumFrequency) else rule


def of_noisy(rule: Rule) -> Rule:
    """The rule for figures with noise: a count is not blank, so a second value must be possible."""
    if isinstance(rule, OfHoldings):
        return OfHoldings(of_noisy(rule.rule), rule.column)
    return replace(rule, protect="exact") if isinstance(rule, MinimumFrequency) else rule


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How levels follow from rules.

    Parameters
    ----------
    lower : {"symmetric", "none"}
        The lower level equals the upper one, as far as the lower bound allows; or is 0.
    lower_bound : int or None
        What readers know to be the least value, in units of the response; None: no bound.
    sliding : number
        Share of the value that upper and lower level together must reach; 0: none.
    """

    lower: Lower = "symmetric"
    lower_bound: int | None = 0
    sliding: Any = 0
    _share: Fraction = field(init=False, repr=False, default=Fraction(0))

    def __post_init__(self) -> None:
        _one_of("lower", self.lower, Lower)
        object.__setattr__(self, "_share", rational(self.sliding, "sliding"))
        if self._share < 0:
            raise UsageError("sliding must be a share of at least 0")

    @property
    def share(self) -> Fraction:
        return self._share


def protection_levels(rules: Sequence[Rule], figures: CellFigures, settings: Settings | None = None) -> Levels:
    """The levels of all unsafe cells: the largest upper level of the rules that call a cell unsafe.

    Returns
    -------
    Levels
        `variables` are cells.

    Raises
    ------
    DataError
        Levels that integers of 64 bits do not hold.
    """
    settings = settings or Settings()
    masks = [rule.unsafe(figures) for rule in rules]
    made = [rule.protection(figures) for rule in rules]
    denominator = lcm(*(each.denominator for each in made), settings.share.denominator)
    chosen = np.flatnonzero(np.logical_or.reduce(masks)) if masks else np.empty(0, dtype=np.int64)
    upper = np.zeros(len(chosen), dtype=object)
    lower = np.zeros(len(chosen), dtype=object)
    low_end = _room_below(figures, chosen, settings, denominator)
    for mask, level in zip(masks, made, strict=True):
        factor, says = denominator // level.denominator, mask[chosen]
        above = np.asarray(level.upper)[chosen].astype(object) * factor
        if level.lower is not None:
            below = np.asarray(level.lower)[chosen].astype(object) * factor
        else:
            below = above if settings.lower == "symmetric" else np.zeros(len(chosen), dtype=object)
        if low_end is not None:
            below = np.minimum(below, low_end)
        upper = np.where(says, np.maximum(upper, above), upper)
        lower = np.where(says, np.maximum(lower, below), lower)
    share = settings.share
    span = np.abs(figures.totals[chosen]).astype(object) * (share.numerator * (denominator // share.denominator))
    return Levels(chosen, _whole_words(lower), _whole_words(upper), _whole_words(span), denominator)


def _room_below(
    figures: CellFigures, chosen: NDArray[np.int64], settings: Settings, denominator: int
) -> NDArray[np.object_] | None:
    """How far the value of each cell is above the least that readers think possible."""
    if settings.lower_bound is None:
        return None
    distance = figures.totals[chosen].astype(object) - settings.lower_bound
    return np.asarray(np.maximum(distance, 0) * denominator)


def _whole_words(values: NDArray[np.object_]) -> NDArray[np.int64]:
    try:
        return values.astype(np.int64)
    except OverflowError:
        raise DataError(
            "protection levels exceed integers of 64 bits; declare fewer `decimals`, or thresholds of fewer digits"
        ) from None


def _whole(what: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{what} must be an integer from 1 to {most}, got {value!r}")


def _one_of(what: str, value: object, kind: Any) -> None:
    if value not in get_args(kind):
        raise UsageError(f"{what} must be one of {', '.join(get_args(kind))}, not {value!r}")

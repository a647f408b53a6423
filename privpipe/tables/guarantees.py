"""Guarantees on published cells: frequency and concentration rules, group disclosure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import Stricter
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import UsageError, did_you_mean
from privpipe.tables import group_disclosure, primary_rules
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT
from privpipe.tables.audit_problem import Levels
from privpipe.tables.cells import Cells
from privpipe.tables.entries import CellGuarantee, TableSet
from privpipe.tables.families import merged_levels
from privpipe.tables.table import Measure, Table, measures_of
from privpipe.tables.union_families import counted_together

__all__ = [
    "NO_CELL",
    "Dominance",
    "GroupDisclosure",
    "MinimumFrequency",
    "PPercent",
    "PrimaryRule",
    "PriorPosterior",
]

Weights = Literal["replicate", "sample", "known"]
Negative = Literal["refuse", "absolute", "frequency"]
Safety = Literal["safe", "unsafe"]
LEAST_SPREAD = 3
"""Contributors of a published variance, whatever n is."""
NO_CELL = "no published cell has a contributor, so there is nothing to judge."


@dataclass(frozen=True, kw_only=True, repr=False)
class PrimaryRule(CellGuarantee):
    """A guarantee that decides for each cell alone whether it may be published.

    Subclasses define `rule` and the measures to which it applies.
    """

    primary = True

    response: Annotated[
        str | None, Doc("the response, or its column, that is judged; left out: all to which the rule applies")
    ] = None

    holding: Annotated[
        str | None,
        Doc("column that identifies a contributor, such as the holding of several branches; left out: persons"),
    ] = None

    @property
    @abstractmethod
    def rule(self) -> primary_rules.Rule:
        """The rule itself."""

    def holdings(self) -> tuple[str, ...]:
        return () if self.holding is None else (self.holding,)

    def largest(self) -> int:
        return self.rule.largest

    def rule_of(self, figures: CellFigures) -> primary_rules.Rule:
        """The rule for one measure."""
        return self._held(self.rule)

    def _held(self, rule: primary_rules.Rule) -> primary_rules.Rule:
        return rule if self.holding is None else primary_rules.OfHoldings(rule, self.holding)

    def statistics(self, table: Table) -> Iterator[tuple[str, Bools]]:
        """Extremes, quantiles and modes that it judges, by response, and which of their figures are unsafe."""
        return iter(())

    def measures(self, table: Table) -> Iterator[tuple[str, CellFigures]]:
        """Measures of a table that it judges.

        Raises
        ------
        UsageError
            The table does not have the response.
        """
        named = {COUNT if self.response == "count" else self.response}
        for each in table.responses:
            if each.name == self.response:
                named |= set(measures_of(each)) - ({COUNT} if each.columns else set())
        found = [
            (key, table.measures[key].figures)
            for key in table.shown_measures
            if self._speaks_of(table.measures[key].figures)
        ]
        if self.response is not None:
            found = [pair for pair in found if pair[0] in named]
        yield from found

    def _speaks_of(self, figures: CellFigures) -> bool:
        return not figures.counting and not figures.squares

    def unsafe(self, table: Table) -> dict[str, Bools]:
        """By measure, which cells must not be published."""
        return {key: self.rule_of(figures).unsafe(figures) for key, figures in self.measures(table)}

    def judge(self, tables: TableSet) -> Verdict:
        observed: list[Fraction] = []
        failing = judged = measured = perturbed = 0
        for table in tables.chosen(self.tables).values():
            for key, figures in self.measures(table):
                measure = table.measures[key]
                shown = ~measure.hidden
                rule = self.rule_of(figures)
                unsafe = rule.unsafe(figures)
                measured += 1
                judged += int((shown & (figures.contributors > 0)).sum())
                if measure.by_interval:
                    safe = unsafe & shown & self._kept_by_interval(measure)
                    perturbed += int(safe.sum())
                    shown &= ~safe
                failing += int((unsafe & shown).sum())
                found = rule.observed(figures, shown)
                observed += [] if found is None else [found]
            for name, unsafe in self.statistics(table):
                statistic = table.statistics[name]
                shown = ~(statistic.hidden | table.hidden)
                measured += 1
                judged += int((shown & (statistic.present > 0)).sum())
                failing += int((unsafe & shown).sum())
        if not measured:
            raise UsageError(
                f"{self.name()}: no table has a response that it can judge"
                + ("" if self.response is None else f" ({self.response!r})")
            )
        rests_on = (Comparison(judged, judged, "published figures with contributors were judged"),)
        if not judged:
            return Verdict(self, None, "error", self.demanded(), reason=NO_CELL, compared=rests_on)
        figure = _worst(observed, greatest=self.worst_is_greatest)
        seen = "observed nothing" if figure is None else f"observed {figure:g}"
        fails = f"; {failing:,} of {judged:,} published figures are unsafe" if failing else f"; all {judged:,} are safe"
        fails += f", {perturbed:,} by noise or rounding" if perturbed else ""
        return Verdict(
            self,
            figure,
            outcome="fail" if failing else "pass",
            threshold=self.demanded(),
            failing_classes=failing,
            reason=f"{seen}{fails}.",
            compared=rests_on,
        )

    worst_is_greatest: ClassVar[bool] = False

    def _kept_by_interval(self, measure: Measure) -> Bools:
        """Figures that, taken alone, bring no reader too close to an unsafe cell."""
        rule = self.rule_of(measure.figures)
        if measure.noise is not None:
            rule = primary_rules.of_noisy(rule)
        found = np.zeros(len(measure.figures), dtype=np.bool_)
        least = None if bool((measure.figures.negative > 0).any()) else 0
        levels = primary_rules.protection_levels([rule], measure.figures, primary_rules.Settings(lower_bound=least))
        at, unit = levels.variables, levels.denominator
        true = measure.figures.totals[at].astype(object) * unit
        below, above = true - measure.low[at].astype(object) * unit, measure.high[at].astype(object) * unit - true
        found[at] = (measure.low[at] < measure.high[at]) & (above >= levels.upper) & (below >= levels.lower)
        return found


def _worst(observed: Sequence[Fraction], *, greatest: bool) -> int | float | None:
    if not observed:
        return None
    found = max(observed) if greatest else min(observed)
    return int(found) if found.denominator == 1 else float(found)


@dataclass(frozen=True, kw_only=True, repr=False)
class MinimumFrequency(PrimaryRule):
    """Each published cell with contributors has at least n of them; observed = least number of a published cell.

    Parameters
    ----------
    at_least : int
        n; a cell with 0 < N < n is unsafe, one of n contributors is safe.
    protect : {"masked", "exact", "percent"}
        How far an attacker must be kept from the count of a suppressed cell.

    Examples
    --------
    >>> MinimumFrequency(at_least=10)
    MinimumFrequency(at_least=10)
    """

    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 5; AI-SDC/ACRO"
    threat = "A count of 1 or 2 shows what single persons have; a sum over them shows their values."
    formula = "min over published cells with N > 0 of N >= n"
    protects_nobody_at = 1
    choose = (
        "10 for outputs of research (ACRO), more than 7 with rounding to 5 (OpenSAFELY), 3 in official statistics. "
        "Some tools mean N <= 3 by a threshold of 3; here that is at_least: 4."
    )

    at_least: Annotated[int, Ge(1), Stricter("larger"), Doc("n: least number of contributors of a published cell")]
    protect: Annotated[
        Literal["masked", "exact", "percent"],
        Doc("masked: no more is learnt than from the mask '1 to n-1'; exact: two values are possible"),
    ] = "masked"
    percent: Annotated[float | None, Ge(0), Doc("with `protect: percent`: of N, possible above and below")] = None
    zeros: Annotated[Safety, Doc("unsafe: empty cells are suppressed as well")] = "safe"
    structural: Annotated[
        tuple[dict[str, str], ...], Doc("cells that everyone knows to be empty, as label by column")
    ] = ()
    count: Annotated[Literal["contributors", "nonzero"], Doc("nonzero: contributors whose contribution is not 0")] = (
        "contributors"
    )
    population: Annotated[bool, Doc("compare sums of weights with n, not contributors in the sample")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.protect == "percent") != (self.percent is not None):
            raise UsageError("MinimumFrequency: `protect: percent` and `percent` belong together")
        assert self.rule is not None

    @property
    def rule(self) -> primary_rules.Rule:
        return self._rule

    @property
    def _rule(self) -> primary_rules.MinimumFrequency:
        return primary_rules.MinimumFrequency(
            at_least=self.at_least,
            protect={"percent": self.percent} if self.protect == "percent" else self.protect,
            zeros=self.zeros,
            structural=self.structural,
            count=self.count,
            population=self.population,
        )

    @property
    def least(self) -> int:
        return self.at_least

    def _speaks_of(self, figures: CellFigures) -> bool:
        return True

    def rule_of(self, figures: CellFigures) -> primary_rules.Rule:
        # With the mean, the variance of two contributors shows both values.
        if not figures.squares:
            return self._held(self.rule)
        return self._held(replace(self._rule, at_least=max(self.at_least, LEAST_SPREAD)))

    def around(self) -> int:
        return self.at_least

    def names(self, table: Table) -> list[str]:
        """Names of the extremes, quantiles and modes that it judges: values of persons, not of holdings."""
        if self.holding is not None:
            return []
        return [
            name
            for name, statistic in table.statistics.items()
            if self.response is None or self.response in (name, *statistic.response.columns)
        ]

    def statistics(self, table: Table) -> Iterator[tuple[str, Bools]]:
        for name in self.names(table):
            yield name, table.statistics[name].unsafe(self.at_least)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(at_least=10), cls(at_least=1), cls(at_least=3, protect="exact")]


@dataclass(frozen=True, kw_only=True, repr=False)
class ConcentrationRule(PrimaryRule):
    """A guarantee on the largest contributions of each published sum; its thresholds are in no public document."""

    weights: Annotated[
        Weights,
        Doc(
            "replicate: weight w counts as w equal contributions; sample: unweighted ones; known: readers know weights"
        ),
    ] = "replicate"
    negative: Annotated[
        Negative,
        Doc("negative contributions: refuse; absolute: all figures from absolute values; frequency: not judged here"),
    ] = "refuse"
    zero_sums: Annotated[Safety, Doc("cells whose contributors all contribute 0")] = "unsafe"

    def _of(self, kind: type[primary_rules.Concentration], **own: Any) -> primary_rules.Rule:
        return kind(weights=self.weights, negative=self.negative, zero_sums=self.zero_sums, **own)


@dataclass(frozen=True, kw_only=True, repr=False)
class Dominance(ConcentrationRule):
    """The n largest contributors have at most a share k of each published sum; observed = greatest share.

    Parameters
    ----------
    contributors : int
        n, 1 to 10.
    at_most : float
        k, a share; equality is safe.

    Examples
    --------
    >>> Dominance(contributors=2, at_most=0.85)
    Dominance(contributors=2, at_most=0.85)
    """

    threshold_field = "at_most"
    withheld: ClassVar[tuple[str, ...]] = ("contributors", "at_most")
    worst_is_greatest: ClassVar[bool] = True
    observes = float
    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 4.2.2"
    threat = "Where one contributor has nearly all of a sum, the sum shows its value."
    formula = "x1 + ... + xn <= k X"
    choose = "Prefer p_percent; a (2, k) rule implies p = 100 (1 - k)/k and hides more than that needs."

    contributors: Annotated[int, Ge(1), Le(10), Doc("n: the largest contributors that are looked at together")]
    at_most: Annotated[float, Gt(0), Lt(1), Doc("k: their share of the sum")]

    @property
    def rule(self) -> primary_rules.Rule:
        return self._of(primary_rules.Dominance, contributors=self.contributors, at_most=self.at_most)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(contributors=1, at_most=0.85), cls(contributors=2, at_most=0.9)]


@dataclass(frozen=True, kw_only=True, repr=False)
class PPercent(ConcentrationRule):
    """No contributor can estimate another's value to within p percent of it; observed = least percentage.

    Parameters
    ----------
    at_least : float
        p; equality is safe.
    coalition : int
        Contributors that pool what they know, 1 to 9.

    Examples
    --------
    >>> PPercent(at_least=10, response="cost")
    PPercent(response='cost', at_least=10.0)
    """

    withheld: ClassVar[tuple[str, ...]] = ("at_least", "coalition")
    observes = float
    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 4.2.2"
    threat = "The second largest contributor takes its own value from the sum and knows the largest."
    formula = "X - x1 - ... - x(c+1) >= p/100 x1"
    choose = "10 (ACRO), together with minimum_frequency of at least 3."

    at_least: Annotated[float, Gt(0), Doc("p: percent of the largest contribution that must stay unknown")]
    coalition: Annotated[int, Ge(1), Le(9), Doc("contributors that pool what they know")] = 1

    @property
    def rule(self) -> primary_rules.Rule:
        return self._of(primary_rules.PPercent, at_least=self.at_least, coalition=self.coalition)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(at_least=10), cls(at_least=25, coalition=2)]


@dataclass(frozen=True, kw_only=True, repr=False)
class PriorPosterior(ConcentrationRule):
    """No one who knew every contribution to within q percent can estimate one to within p; observed = least percentage.

    Parameters
    ----------
    p, q : float
        Percent, 0 < p < q; equality is safe.

    Examples
    --------
    >>> PriorPosterior(p=10, q=50)
    PriorPosterior(p=10.0, q=50.0)
    """

    threshold_field = "p"
    withheld: ClassVar[tuple[str, ...]] = ("p", "q")
    observes = float
    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 4.2.2"
    threat = "A competitor with an estimate of every value makes it precise by a published sum."
    formula = "X - x1 - x2 >= p/q x1"
    choose = "The p percent rule with 100 p / q; use it where q is agreed with those who contribute."

    p: Annotated[float, Gt(0), Doc("percent to which no value may be estimated from the table")]
    q: Annotated[float, Gt(0), Doc("percent to which every value is known beforehand")]

    @property
    def rule(self) -> primary_rules.Rule:
        return self._of(primary_rules.PriorPosterior, at_least=self.p, prior=self.q)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.p < self.q:
            raise UsageError("PriorPosterior: p must be below q: a reader knew each value to q percent before")

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(p=10, q=50)]


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupDisclosure(CellGuarantee):
    """No published group has all its members but k in one published cell; observed = number of pairs that do.

    Parameters
    ----------
    known : int
        k members that know themselves, or that an attacker knows.
    columns : tuple of str, optional
        Dimensions that are attributes. Default: those with the role `sensitive`.
    share : float, optional
        A cell with at least this share of its group is a failure as well.

    Examples
    --------
    >>> GroupDisclosure(columns=["illness"])
    GroupDisclosure(columns=('illness',))
    """

    threshold_field = "at_most"
    source = "Hundepool et al., Handbook on Statistical Disclosure Control, 2nd ed., 5.2"
    threat = "If all members of a group are in one cell, its attribute is known of each of them."
    formula = "number of (group P, cell C) with N_P > k and N_P - N_C <= k"
    choose = "known: 0, or 1 where members may reveal the others; for attributes that are a secret."
    primary = True

    known: Annotated[int, Ge(0), Stricter("larger"), Doc("k: members whose attribute an attacker knows")] = 0
    columns: Annotated[tuple[str, ...], Doc("dimensions that are attributes; left out: those with role sensitive")] = ()
    share: Annotated[
        float | None,
        Gt(0),
        Le(1),
        Stricter("smaller"),
        Doc("largest share of a group that one cell may have, exclusive"),
    ] = None
    allowed: Annotated[tuple[dict[str, str], ...], Doc("cells that are not secret, as label by column")] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("columns", "allowed"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def demanded(self) -> Any:
        return 0

    def levels(self, table: Table, sensitive: Sequence[str]) -> Levels | None:
        """Levels of the hidden cell of each pair that fails: of the child, or of a group that is hidden instead."""
        rule = self._rule(table, sensitive)
        if rule is None:
            return None
        figures, hidden = table.measures[COUNT].figures, table.measures[COUNT].hidden
        made = rule.levels(figures)
        shown_child = ~hidden[made.variables]
        child, group = rule.pairs(figures)
        instead = ~hidden[child] & hidden[group]
        counts = figures.contributors
        need = counts[child] + self.known + 1 - counts[group]
        nothing = np.zeros(int(instead.sum()), dtype=np.int64)
        groups = Levels(group[instead], nothing, np.maximum(need[instead], 0), nothing.copy())
        kept = ~shown_child
        own = Levels(made.variables[kept], made.lower[kept], made.upper[kept], made.span[kept], made.denominator)
        return merged_levels([own, groups])

    def children(self, table: Table, sensitive: Sequence[str]) -> Bools:
        """Cells that are hidden for this guarantee where their groups stay published."""
        rule = self._rule(table, sensitive)
        return np.zeros(len(table), dtype=np.bool_) if rule is None else rule.unsafe(table.measures[COUNT].figures)

    def _rule(self, table: Table, sensitive: Sequence[str]) -> group_disclosure.GroupDisclosure | None:
        return self.rule_of(table.cells, sensitive)

    def rule_of(self, cells: Cells, sensitive: Sequence[str]) -> group_disclosure.GroupDisclosure | None:
        """The rule for cells of a table; None if it has no dimension that is an attribute."""
        dimensions = [dimension.name for dimension in cells.dimensions]
        columns = [name for name in (self.columns or tuple(sensitive)) if name in dimensions]
        if not columns:
            return None
        return group_disclosure.GroupDisclosure(
            known=self.known, columns=columns, share=self.share, allowed=self.allowed
        )

    def require_dimensions(self, tables: Sequence[Cells]) -> None:
        """Refuse a column that is a dimension of no table: nothing would be judged along it.

        Raises
        ------
        UsageError
        """
        names = [dimension.name for cells in tables for dimension in cells.dimensions]
        for column in self.columns:
            if column not in names:
                raise UsageError(
                    f"group_disclosure: {column!r} is not a dimension of a table that it judges"
                    f"{did_you_mean(column, names)}"
                )

    def judge(self, tables: TableSet) -> Verdict:
        failing = judged = 0
        self.require_dimensions([table.cells for table in tables.chosen(self.tables).values()])
        for table, shown in _shown_by_any(tables, tables.chosen(self.tables)):
            rule = self._rule(table, tables.sensitive)
            if rule is not None:
                failing += rule.observed(table.measures[COUNT].figures, shown)
                judged += int((shown & (table.measures[COUNT].figures.contributors > 0)).sum())
        return self.verdict(failing, judged)

    def verdict(self, failing: int, judged: int) -> Verdict:
        """The verdict on a number of published cells; an error if there are none."""
        compared = (Comparison(judged, judged, "published cells with contributors were judged"),)
        if not judged:
            why = "no table has one of its columns; name `columns`, or give a dimension the role sensitive"
            return Verdict(self, None, "error", 0, reason=f"nothing was judged: {why}.", compared=compared)
        position = (
            "are in one cell but for those known" if self.share is None else "are in one cell, or nearly all of them"
        )
        return Verdict(
            self,
            failing,
            outcome="fail" if failing else "pass",
            threshold=0,
            failing_classes=failing,
            reason=f"of {failing:,} published groups all members {position}; {judged:,} cells were judged.",
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(columns=("illness",)), cls(known=1, columns=("illness",), share=0.9)]


def _shown_by_any(tables: TableSet, chosen: Mapping[str, Table]) -> Iterator[tuple[Table, Bools]]:
    """Tables, and which cells this release or an earlier one publishes the contributors of."""
    found = counted_together(tables, chosen) if tables.history else None
    for table in chosen.values():
        shown = ~table.measures[COUNT].hidden
        if found is not None and COUNT in table.shown_measures:
            names = [each.name for each in found.tables[: found.new]]
            shown = shown | found.before[found.cells.variables[names.index(table.name)]]
        yield table, shown

"""Guarantees on related tables: how many persons, and which of their values, an intruder is left with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools
from privpipe.blocks.facts import Facts
from privpipe.blocks.guarantee import MEETS, Direction, short
from privpipe.blocks.marks import LargestShare, LeastNumber
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.requests import VALUE
from privpipe.blocks.verdict import Comparison, Demand, Severity, Verdict
from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.relations.counting import MOST_KNOWN, CountedSet, Groups, Knows, RelatedTables, Sensitive
from privpipe.relations.schema import table_and_column

__all__ = ["JointAlpha", "JointGuarantee", "JointKAnonymity", "JointLDiversity", "JointTCloseness"]


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class JointGuarantee(Demand):
    """A requirement on related tables, for every person an intruder may look for.

    An intruder knows the quasi-identifiers of a person's root row and, of each other table, some of the person's
    rows. Subclasses compute the figure of a group: all persons who match the same knowledge.
    """

    threshold_field: ClassVar[str]
    direction: ClassVar[Direction] = "at_least"
    observes: ClassVar[object] = int

    knows: Annotated[
        Mapping[str, Knows] | None,
        Doc("rows of each table that an intruder knows: 0 to 3, or all; left out: 1 where there are quasi-identifiers"),
    ] = field(default=None, hash=False)
    row_counts: Annotated[bool, Doc("whether it is known how many rows of each table a person has")] = False
    severity: Annotated[Severity, Doc("`fail`: no release where it does not hold; `warn`: the verdict warns of it")] = (
        "fail"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (self.knows or {}).items():
            if most != "all" and (isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= MOST_KNOWN):
                raise UsageError(f"{self.name()}: knows: {name}: must be 0 to {MOST_KNOWN}, or all")

    @property
    def sensitive(self) -> Sensitive | None:
        """The table and column whose values are judged, if any."""
        return None

    def demanded(self) -> Any:
        """The threshold."""
        return getattr(self, self.threshold_field)

    @abstractmethod
    def figures(self, groups: Groups, facts: Facts) -> Any:
        """The figure of each group that has one, ndarray of shape (n,) or, where some have none, fewer."""

    def judged_groups(self, groups: Groups) -> Bools:
        """Which groups have a figure."""
        return np.ones(len(groups.sizes), np.bool_) if self.sensitive is None else groups.valued

    def score(self, groups: Groups, facts: Facts) -> tuple[Any, Bools]:
        """Figures of the groups that have one, and which of all groups fail."""
        figures, threshold = self.figures(groups, facts), self.demanded()
        failing = np.zeros(len(groups.sizes), np.bool_)
        if threshold is not None:
            failing[self.judged_groups(groups)] = ~MEETS[self.direction](figures, threshold)
        return figures, failing

    def judge(self, related: RelatedTables) -> Verdict:
        """The verdict on related tables before they are released.

        Raises
        ------
        DataError
            Keys that are missing or repeated, rows that belong to no person.
        UsageError
            It does not apply to these tables.
        UnsupportedError
            There are more combinations of rows than are counted.
        """
        return self.verdict(
            related.judged(self.score, self.knows, row_counts=self.row_counts, sensitive=self.sensitive)
        )

    def judge_alone(self, related: RelatedTables) -> Verdict:
        """The least favourable verdict on a single table, where readers get no key by which rows can be joined.

        Without a key, rows of one person cannot be put together: an intruder knows the root's row, or one row of
        another table. A sensitive column is judged in its own table.

        Raises
        ------
        DataError, UsageError, UnsupportedError
            As of `judge`.
        """
        tree = related.tree
        names = [self.sensitive[0]] if self.sensitive else [tree.root, *tree.children]
        found = {}
        for name in names:
            if self.sensitive or tree.tables[name].quasi_identifiers:
                known = {} if name == tree.root or not tree.tables[name].quasi_identifiers else {name: 1}
                found[name] = replace(self, knows=known, row_counts=False).judge(related.alone(name))
        if not found:
            raise UsageError(f"{self.name()}: no table has a quasi-identifier, so nothing can be judged")
        worst = min(found, key=lambda name: self._standing(found[name]))
        of = f"each table by itself; least favourable is {worst!r}: " if len(found) > 1 else f"table {worst!r} alone: "
        return replace(found[worst], entry=self, reason=of + found[worst].reason)

    def _standing(self, verdict: Verdict) -> tuple[bool, float]:
        """Verdicts in order, the least favourable first."""
        if verdict.observed is None:
            return verdict.outcome == "pass", -np.inf
        return verdict.outcome == "pass", float(verdict.observed) * (1 if self.direction == "at_least" else -1)

    def verdict(self, counted: CountedSet) -> Verdict:
        """The verdict over the counted groups; an error if there are none."""
        tally = counted.tally
        observed = tally.least if self.direction == "at_least" else tally.most
        compared = (Comparison(counted.persons, counted.persons, "persons were judged"),)
        if not tally.groups:
            return self.not_judged("no person has a value to judge", compared=compared)
        asked = self.demanded()
        required = "" if asked is None else f", required {self.direction.replace('_', ' ')} {short(asked)}"
        fails = (
            f"; {counted.failing:,} of {counted.persons:,} persons fail, by {tally.failing:,} of {tally.groups:,} "
            "groups"
            if tally.failing
            else f", over {tally.groups:,} groups of {counted.persons:,} persons"
        )
        return Verdict(
            self,
            observed,
            outcome="fail" if tally.failing else "pass",
            threshold=asked,
            failing_classes=tally.failing,
            failing_records=counted.failing,
            failing_share=counted.failing / counted.persons,
            reason=f"observed {short(observed)}{required}{fails}.",
            compared=compared,
        )

    def discloses_source(self, rules: PublicRules) -> bool:
        """Figures rest on keys that may not be released: the public edition shows only outcomes."""
        return True


@dataclass(frozen=True, kw_only=True, repr=False)
class JointKAnonymity(JointGuarantee):
    """Whatever an intruder knows about a person matches at least k persons; observed = the least number.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least number is reported.
    knows : mapping of str to int or "all", optional
        For each table but the root, the rows of a person that an intruder knows at most, 0 to 3; `all`: all rows, and
        that there are no more. Default: 1 for each table with a quasi-identifier.
    row_counts : bool
        The intruder also knows how many rows of each table the person has.

    Notes
    -----
    Counted in persons: one with forty equal visits is one. A person without rows of a table is known by nothing
    there. With nothing known of other tables it is `k_anonymity` of the root; with `all` of one table,
    `household_k_anonymity`; with one table and no quasi-identifier in the root, k^m-anonymity.

    Examples
    --------
    >>> model = JointKAnonymity(k=2)
    >>> figures, failing = model.score(Groups(np.array([3, 1])), Facts())
    >>> figures.tolist(), failing.tolist()
    ([3, 1], [False, True])
    """

    threshold_field = "k"
    source = (
        "Nergiz, Clifton, Nergiz, Multirelational k-anonymity, IEEE TKDE 21(8), 2009; Terrovitis, Mamoulis, Kalnis, "
        "PVLDB 1(1), 2008"
    )
    threat = "An intruder who knows a few rows of a person in several tables finds the person."
    formula = "min over persons p, picks S of up to m rows of p, of the persons with the same root and S"
    choose = "k = 5 with one row known of each table; two of tables whose rows colleagues see."

    k: Annotated[LeastNumber, Doc("least number of persons who match the same knowledge")] = None

    def figures(self, groups: Groups, facts: Facts) -> Any:
        return groups.sizes

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=1), cls(k=2, knows={"visits": 2}), cls(k=3, knows={"visits": "all"}, row_counts=True)]


@dataclass(frozen=True, kw_only=True, repr=False)
class _OfColumn(JointGuarantee):
    """A joint guarantee on a sensitive column, in whatever table it is."""

    column: Annotated[str, Doc("table and sensitive column, as in drugs.substance")]

    def __post_init__(self) -> None:
        super().__post_init__()
        table_and_column(self.name(), self.column)

    @property
    def sensitive(self) -> Sensitive:
        return table_and_column(self.name(), self.column)


@dataclass(frozen=True, kw_only=True, repr=False)
class JointLDiversity(_OfColumn):
    """Persons who match the same knowledge have at least `l` values of a column; observed = the least number.

    Parameters
    ----------
    column : str
        Table and column, as in ``drugs.substance``; never known to the intruder. A missing value is one more value.
    l : int, optional
        At least 1. Left out (under `measures:`), the least number is reported.
    knows, row_counts
        As of `JointKAnonymity`.

    Notes
    -----
    A value counts where at least one person of the group has a row with it; groups in which no person has any row of
    the column are not judged.

    Examples
    --------
    >>> groups = Groups(np.array([3]), np.array([0, 2]), np.array([0, 1]), np.array([3, 1]))
    >>> JointLDiversity(column="drugs.substance", l=3).score(groups, Facts())[0].tolist()
    [2]
    """

    threshold_field = "l"
    source = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, l-Diversity, ACM TKDD 1(1), 2007"
    threat = "An intruder who knows some rows of a person learns a value that all such persons have."
    formula = "min over groups of the number of values that some person of the group has"
    choose = "l = 2 rules out certainty; prefer `joint_alpha` where one value is frequent."

    l: Annotated[LeastNumber, Doc("least number of values")] = None

    def figures(self, groups: Groups, facts: Facts) -> Any:
        return np.diff(groups.offsets)[groups.valued]

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="patients.illness"), cls(column="patients.illness", l=2)]


@dataclass(frozen=True, kw_only=True, repr=False)
class JointAlpha(_OfColumn):
    """No value of a column is held by more than a share `alpha` of the persons who match the same knowledge.

    Parameters
    ----------
    column : str
        Table and column, as in ``drugs.substance``; never known to the intruder.
    alpha : float, optional
        In (0, 1]. Left out (under `measures:`), the largest share is reported.
    knows, row_counts
        As of `JointKAnonymity`.

    Notes
    -----
    Persons without a row of the column count in the size of the group. A person may have several values.

    Examples
    --------
    >>> groups = Groups(np.array([4]), np.array([0, 2]), np.array([0, 1]), np.array([3, 1]))
    >>> JointAlpha(column="drugs.substance", alpha=0.5).score(groups, Facts())
    (array([0.75]), array([ True]))
    """

    threshold_field = "alpha"
    direction = "at_most"
    observes = float
    source = "Wong, Li, Fu, Wang, (alpha, k)-anonymity, KDD 2006"
    threat = "An intruder who knows some rows of a person learns a value that most such persons have."
    formula = "max over groups and values of n_v / n <= alpha"
    choose = "0.5: no value may be likelier than not; next to `joint_k_anonymity`."

    alpha: Annotated[LargestShare, Doc("largest share of the persons of a group with one value")] = None

    def figures(self, groups: Groups, facts: Facts) -> Any:
        valued = groups.valued
        if not valued.any():
            return np.zeros(0)
        most = np.maximum.reduceat(groups.counts, groups.offsets[:-1][valued])
        return most / groups.sizes[valued]

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="patients.illness"), cls(column="patients.illness", alpha=0.5)]


@dataclass(frozen=True, kw_only=True, repr=False)
class JointTCloseness(_OfColumn):
    """Persons who match the same knowledge have values within distance `t` of those of all; observed = the largest.

    Parameters
    ----------
    column : str
        Table and column, as in ``drugs.substance``; never known to the intruder. A missing value is one more value.
    t : float, optional
        In [0, 1]. Left out (under `measures:`), the largest distance is reported.
    distance : {"equal", "ordered"}
        Earth mover's distance with all values equally far apart, or along their order: numbers by value, dates by
        time, texts by code points.
    knows, row_counts
        As of `JointKAnonymity`.

    Notes
    -----
    Shares are of pairs of a person and a value, in the group and among all persons of the set.

    Examples
    --------
    >>> groups = Groups(np.array([2]), np.array([0, 1]), np.array([0]), np.array([2]))
    >>> facts = Facts(extra={VALUE: np.array([0.5, 0.5])})
    >>> JointTCloseness(column="drugs.substance", t=0.2).score(groups, facts)
    (array([0.5]), array([ True]))
    """

    threshold_field = "t"
    direction = "at_most"
    observes = float
    source = "Li, Li, Venkatasubramanian, t-Closeness, ICDE 2007"
    threat = "An intruder who knows some rows of a person learns more than the whole set shows."
    formula = "EMD(q, p) <= t in each group; q its shares, p those of all persons"
    choose = "0.2 to 0.3 with equal distance, 0.1 to 0.2 with ordered."

    t: Annotated[LargestShare, Doc("largest distance of a group's values from those of all persons, 0 to 1")] = None
    distance: Annotated[Literal["equal", "ordered"], Doc("equal (all values equally far apart) or ordered")] = "equal"

    def figures(self, groups: Groups, facts: Facts) -> Any:
        from privpipe.kernels.classes.distance import emd_equal_by_class, emd_ordered_by_class

        valued = groups.valued
        if not valued.any():
            return np.zeros(0)
        offsets = np.append(groups.offsets[:-1][valued], len(groups.codes))
        held = facts.extra[VALUE] > 0  # a value only of rows without a person is not a step between others
        codes = (np.cumsum(held) - 1)[groups.codes]
        compute = emd_equal_by_class if self.distance == "equal" else emd_ordered_by_class
        return compute(offsets, codes, groups.counts, facts.extra[VALUE][held])

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="patients.illness"), cls(column="patients.illness", t=0.3, distance="ordered")]

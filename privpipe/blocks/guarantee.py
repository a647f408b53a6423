"""`Guarantee`: the base class of privacy models and of measures with a threshold, and an entry as a check of one data
frame; rules on the names of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import Cells, ClassBlock, DistinctBlock, Tally, added
from privpipe.blocks.facts import Facts
from privpipe.blocks.marks import BaseDistribution, Columns, Household, KeyColumns, SensitiveColumn, Stricter, Weight
from privpipe.blocks.parameters import COMMON_KEYS
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.verdict import Demand, Severity, Verdict
from privpipe.blocks.way import CLASSES, COLUMNS, PAIRS, CountedOver, Over, Way
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.roles import EmptyRule, NullRule, Roles, not_text
from privpipe.tolerance import at_least, at_most, below
from privpipe.wired import room_above

__all__ = [
    "COMMON_KEYS",
    "MEETS",
    "CheckFace",
    "CheckOptions",
    "ClassModel",
    "ColumnRule",
    "Direction",
    "Guarantee",
    "one_class",
    "prepared",
    "require_columns",
    "short",
]


Direction = Literal["at_least", "at_most", "below"]
MEETS = {"at_least": at_least, "at_most": at_most, "below": below}


class CheckOptions(TypedDict, total=False):
    """The keyword arguments of a check of a frame; each may be left out or None.

    Parameters
    ----------
    quasi_identifiers, sensitive : sequence of str
        Roles of columns; a column that an entry names as its own needs none.
    roles : Roles or mapping
        All roles at once, instead of the two: then a column, or a named index level, without a role is an error, and
        an identifier a fail of `no_identifiers`.
    undeclared : {"refuse", "note"}
        Whether a column without a role is an error, or a note. Default: an error where `roles` are given.
    original : path or frame
        The table the frame was made from: base distributions, and the other half of pair measures.
    align : {"record_id", "position"}
        How pairs with the original are formed.
    population : path or frame
        The table of all persons a record could be of, generalized as the frame is.
    record_id, person_id, household_id : str
    nulls : {"own_value", "wildcard", "refuse"}
    mark : str
        The suppression mark; default ``*``.
    empty : {"refuse", "pass"}
        Whether a frame without records is an error, or passes with a note, as an empty batch of a stream may; what it
        observes is None.
    hierarchies : mapping of column to Hierarchy, builder mapping or path of a CSV file
    seed : Seed, text or bytes of at least 128 bits, or ``{"from_env": NAME}``
        Fixes which records an attack samples.
    engine : str, Engine or DuckDB connection
    """

    quasi_identifiers: Sequence[str] | None
    sensitive: Sequence[str] | None
    roles: Roles | Mapping[str, Any] | None
    undeclared: Literal["refuse", "note"] | None
    original: Any
    align: Literal["record_id", "position"] | None
    population: Any
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None
    empty: EmptyRule | None
    hierarchies: Mapping[str, Any] | None
    seed: Seed | str | bytes | Mapping[str, Any] | None
    engine: Any


class CheckFace:
    """The public method of every guarantee and measure; higher layers implement it."""

    def assess(self, frame: Any, **options: Unpack[CheckOptions]) -> Verdict:
        """Judge one frame by only this entry.

        Parameters
        ----------
        frame : path, or pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame
            A finished table.
        options : see `CheckOptions`

        Returns
        -------
        Verdict
            Also when it fails; that of `no_identifiers` where the frame holds an identifier. Of an entry without a
            threshold: what it observed.

        Raises
        ------
        UsageError, DataError

        Examples
        --------
        >>> import pandas as pd
        >>> from privpipe.models import KAnonymity
        >>> frame = pd.DataFrame({"zip": ["081", "081", "082"]})
        >>> verdict = KAnonymity(k=2).assess(frame, quasi_identifiers=["zip"])
        >>> verdict.outcome, verdict.observed, verdict.failing_records
        ('fail', 1, 1)
        """
        verdict: Verdict = room_above("checks").judged_alone(self, frame, options)
        return verdict


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(CheckFace, Demand):
    """Something a policy can require of a table.

    Subclasses declare what they read (`way`, one of `privpipe.blocks.way`) and which field is the threshold that makes
    them a gate (`threshold_field`; None when they have no form without one), and implement measure, merge and judge.
    One that `trusts_values` means nothing if a stage perturbed the quasi-identifiers; its reader is warned.
    """

    over_frame: ClassVar[str] = ".assess(frame, quasi_identifiers=[...])"
    way: ClassVar[Way] = CLASSES
    threshold_field: ClassVar[str | None] = None
    direction: ClassVar[Direction] = "at_most"
    needs_base: ClassVar[bool] = False
    needs_records: ClassVar[bool] = False
    other_thresholds: ClassVar[tuple[str, ...]] = ()
    """Fields that are the threshold of some of its figures instead; an instance knows which is its own."""
    needs_population: ClassVar[bool] = False
    judges_matching: ClassVar[bool] = False
    trusts_values: ClassVar[bool] = False
    gives_record_figures: ClassVar[bool] = False
    protects_nobody_at: ClassVar[float | None] = None
    """A threshold that does not protect, and with it every looser one."""
    observes: ClassVar[object] = Any
    """The type of its figure, as in ``dict[str, float]``; None in it: the figure can have no bound."""

    quasi_identifiers: Annotated[
        KeyColumns, Doc("columns that form the classes; left out: all of the policy, empty: one class")
    ] = None
    severity: Annotated[
        Severity, Stricter("fail"), Doc("`fail`: no release where it does not hold; `warn`: the verdict warns of it")
    ] = "fail"

    def __post_init__(self) -> None:
        """Check what all guarantees share; a subclass with its own checks calls this first.

        Raises
        ------
        UsageError
            Quasi-identifiers that are not a list of distinct names, or that hold the guarantee's own column.
        """
        super().__post_init__()
        names = self.quasi_identifiers
        if names is not None:
            if not isinstance(names, str) and (wrong := not_text(names)):
                raise UsageError(f"{self.name()}: quasi_identifiers: {wrong}")
            if isinstance(names, str):
                raise UsageError(f"{self.name()}: quasi_identifiers must be a list of column names")
            if len(set(names)) < len(names):
                raise UsageError(f"{self.name()}: quasi_identifiers name a column twice")
            object.__setattr__(self, "quasi_identifiers", tuple(names))
        for column in self.sensitive_columns():
            if column in (self.quasi_identifiers or ()):
                raise UsageError(
                    f"{self.name()}: {column!r} cannot be judged within classes that it forms itself; "
                    "take it out of quasi_identifiers"
                )

    def hold_columns(self, field: str = "columns", *, as_keys: bool = False) -> None:
        """Store the columns that a field names as a tuple; None stays None.

        Parameters
        ----------
        as_keys : bool
            They are the quasi-identifiers too.

        Raises
        ------
        UsageError
            Not a list of distinct names, or an empty one; other quasi-identifiers.
        """
        owner, given = type(self).__name__, getattr(self, field)
        if given is None:
            return
        names = require_columns(owner, given)
        object.__setattr__(self, field, names)
        if as_keys:
            if self.quasi_identifiers not in (None, names):
                raise UsageError(f"{owner}: quasi_identifiers and columns name different sets; give only columns")
            object.__setattr__(self, "quasi_identifiers", names)

    def sensitive_columns(self) -> tuple[str, ...]:
        """Sensitive columns whose values the guarantee counts."""
        return self.columns_marked(SensitiveColumn)

    def weight_column(self) -> str | None:
        """Column with the sampling weight of a record."""
        return next(iter(self.columns_marked(Weight)), None)

    def household_column(self) -> str | None:
        """Column that distinguishes households; counted within classes, by the code of each household."""
        return next(iter(self.columns_marked(Household)), None)

    def own_columns(self) -> tuple[str, ...] | None:
        """The columns it is about, where it names them itself."""
        return self.columns_marked(Columns) or None

    def compared_columns(self, roles: Roles) -> tuple[str, ...] | None:
        """The columns by which it compares records; None: it compares none, or asks for its classes elsewhere."""
        return (self.own_columns() or tuple(roles.quasi_identifiers)) if self.way is PAIRS else None

    def base_distribution(self) -> Any:
        """What classes are compared with: ``original``, ``released`` or what an entry makes of a table."""
        return next(iter(self.marked(BaseDistribution)), "original")

    def record_columns(self) -> tuple[str, ...]:
        """Columns about the record itself: of any role, also identifiers, which are in no release."""
        columns = (self.weight_column(), self.household_column())
        return tuple(column for column in columns if column is not None)

    def record_figures(self, records: DistinctBlock, households: Ints | None, matching: bool) -> Mapping[str, Floats]:
        """Figures of single records by name, shape (n,), where it `gives_record_figures`; a row of the block a record.

        `households` numbers those of the records, -1 for none; under `matching` blanks match anything.
        """
        raise TypeError(f"{type(self).__name__} tells no single records")

    def with_roles(self, roles: Roles) -> Self:
        """The same guarantee, with defaults from the table's roles filled in."""
        return self

    def counts_over(self) -> Over | None:
        """What it counts in classes; None: persons where the policy distinguishes them, else records."""
        return None

    def reads_households(self) -> bool:
        """Whether it needs to know who lives together."""
        return self.counts_over() == "households"

    def beside(self, population: bool) -> Self:
        """The same guarantee, where a population is counted next to the table (or none is)."""
        return self

    def key_sets(self, keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """The sets of columns whose classes it judges, given those it stands over."""
        return (keys,)

    def across(self, tallies: Sequence[Tally]) -> Tally:
        """The figures over each of its key sets as one."""
        return tallies[0]

    def counted_columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Columns whose distinct values in the judged table it must know, in addition to the base of sensitive ones."""
        return ()

    def columns_needed(self, keys: tuple[str, ...]) -> set[str]:
        """Columns that the judged table must have, given those it stands over."""
        sets = self.key_sets(keys)
        return set().union(self.sensitive_columns(), self.counted_columns(keys), self.record_columns(), *sets)

    def learn(self, facts: Facts) -> Mapping[str, Any]:
        """What it works out of the facts once, where the run is; joins `facts.extra` before any class is measured."""
        return {}

    def discloses_source(self, rules: PublicRules) -> bool:
        """Whether its figure may rest on more than the policy and the released table: then it is not public.

        Pairs, populations, ledgers and positions are, the distribution it compares with, the number of records that
        were suppressed among, and persons, households or weights that are in no released column.
        """
        if not self.way.of_table or self.needs_records or self.needs_population:
            return True
        if self.needs_base and self.base_distribution() != "released":
            return True
        counted = {*self.record_columns(), *(name for name in (rules.unit(self.counts_over()),) if name)}
        return not counted <= rules.columns

    def is_gate(self) -> bool:
        """Whether a threshold is given, so that the entry judges rather than reports."""
        return self.threshold_field is None or getattr(self, self.threshold_field) is not None

    def demanded(self) -> Any:
        """What `observed` is compared with."""
        return None if self.threshold_field is None else getattr(self, self.threshold_field)

    @property
    def sense(self) -> Direction:
        """`direction`, also where an entry has a parameter of that name."""
        return self.direction

    @property
    def asked(self) -> str:
        """What is required of the figure, as the end of a sentence; empty if it is only reported."""
        return f", required {self.sense.replace('_', ' ')} {short(self.demanded())}" if self.is_gate() else ""

    def meets(self, figure: float) -> bool:
        """Whether a figure meets the threshold; any figure does if it is only reported."""
        return not self.is_gate() or bool(MEETS[self.sense](figure, self.demanded()))

    def judged(self, figure: float, observed: Any, reason: str, **counts: Any) -> Verdict:
        """The verdict by one figure of what was observed; `counts` are further fields of a `Verdict`."""
        return Verdict(
            self, observed, "pass" if self.meets(figure) else "fail", self.demanded(), reason=reason, **counts
        )

    def needs_matching(self) -> str:
        """What of it has a meaning only where blanks match anything (`nulls: wildcard`), or nothing."""
        return ""

    def idle(self) -> str:
        """The threshold in words, where it is so loose that it does not protect; else nothing."""
        field = self.threshold_field
        threshold = None if field is None else getattr(self, field)
        if self.protects_nobody_at is None or threshold is None:
            return ""
        grows = field in ("k", "l", "at_least")  # the larger, the stricter
        loose = threshold <= self.protects_nobody_at if grows else threshold >= self.protects_nobody_at
        return f"{field} = {short(threshold)}" if loose else ""

    def unattainable(self, records: int, facts: Facts) -> str:
        """Why no generalization or suppression of a table of so many records can meet it, or nothing.

        Column values that exist are counted from `facts.histograms` where they are known; a figure that was not
        counted shows nothing.
        """
        return ""

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        """The figure of some whole classes."""
        raise TypeError(f"{type(self).__name__} does not read classes")

    def merge(self, left: Tally, right: Tally) -> Tally:
        """The figure of two sets of classes."""
        raise TypeError(f"{type(self).__name__} does not read classes")

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        """The verdict over the whole table."""
        raise TypeError(f"{type(self).__name__} does not judge")


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassModel(CountedOver, Guarantee):
    """A rule every class must meet by itself.

    Subclasses give `scores` (one figure per class), `direction` (how it must lie to `bound`) and, for a search,
    what follows for finer tables of records: `hereditary` (a failing class has only failing parts), `convex`
    (passing parts merge to a passing whole), `decided_by_minima` (a class passes where it has `least_size` records and
    `least_values` values, whatever they are).
    """

    direction = "at_least"
    hereditary: ClassVar[bool] = False
    convex: ClassVar[bool] = False
    decided_by_minima: ClassVar[bool] = False

    def bound(self) -> float:
        """The number a class's score is compared with."""
        bound: float = self.demanded()
        return bound

    def least_size(self) -> int:
        """Records of the smallest class that can pass: a cheap first test for a search."""
        return self.least_values()

    def least_values(self) -> int:
        """Distinct values of the sensitive column that each class must hold at least."""
        return 1

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        """One figure per class, shape (n_classes,); integers stay integers, infinite is "no number"."""
        raise TypeError(f"{type(self).__name__} scores no classes")

    def passing(self, block: ClassBlock, facts: Facts) -> Bools:
        """Which classes meet the rule, shape (n_classes,); all of them where no threshold is given."""
        if not self.is_gate():
            return np.ones(len(block), dtype=np.bool_)
        meets = MEETS[self.direction](self.scores(block, facts), self.bound())
        return np.asarray(meets, dtype=np.bool_)

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if not len(block):
            return Tally()
        scores = self.scores(block, facts)
        passing = self.passing(block, facts)
        worst = scores.min() if self.direction == "at_least" else scores.max()
        return self.tallied(block, worst.item(), passing)

    def tallied(self, block: ClassBlock, observed: Any, passing: Bools) -> Tally:
        """The figure of a block of which some classes pass."""
        return Tally(
            observed=observed,
            failing_classes=len(block) - int(np.count_nonzero(passing)),
            failing_records=block.records - int(np.dot(block.sizes, passing)),
            classes=len(block),
            records=block.records,
        )

    def merge(self, left: Tally, right: Tally) -> Tally:
        worst = min if self.direction == "at_least" else max
        seen = [tally.observed for tally in (left, right) if tally.observed is not None]
        return Tally(
            observed=worst(seen) if seen else None,
            failing_classes=left.failing_classes + right.failing_classes,
            failing_records=left.failing_records + right.failing_records,
            classes=left.classes + right.classes,
            records=left.records + right.records,
            sums=added(left.sums, right.sums),
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        infinite = isinstance(observed.observed, float) and np.isinf(observed.observed)
        return Verdict(
            self,
            None if infinite else observed.observed,
            outcome="pass" if observed.failing_classes == 0 else "fail",
            threshold=self.demanded(),
            failing_classes=observed.failing_classes,
            failing_records=observed.failing_records,
            failing_share=observed.failing_records / observed.records if observed.records else None,
            reason=self.reason(observed, facts),
        )

    def unattainable(self, records: int, facts: Facts) -> str:
        if not self.is_gate():
            return ""
        least = self.least_values() if facts.unit == "records" else self.least_values().bit_length()  # 2^m - 1 sets
        for column in self.sensitive_columns():
            values = len(facts.histograms[column]) if column in facts.histograms else None
            if values is not None and values < least:
                return f"cannot be met by this table: {column!r} has {values:,} distinct values"
        if records < self.least_size():
            return f"cannot be met by this table: it has {records:,} {facts.unit}"
        return ""

    def needs_suppression(self, records: int, facts: Facts) -> str:
        """Why no generalization alone can meet it, or nothing: not even all records as one class would pass.

        Sound where passing parts merge to a passing whole, so silent otherwise: see `judged_whole`.
        """
        if not self.judged_whole(records, facts):
            return ""
        whole = one_class(records, facts, self.sensitive_columns())
        if self.passing(whole, facts).all():
            return ""
        figures = self.shown_of(whole, facts)
        return f"cannot be met without suppression: all {facts.unit} as one class would have {figures}"

    def shown_of(self, whole: ClassBlock, facts: Facts) -> str:
        """The figure of a single class as a sentence shows it."""
        return short(self.scores(whole, facts).max().item())

    def judged_whole(self, records: int, facts: Facts) -> bool:
        """Whether all records as one class would pass if any classes did, and the facts say how they would fare."""
        known = all(column in facts.histograms for column in self.sensitive_columns())
        own = facts.unit == "records"
        merges = self.fails_in_parts(records=own) or self.passes_merged(records=own)
        return bool(self.is_gate() and known and records and merges)

    def fails_in_parts(self, *, records: bool) -> bool:
        """Whether a class of records (else persons, whose values add up) that fails has only failing parts."""
        return self.hereditary and (records or not self.sensitive_columns())

    def passes_merged(self, *, records: bool) -> bool:
        """Whether passing parts merge to a passing whole; of persons, who are in several parts, it is not a mixture."""
        return self.convex and (records or self.fails_in_parts(records=False))

    def reason(self, observed: Tally, facts: Facts) -> str:
        """One sentence on the figure, and a note where no table of these records could pass."""
        seen = self.seen(observed)
        asked = "" if not self.is_gate() else f", required {self.direction.replace('_', ' ')} {short(self.bound())}"
        if not observed.failing_classes:
            return f"{seen}{asked}; all {observed.classes:,} classes meet it."
        fails = (
            f"{observed.failing_classes:,} of {observed.classes:,} classes, "
            f"{observed.failing_records:,} of {observed.records:,} {facts.unit} fail"
        )
        note = self.unattainable(observed.records, facts) or self.needs_suppression(observed.records, facts)
        return "; ".join(part for part in (f"{seen}{asked}", fails, note) if part) + "."

    def seen(self, observed: Tally) -> str:
        """The observed figure in words."""
        if observed.observed is None:
            return "no class to judge"
        return f"observed {short(observed.observed)}"


def prepared(facts: Facts, entries: Iterable[Guarantee]) -> Facts:
    """The facts with what each entry works out of them; declared hierarchies stay behind, where their files are."""
    extra = dict(facts.extra)
    for entry in entries:
        extra |= entry.learn(facts)
    return replace(facts, extra=extra, hierarchies={})


def one_class(records: int, facts: Facts, columns: tuple[str, ...]) -> ClassBlock:
    """All records as one class, with the value counts of `columns` from the facts."""
    cells = {}
    for column in columns:
        counts = facts.histograms[column].counts
        cells[column] = Cells(np.array([0, len(counts)]), np.arange(len(counts)), counts)
    return ClassBlock(np.array([records], dtype=np.int64), cells)


def short(figure: Any) -> str:
    """A figure as text for a sentence.

    Examples
    --------
    >>> short(32561), short(2 / 3), short(float("inf"))
    ('32,561', '0.666667', 'no number')
    """
    if isinstance(figure, float) and np.isinf(figure):
        return "no number"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.6g}"


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnRule(Guarantee):
    """Judges a table before any cell is read. Subclasses implement `judge_columns`."""

    way = COLUMNS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.binds:
            raise UsageError(f"{self.name()}: severity must be fail: the check is built in and cannot be waived")

    def judge_columns(self, present: Sequence[str], roles: Roles) -> Verdict:
        """The verdict over a table with these columns."""
        raise TypeError(f"{type(self).__name__} judges no columns")


def require_columns(owner: str, columns: object) -> tuple[str, ...]:
    """The names as a tuple.

    Raises
    ------
    UsageError
        Not a list of distinct names, or an empty one.

    Examples
    --------
    >>> require_columns("Distinction", ["age", "zip"])
    ('age', 'zip')
    """
    names = tuple(columns) if isinstance(columns, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{owner}: columns must be a list of column names")
    if len(set(names)) < len(names):
        raise UsageError(f"{owner}: columns name one twice")
    return names

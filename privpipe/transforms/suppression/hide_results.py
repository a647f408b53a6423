"""Hiding of association rules: single cells become missing until none of the listed rules holds."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import Primitives
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.marks import ColumnNames
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.kernels.integer_programs import Limits, minimum
from privpipe.measures.risk.attribute.counted_table import CountedTable
from privpipe.measures.risk.attribute.hidden_results import Rule, Rules, read_result
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.local_suppression.suppress_cells_stage import (
    Blanked,
    BlankGroup,
    apply_blanks,
    combinations_digest,
)

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["HideResults"]

LARGEST_PROGRAM = 2_000
"""Rules, and combinations, up to which an integer program finds the fewest records."""
LARGEST_MATRIX = 50_000_000
"""Rules times combinations that are looked at in one round; further rules wait for the next."""
NODES = 1_000
SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, repr=False)
class HideResults(Transformer):
    """Make cells missing until none of the listed association rules reaches its support and confidence.

    Parameters
    ----------
    results : list of mappings of one kind to its parameters
        ``rule`` and ``rules``, as in `result_privacy`.
    columns : tuple of str, optional
        Columns on the left side of `rules` that name none. Default: all quasi-identifiers.
    method : {"optimal", "greedy"}
        optimal: an integer program finds the fewest records where one list of rules has at most 2,000 of them over at
        most 2,000 combinations; beyond that, and for greedy, the combination in most rules gives up cells first.

    Notes
    -----
    A record that supports a rule loses its cell in the first column of the right side; which records of a combination
    do is drawn by the seed. With the record both sides of the confidence fall, so that no other rule with that right
    side gains; rules with other right sides are looked at again until none holds. The plan has the number of rules,
    of records and of cells, and whether the number of records is proved to be least.

    Examples
    --------
    >>> rule = {"then": {"illness": "hiv"}, "support": 5, "confidence": 0.6}
    >>> HideResults(results=[{"rules": rule}]).method
    'optimal'
    """

    taxon = "non-perturbative"
    columns_rule = "optional"
    withheld: ClassVar[tuple[str, ...]] = ("results",)
    preserves = "truth: every value that stays is the record's own"
    reveals = "that a blank cell was, more likely than not, the right side of a rule"
    source = "Saygin, Verykios, Clifton, SIGMOD Record 30(4), 2001; Verykios et al., IEEE TKDE 16(4), 2004"
    formula = "fewest records with a blank cell such that each rule has support < s or confidence < c"
    choose = "List the rules of result_privacy here; look at `records_changed` before you release."

    results: Annotated[list[Any], Doc("rules to hide: rule and rules, as in result_privacy")]
    columns: Annotated[
        tuple[str, ...] | None, ColumnNames(), Doc("left side of rules without columns; default: all quasi-identifiers")
    ] = None
    method: Annotated[Literal["optimal", "greedy"], Doc("optimal where small enough, or greedy")] = "optimal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.results, str | Mapping) or not isinstance(self.results, Sequence) or not self.results:
            raise UsageError("hide_results: results must be a list of at least one rule")
        object.__setattr__(self, "results", list(self.results))
        self._rules()

    @property
    def needs_ids(self) -> bool:
        return True

    def masked_columns(self) -> tuple[str, ...]:
        return ()

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        rules, keys = self._rules(), self.columns or tuple(context.roles.quasi_identifiers)
        blanked = tuple(dict.fromkeys(_blanked_column(rule) for rule in rules))
        read = tuple(dict.fromkeys((*blanked, *(name for rule in rules for name in rule.columns(keys)))))
        for name in read:
            if name not in context.schema.names:
                raise DataError(f"{context.place}: no column {name!r}{did_you_mean(name, context.schema.names)}")
        if context.nulls == "refuse" and (named := set(blanked) & set(context.roles.quasi_identifiers)):
            raise UsageError(
                f"{context.place}: cells of {min(named)!r} would become missing, and the policy has `nulls: refuse`; "
                "write own_value or wildcard"
            )
        distinct = engine.distinct(table, list(read))
        hiding = _Hiding(CountedTable(distinct, (context.mark,)), keys, blanked)
        figures = hiding.hide(rules, exact=self.method == "optimal")
        digest = combinations_digest(distinct, read, context.seed_key) if distinct.num_rows else ""
        groups = Blanked(read, len(blanked), tuple(hiding.groups()), digest)
        return StagePlan(name=self.name(), parameters=self.stated_parameters(), detail={**groups.to_dict(), **figures})

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        return apply_blanks(engine, table, Blanked.from_dict(plan.detail), draws.of("cells"), context)

    def _rules(self) -> list[Rule | Rules]:
        rules = []
        for at, given in enumerate(self.results, 1):
            result = read_result(f"hide_results: result {at}", given)
            if not isinstance(result, Rule | Rules):
                raise UsageError(
                    f"hide_results: result {at}: {result.kind} cannot be hidden by blank cells; name rules"
                )
            rules.append(result)
        return rules

    @classmethod
    def examples(cls) -> list[Self]:
        flu = {"then": {"illness": "flu"}, "support": 2, "confidence": 0.6}
        return [
            cls(results=[{"rules": flu}]),
            cls(results=[{"rule": {"if": {"sex": "f"}, **flu}}], method="greedy"),
        ]


def _blanked_column(rule: Rule | Rules) -> str:
    return next(iter(rule.then))


@dataclass
class _Hiding:
    """The table in parts: of each its combination, its records, and the columns that are blank in it, as bits."""

    table: CountedTable
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Ints = field(init=False)
    counts: Ints = field(init=False)
    bits: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.rows = np.arange(len(self.table.counts), dtype=np.int64)
        self.counts = self.table.counts.copy()
        self.bits = np.zeros(len(self.rows), dtype=np.int64)

    def hide(self, rules: Sequence[Rule | Rules], *, exact: bool) -> dict[str, Any]:
        """Blank cells until no rule holds; the figures of a plan."""
        hidden, rounds, proved, bound = 0, 0, exact and len(rules) == 1, 0.0
        while True:
            before = hidden
            for rule in rules:
                column = _blanked_column(rule)
                part = self._part()
                wanted = np.flatnonzero(part.matching(rule.then))
                members, excess, whole = _demands(rule, part, self.keys, wanted)
                if not len(excess):
                    continue
                found = _fewest(members, excess, part.counts[wanted], exact=exact)
                proved &= whole and found.proved
                bound = found.bound
                hidden += len(excess)
                self._blank(wanted, found.gone, column)
            rounds += 1
            if hidden == before:
                break
        changed = int(self.counts[self.bits > 0].sum())
        cells = {name: int(self.counts[self.bits >> at & 1 == 1].sum()) for at, name in enumerate(self.columns)}
        optimal = bool(proved and rounds <= 2)
        return {
            "records": self.table.records,
            "rules_hidden": hidden,
            "records_changed": changed,
            "blanked_cells": sum(cells.values()),
            "blanked_by_column": cells,
            "lower_bound": bound if optimal else 0.0,
            "optimal": optimal,
        }

    def groups(self) -> list[BlankGroup]:
        """What became blank."""
        found = np.flatnonzero(self.bits)
        shown = zip(*(each[found].tolist() for each in (self.rows, self.bits, self.counts)), strict=True)
        return [(int(row), int(bits), int(records)) for row, bits, records in shown]

    def _part(self) -> CountedTable:
        blank = {name: np.asarray(self.bits >> at & 1 == 1) for at, name in enumerate(self.columns)}
        return self.table.parts(self.rows, self.counts, blank)

    def _blank(self, places: Ints, gone: Ints, column: str) -> None:
        """Blank a column in a number of records of these parts, which are split where some stay."""
        some = gone > 0
        places, gone, bit = places[some], gone[some], 1 << self.columns.index(column)
        self.counts[places] -= gone
        self.rows = np.concatenate([self.rows, self.rows[places]])
        self.counts = np.concatenate([self.counts, gone])
        self.bits = np.concatenate([self.bits, self.bits[places] | bit])
        kept = self.counts > 0
        self.rows, self.counts, self.bits = self.rows[kept], self.counts[kept], self.bits[kept]


def _demands(rule: Rule | Rules, part: CountedTable, keys: tuple[str, ...], wanted: Ints) -> tuple[Bools, Ints, bool]:
    """Rules that hold: their rows among the wanted ones, shape (rules, wanted), and records to go; whether all are."""
    most = max(1, LARGEST_MATRIX // max(1, len(wanted)))
    found = list(itertools.islice(rule.demands(part, keys), most + 1))
    members = np.array([demand.rows[wanted] for demand in found[:most]], dtype=np.bool_).reshape(
        len(found[:most]), len(wanted)
    )
    return members, np.array([demand.excess for demand in found[:most]], dtype=np.int64), len(found) <= most


@dataclass(frozen=True)
class _Fewest:
    gone: Ints
    proved: bool
    bound: float


def _fewest(members: Bools, excess: Ints, counts: Ints, *, exact: bool) -> _Fewest:
    """Records to take of each combination, so that each rule loses as many as it must."""
    if exact and max(members.shape) <= LARGEST_PROGRAM:
        n, limits = len(counts), Limits(nodes=NODES, seconds=SECONDS)
        rows: Floats = members.astype(np.float64)
        bounds, between = (0.0, counts.astype(np.float64)), (excess.astype(np.float64), np.inf)
        solved = minimum(np.ones(n), rows, between, bounds, np.ones(n, dtype=np.bool_), limits)
        if solved.values is not None:
            gone = np.rint(solved.values).astype(np.int64)
            if (members @ gone >= excess).all() and (gone <= counts).all() and (gone >= 0).all():
                return _Fewest(gone, solved.proved, solved.bound)
    return _Fewest(_greedy(members, excess, counts), False, 0.0)


def _greedy(members: Bools, excess: Ints, counts: Ints) -> Ints:
    """The combination in most rules gives up cells first, as many as the least of these rules still needs."""
    gone, left = np.zeros_like(counts), excess.copy()
    by_combination = np.ascontiguousarray(members.T)
    unhidden = int((left > 0).sum())
    in_rules = members[left > 0].sum(axis=0)
    # A combination is never in more rules than when it was queued: one whose number has changed is queued again.
    queue = list(zip((-in_rules).tolist(), range(len(counts)), strict=True))
    heapq.heapify(queue)
    while unhidden:
        queued, at = heapq.heappop(queue)
        if -queued == in_rules[at]:
            rules = np.flatnonzero(by_combination[at] & (left > 0))
            taken = min(int(counts[at] - gone[at]), int(left[rules].min()))
            gone[at] += taken
            left[rules] -= taken
            hidden = rules[left[rules] <= 0]
            unhidden -= len(hidden)
            in_rules -= members[hidden].sum(axis=0)
        if gone[at] < counts[at]:
            heapq.heappush(queue, (-int(in_rules[at]), at))
    return gone

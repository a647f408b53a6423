"""The guarantee that no hidden cell can be worked out, also by contributors, and its proofs for the private record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import Stricter
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import UsageError
from privpipe.tables import primary_rules
from privpipe.tables.aggregates import CellFigures, exact, rational
from privpipe.tables.aggregation import COUNT
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Insider, Integers, Levels
from privpipe.tables.entries import TableSet, UnionGuarantee
from privpipe.tables.exact_audit import AuditResult, audit
from privpipe.tables.families import Family, merged_levels
from privpipe.tables.guarantees import NO_CELL, GroupDisclosure, PPercent, PrimaryRule, PriorPosterior
from privpipe.tables.primary_rules import OfHoldings, Rule, Settings
from privpipe.tables.table import Table, measures_of
from privpipe.tables.union_families import TooManyClasses, seen_together

__all__ = [
    "TableAudit",
    "audit_problem",
    "audited",
    "contributors_who_know",
    "group_levels",
    "rules_of",
    "stored_proofs",
]


@dataclass(frozen=True)
class _Known:
    """Variables that contributors know, each with a code of the contributor and the bounds that it knows."""

    codes: Integers
    variables: Integers
    low: Integers
    high: Integers


def contributors_who_know(
    family: Family, sensitive: Integers, views: Mapping[str | None, Fraction | None]
) -> tuple[Insider, ...]:
    """Each contributor that knows hidden variables, with the sensitive variables of all.

    Parameters
    ----------
    family : Family
    sensitive : ndarray of int64
        Hidden variables.
    views : mapping of column, or None, to share, or None
        Whose values are contributors, None for those of the table; and the share of the other contributions in a cell
        below which its largest contributor knows the cell to within them; None: only sole contributors know it.
    """
    found = []
    for column, share in views.items():
        known = _known(family, column, share)
        order = np.lexsort((known.variables, known.codes))
        codes = known.codes[order]
        for own in np.split(order, np.flatnonzero(np.diff(codes)) + 1) if len(order) else ():
            variables, place = np.unique(known.variables[own], return_inverse=True)
            low = np.full(len(variables), np.iinfo(np.int64).min)
            high = np.full(len(variables), np.iinfo(np.int64).max)
            np.maximum.at(low, place, known.low[own])
            np.minimum.at(high, place, known.high[own])
            insider = Insider(variables, sensitive, low, high)
            if len(insider.others):
                found.append(insider)
    return tuple(found)


def _known(family: Family, column: str | None, share: Fraction | None) -> _Known:
    """What contributors know, those without a code by the cells that they have in common."""
    figures = [measure.figures if column is None else measure.figures.others[column] for measure in family.measures]
    codes = [_shared_codes(family, figures)] if not _have_codes(family, figures) else None
    parts = []
    for at in range(family.published):
        own, variables = figures[at], family.cells.variables[at]
        hidden = family.measures[at].hidden & family.hidden[variables]
        totals = own.totals
        alone = np.flatnonzero(hidden & (own.single != 0))
        code = own.single[alone] if codes is None else codes[0][variables[alone]]
        parts.append(_Known(code, variables[alone], totals[alone], totals[alone]))
        if share is not None and not own.counting:
            for cells, holders, rest in _dominated(own, hidden & (own.single == 0), share):
                # Of a record with less than half of a cell no other cell is known to be its own.
                half = 2 * rest < own.magnitudes[cells]
                apart = -1 - len(parts) * family.cells.size - variables[cells]
                code = holders if codes is None else np.where(half, codes[0][variables[cells]], apart)
                parts.append(_Known(code, variables[cells], totals[cells] - rest, totals[cells] + rest))
    names = ("codes", "variables", "low", "high")
    return _Known(*(np.concatenate([getattr(part, name) for part in parts]).astype(np.int64) for name in names))


def _have_codes(family: Family, figures: list[CellFigures]) -> bool:
    """Whether one contributor has one code in all cells of all tables."""
    return family.follows_persons or all(own.persons for own in figures)


def _dominated(figures: CellFigures, hidden: Bools, share: Fraction) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Cells of which a contributor has nearly all: their places, its code, and the contributions of all others."""
    values = figures.largest if figures.weighted is None else figures.weighted
    whole = figures.magnitudes
    for rank in range(values.shape[1]):
        rest = whole - values[:, rank]
        few = np.asarray(exact(rest, share.denominator) < exact(whole, share.numerator), dtype=np.bool_)
        cells = np.flatnonzero(hidden & few & (values[:, rank] > 0))
        yield cells, figures.holders[cells, rank], rest[cells]
    if figures.weighted is None:
        last = exact(whole - values[:, -1], share.denominator) < exact(whole, share.numerator)
        figures.taken(np.flatnonzero(hidden & np.asarray(last, dtype=np.bool_))).require(values.shape[1] + 1)


def _shared_codes(family: Family, figures: list[CellFigures]) -> Integers:
    """For each variable a code of its only, or by far largest, contributor, which is a record.

    Codes of records are numbers of leaf cells, so they join cells of only one table. Cells of several tables are those
    of one record where they are one variable, or one is a total of the other and both have the same largest record.
    """
    size = family.cells.size
    start, joined = size, []
    alone, most = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.int64)
    for own, variables in zip(figures, family.cells.variables, strict=True):
        cells = np.flatnonzero(own.single != 0)
        alone[variables[cells]] = True
        _, number = np.unique(own.single[cells], return_inverse=True)
        joined.append((variables[cells], start + number))
        start += int(number.max(initial=-1)) + 1
        value = (own.largest if own.weighted is None else own.weighted).max(axis=1)
        most[variables] = np.where(2 * value > own.magnitudes, value, 0)
    entries = family.cells.relations.tocoo()
    whole = np.full(family.cells.relations.shape[0], -1, dtype=np.int64)
    whole[entries.row[entries.data > 0]] = entries.col[entries.data > 0]
    above, part = whole[entries.row], entries.col.astype(np.int64)
    same = (entries.data < 0) & (above >= 0)
    same &= ((most[above] > 0) & (most[above] == most[part])) | (alone[above] & alone[part])
    joined.append((above[same], part[same]))
    left, right = (np.concatenate(ends) for ends in zip(*joined, strict=True))
    graph = sparse.csr_array((np.ones(len(left)), (left, right)), shape=(start, start))
    codes: Integers = connected_components(graph, directed=False)[1][:size].astype(np.int64)
    return codes


@dataclass(frozen=True, repr=False, eq=False)
class StoredProofs:
    """The audits of one guarantee. Private: they hold true figures.

    Parameters
    ----------
    audits : sequence of (Family, AuditProblem, AuditResult)
    """

    audits: Sequence[tuple[Family, AuditProblem, AuditResult]]

    def to_dict(self) -> dict[str, Any]:
        """The document: numbers as texts, one for each array, `-` for no bound."""
        return {"edition": "private", "audits": [_document(*each) for each in self.audits]}


def _document(family: Family, problem: AuditProblem, result: AuditResult) -> dict[str, Any]:
    none = np.zeros(0, dtype=np.int64)
    levels = problem.levels if problem.levels is not None else Levels(none, none, none, none)
    matrix = problem.relations
    return {
        "figure": family.key,
        "whole": problem.whole,
        "tables": _places(family),
        "relations": {
            "rows": [_text(matrix.indices[a:b]) for a, b in pairwise(matrix.indptr.tolist())],
            "entries": [_text(matrix.data[a:b]) for a, b in pairwise(matrix.indptr.tolist())],
        },
        "low": _text(problem.low),
        "high": _text(problem.high),
        "true": None if problem.true is None else _text(problem.true),
        "levels": {
            "variables": _text(levels.variables),
            "lower": _text(levels.lower),
            "upper": _text(levels.upper),
            "span": _text(levels.span),
            "denominator": levels.denominator,
        },
        "moves": {
            "variables": [_text(move.columns) for move in result.moves],
            "numerators": [_text(move.numerators) for move in result.moves],
            "denominators": _text([move.denominator for move in result.moves]),
        },
    }


def _places(family: Family) -> list[dict[str, Any]]:
    """Which variable each row of a published table is, by the columns that show figures of the family."""
    found = []
    for table, variables in zip(family.tables[: family.published], family.cells.variables, strict=False):
        measure = table.measures[family.key]
        for response in table.responses:
            if response.kind in ("count", "sum") and measures_of(response)[-1] == family.key:
                found.append(
                    {
                        "table": table.name,
                        "column": response.name,
                        "decimals": measure.places,
                        "variables": _text(variables),
                        "hidden": _text(measure.hidden.astype(np.int64)),
                        "shown": ""
                        if measure.status == "published"
                        else _text(np.where(measure.hidden, 0, measure.shown)),
                    }
                )
    return found


def _text(values: NDArray[Any] | Sequence[int]) -> str:
    return " ".join("-" if value == UNBOUNDED else str(value) for value in np.asarray(values, dtype=object).tolist())


def stored_proofs(verdicts: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The document of the passed audits among some verdicts, by its name; nothing without one."""
    found = [verdict.evidence.to_dict() for verdict in verdicts if verdict.passed and verdict.evidence is not None]
    if not found:
        return {}
    return {"proofs": {"edition": "private", "audits": [audit for each in found for audit in each["audits"]]}}


NO_RULE = "no guarantee decides which cells are unsafe, so nothing was audited; add minimum_frequency or p_percent."
KINDS_OF = ("singles", "holdings")
CLOSELY = "can be computed, or are too closely bounded, by a contributor"
KINDS = {
    "recomputable": "can be computed from margins",
    "exact": "follow from signs and bounds",
    "level": "are too closely bounded",
    "implied": "populations implied by margins are unsafe",
    "insider": "can be computed by a contributor",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TableAudit(UnionGuarantee):
    """No unsafe cell, and no unsafe population that margins imply, can be worked out; observed = number that can.

    Everything published counts together: margins of all tables, what readers know of signs, and what a
    sole contributor of a cell knows. Each cell that holds has a witness, each that fails a certificate, both in
    exact integers; a cell with neither within the time is an error, never a pass.

    Parameters
    ----------
    lower : {"symmetric", "none"}
        Whether cells are protected downwards as well as upwards.
    prior : float, optional
        Percent to which readers know every figure beforehand.

    Examples
    --------
    >>> TableAudit()
    TableAudit()
    """

    threshold_field = "at_most"
    source = "Fischetti, Salazar, JASA 95 (2000); Neumaier, Shcherbina, Math. Programming 99 (2004)"
    threat = "A blank cell is its total minus the other cells of its row or column."
    formula = "max x_p >= a_p + UPL and min x_p <= a_p - LPL over all tables with the published figures"
    choose = "Always, where a cell is suppressed; add `prior` for sums that competitors can estimate."

    at_most: Annotated[Literal[0], Doc("cells that may fail: none")] = 0
    lower: Annotated[Literal["symmetric", "none"], Doc("protection downwards: as upwards, or none")] = "symmetric"
    sliding: Annotated[
        float, Ge(0), Stricter("larger"), Doc("share of its value that the interval of a cell must span")
    ] = 0.0
    prior: Annotated[
        float | None, Gt(0), Stricter("smaller"), Doc("percent to which readers know each figure beforehand")
    ] = None
    whole: Annotated[bool, Doc("false: counts are treated as real numbers, and the verdict states it")] = True
    insiders: Annotated[
        Literal["auto", "none", "singles", "holdings"] | dict[str, Literal["exact", "levels"]],
        Doc(
            "singles: a sole contributor of a hidden cell knows it; holdings: also, to within the rest, one with more "
            "than 1 - p/100 of it; {singles: levels}: the cells of others keep their levels; auto: singles for sums"
        ),
    ] = "auto"
    implied: Annotated[bool, Doc("judge populations that margins imply by the same rules")] = True
    time_limit: Annotated[float, Gt(0), Doc("seconds; a cell that is not proved by then is an error")] = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.insiders, Mapping) and (len(self.insiders) != 1 or not set(self.insiders) <= set(KINDS_OF)):
            raise UsageError("TableAudit: insiders must be auto, none, singles, holdings, or as in {singles: levels}")
        if self.insider_levels and self.sliding:
            raise UsageError(
                "TableAudit: levels for insiders are those of the rules; leave `sliding` out, or {singles: levels}"
            )

    @property
    def who_knows(self) -> str:
        """The kind of insiders."""
        return next(iter(self.insiders)) if isinstance(self.insiders, Mapping) else self.insiders

    @property
    def insider_levels(self) -> bool:
        """Whether insiders must not come closer to cells of others than the levels of these allow."""
        return isinstance(self.insiders, Mapping) and "levels" in self.insiders.values()

    @property
    def known_share(self) -> Fraction | None:
        """`prior` as a share."""
        return None if self.prior is None else rational(self.prior, "table_audit: prior") / 100

    def judge(self, tables: TableSet) -> Verdict:
        unread = self.without_ledger(tables)
        if unread is not None:
            return unread
        audits: list[tuple[Family, AuditProblem, AuditResult]] = []
        judged = 0
        try:
            seen = seen_together(tables, tables.chosen(self.tables), max_classes=self.max_atoms)
        except TooManyClasses as error:
            return Verdict(self, None, "error", 0, reason=f"{error}.")
        for family in seen:
            if not any(rules_of(tables, family.key).values()) and not group_levels(tables, family):
                continue
            problem = audit_problem(tables, family, self)
            audits.append((family, problem, audited(tables, family, problem, self)))
            judged += family.cells.size
        earlier = len(tables.history.earlier) if tables.history else 0
        verdict = self.verdict(
            [_of_this_release(family, result) for family, _, result in audits], judged, earlier=earlier
        )
        if verdict.outcome == "pass" and not earlier and not _has_contributors(tables.chosen(self.tables).values()):
            return replace(verdict, observed=None, outcome="error", reason=NO_CELL)
        return replace(verdict, evidence=StoredProofs(audits))

    def verdict(
        self, results: Sequence[AuditResult], judged: int, *, earlier: int = 0, true_known: bool = True
    ) -> Verdict:
        """The verdict on the audits of some measures, over a number of earlier releases; no audit is an error.

        Where true figures are not known, each blank figure was taken for unsafe.
        """
        compared = (Comparison(judged, judged, "figures were audited together"),)
        if not results:
            return Verdict(self, None, "error", 0, reason=NO_RULE, compared=compared)
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        failing = sum(number for kind, number in counts.items() if kind != "unproved")
        outcome: Any = "fail" if failing else "error" if counts["unproved"] else "pass"
        return Verdict(
            self,
            failing,
            outcome=outcome,
            threshold=0,
            failing_classes=failing,
            reason=self._reason(counts, results, earlier, true_known=true_known),
            compared=compared,
        )

    def _reason(self, counts: Counter[str], results: Sequence[AuditResult], earlier: int, *, true_known: bool) -> str:
        kinds = {**KINDS, "insider": CLOSELY} if self.insider_levels else KINDS
        parts = [f"{counts[kind]:,} {text}" for kind, text in kinds.items() if counts[kind]]
        if counts["unproved"]:
            parts.append(f"{counts['unproved']:,} were not proved in {self.time_limit:g} s")
        sensitive = sum(len(result.variables) for result in results)
        if not parts:
            parts.append(
                f"all {sensitive:,} unsafe figures stay hidden"
                if true_known
                else f"none of {sensitive:,} blank figures can be worked out"
            )
        elif not true_known:
            parts.append(
                "each blank figure was taken for unsafe, as the table does not show which are: give the original, or "
                "publish what follows from others (`restore: true`)"
            )
        more = sum(len(result.determined) for result in results)
        if more:
            parts.append(f"{more:,} suppressed figures follow from others and could be published")
        if not self.whole:
            parts.append("counts were not taken for whole numbers")
        if earlier:
            parts.append(f"judged together with {earlier:,} earlier releases of the ledger")
        components = sum(result.components for result in results)
        programmes = sum(result.programmes for result in results)
        return f"{'; '.join(parts)} ({components:,} components, {programmes:,} linear programs)."

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(lower="none", insiders="singles"),
            cls(prior=50, whole=False),
            cls(insiders={"holdings": "levels"}),
        ]


def _has_contributors(tables: Iterable[Table]) -> bool:
    return any((each.figures.contributors > 0).any() for table in tables for each in table.measures.values())


def rules_of(tables: TableSet, key: str) -> dict[str, list[Rule]]:
    """The primary rules of the policy about one measure, by table."""
    found: dict[str, list[Rule]] = {name: [] for name in tables.tables}
    for guarantee in tables.guarantees:
        if isinstance(guarantee, PrimaryRule):
            for name, table in tables.chosen(guarantee.tables).items():
                figures = dict(guarantee.measures(table)).get(key)
                if figures is not None:
                    found[name].append(guarantee.rule_of(figures))
    return found


def audited(tables: TableSet, family: Family, problem: AuditProblem, asked: TableAudit) -> AuditResult:
    """The audit of a family; in its implications a cell that follows from others counts as published."""
    others = np.zeros(len(problem.low), dtype=np.bool_)
    others[np.concatenate(family.cells.variables[: family.published])] = asked.implied and family.adds_up
    result = audit(problem, time_limit=asked.time_limit, others=others)
    if not asked.implied or not family.adds_up or not len(result.determined):
        return result
    every = list({id(rule): rule for own in rules_of(tables, family.key).values() for rule in own}.values())
    more = family.knowing(result.determined).implied_failures(every)
    return replace(result, implied=max(result.implied, int(more.sum())))


def _of_this_release(family: Family, result: AuditResult) -> AuditResult:
    """Without variables that cannot be published: combinations of all dimensions, classes of persons, earlier cells."""
    own = np.concatenate(family.cells.variables[: family.new])
    return replace(result, determined=np.intersect1d(result.determined, own))


def audit_problem(tables: TableSet, family: Family, asked: TableAudit) -> AuditProblem:
    """What readers see of a family, and what must not follow from it under the policy's rules."""
    rules = rules_of(tables, family.key)
    settings = Settings(lower=asked.lower, lower_bound=family.least, sliding=asked.sliding)
    levels = merged_levels([family.levels(rules, settings), *group_levels(tables, family)])
    hidden = levels.variables[family.hidden[levels.variables]]
    every = list({id(rule): rule for own in rules.values() for rule in own}.values())
    problem = family.problem(
        levels,
        prior=asked.known_share,
        knowing=contributors_who_know(family, hidden, _views(tables, family.key, every, asked)),
        implied=family.implied_failures(every) if asked.implied else np.zeros(0, dtype=np.bool_),
    )
    return replace(problem, whole=problem.whole and asked.whole, insider_levels=asked.insider_levels)


def _views(tables: TableSet, key: str, rules: Sequence[Rule], asked: TableAudit) -> dict[str | None, Fraction | None]:
    """Whose values are contributors for the rules of a measure, and the share of the rest that hides nothing.

    Raises
    ------
    UsageError
        No rule of the policy gives the share.
    """
    if asked.who_knows == "none" or (asked.who_knows == "auto" and key == COUNT):
        return {}
    found: dict[str | None, Fraction | None] = {None: None}
    for rule in rules:
        column, own = (rule.column, rule.rule) if isinstance(rule, OfHoldings) else (None, rule)
        share = own.share if asked.who_knows == "holdings" and isinstance(own, primary_rules.PPercent) else None
        known = found.get(column)
        found[column] = share if known is None else known if share is None else max(known, share)
    if asked.who_knows == "holdings" and not any(
        isinstance(guarantee, PPercent | PriorPosterior) for guarantee in tables.guarantees
    ):
        raise UsageError(
            "table_audit: `insiders: holdings` takes p from p_percent or prior_posterior, and the policy has neither; "
            "add one of them, or write `insiders: singles`"
        )
    return found


def group_levels(tables: TableSet, family: Family) -> list[Levels]:
    """Levels that keep groups from being in one cell as far as is published."""
    if family.key != COUNT:
        return []
    found = []
    for guarantee in tables.guarantees:
        if isinstance(guarantee, GroupDisclosure):
            chosen = tables.chosen(guarantee.tables)
            for table, variables in zip(family.tables[: family.new], family.cells.variables, strict=False):
                if table.name in chosen:
                    levels = guarantee.levels(table, tables.sensitive)
                    if levels is not None:
                        found.append(
                            Levels(
                                variables[levels.variables], levels.lower, levels.upper, levels.span, levels.denominator
                            )
                        )
    return found

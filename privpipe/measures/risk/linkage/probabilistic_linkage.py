"""Probabilistic record linkage, with the rules of agreement of two values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Confidence, LargestShare, OptionalNumber, OwnColumns, Stricter
from privpipe.blocks.parameters import require_number
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.measures.risk.linkage.linkable_files import block_of, coded_texts, partners_in_block
from privpipe.roles import Roles
from privpipe.tolerance import floor_share

if TYPE_CHECKING:
    from privpipe.kernels.linkage.fellegi_sunter import Agreement, CodeColumn, Mixture, NumberColumn

__all__ = ["ProbabilisticLinkage", "agreement_of", "checked_rules"]


KINDS = ("absolute", "relative", "rank")


def checked_rules(owner: str, rules: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """The rules as stored: ``equal``, or a kind with a tolerance or a tuple of ascending ones.

    Raises
    ------
    UsageError
        No such rule; tolerances that do not ascend from 0; a rule for a column that is not compared.
    """
    if not isinstance(rules, Mapping):
        raise UsageError(f"{owner}: agreement is a mapping of column to rule, got {type(rules).__name__}")
    return {column: _checked(owner, column, rule, columns) for column, rule in rules.items()}


def _checked(owner: str, column: str, rule: Any, columns: Sequence[str] | None) -> Any:
    place = f"agreement.{column}"
    if columns is not None and column not in columns:
        raise UsageError(f"{owner}: {place}: not among columns{did_you_mean(column, list(columns))}")
    if rule == "equal":
        return rule
    if not isinstance(rule, Mapping) or len(rule) != 1 or next(iter(rule)) not in KINDS:
        raise UsageError(f"{owner}: {place}: must be equal, {{absolute: d}}, {{relative: d}} or {{rank: share}}")
    ((kind, within),) = rule.items()
    steps = tuple(within) if isinstance(within, list | tuple) else (within,)
    for step in steps:
        require_number(owner, f"{place}.{kind}", step, least=0, most=1 if kind == "rank" else math.inf)
    if not steps or any(later <= step for step, later in itertools.pairwise(steps)):
        raise UsageError(f"{owner}: {place}.{kind}: levels of agreement are tolerances in ascending order")
    return {kind: steps if isinstance(within, list | tuple) else within}


def agreement_of(files: FilePair, columns: Sequence[str], rules: Mapping[str, Any]) -> Agreement:
    """The columns of both files as patterns of agreement compare them.

    Raises
    ------
    UsageError
        A column of numbers without a rule: the rule decides the result, and nothing else determines it.
    DataError
        A tolerance for a column that is not a number.
    """
    from privpipe.kernels.linkage.fellegi_sunter import Agreement

    return Agreement([_column(files, name, rules.get(name)) for name in columns])


def _column(files: FilePair, name: str, rule: Any) -> NumberColumn | CodeColumn:
    from privpipe.kernels.linkage.fellegi_sunter import CodeColumn, NumberColumn

    before, after = files.numbers("original", name), files.numbers("released", name)
    if before is None or after is None:
        if rule not in (None, "equal"):
            raise DataError(f"probabilistic_linkage: column {name!r} is not a number in both tables; let it be equal")
        return CodeColumn(*coded_texts(files, name))
    if rule is None:
        raise UsageError(
            f"probabilistic_linkage: column {name!r} holds numbers, and when two of them agree decides the result; "
            f"write agreement: {{{name}: {{relative: 0.02}}}}, or absolute, rank or equal"
        )
    if rule == "equal":
        _, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
        return CodeColumn(codes[: len(before)].astype(np.int64), codes[len(before) :].astype(np.int64))
    ((kind, within),) = rule.items()
    steps = tuple(float(step) for step in (within if isinstance(within, tuple) else (within,)))
    if kind == "rank":
        known = int((~np.isnan(before)).sum())
        steps = tuple(float(floor_share(step, known)) for step in steps)
        return NumberColumn(_mean_ranks(before), _mean_ranks(after), steps)
    files.finite_numbers(name, "probabilistic_linkage")  # infinite values have no distance
    return NumberColumn(before, after, steps, relative=kind == "relative")


def _mean_ranks(values: Floats) -> Floats:
    """Rank of each value, that of equal ones the mean of theirs; NaN stays."""
    known = ~np.isnan(values)
    _, places, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = np.full(len(values), np.nan)
    ranks[known] = (last - (counts - 1) / 2.0)[places]
    return ranks


Parts = list[tuple[Ints, Ints]]


class _Parameters(str):
    """The value of `parameters` where every entry has its parameters: called, it gives those."""

    entry: ProbabilisticLinkage

    def __call__(self) -> dict[str, Any]:
        return {**FilePairMeasure.parameters(self.entry), "parameters": str(self)}


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbabilisticLinkage(FilePairMeasure):
    """Share of released records that are linked to the right person by the weight of their agreements.

    observed = share of released records whose heaviest original (ties 1/t) is the true one and is linked, at the
    tolerated error rates; also the share under weights estimated from the true pairs, and the three classes.

    Parameters
    ----------
    columns : tuple of str, optional
        What the intruder knows. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    agreement : mapping of column to rule
        ``equal`` (default for text); ``{absolute: d}``; ``{relative: d}``, of the original value; ``{rank: share}``,
        ranks of the two files at most share n apart (equal values share their mean rank). A list of tolerances makes
        levels of agreement. A column of numbers needs a rule.
    false_match, false_non_match : float
        Tolerated error rates, in [0, 1]: unmatched pairs that are linked, matched ones that are not.
    block_by : tuple of str
        Compare only records that agree on these columns; it can only lose links.
    sample : int, optional
        Attacked records; None: all. Then the upper confidence limit is compared.
    confidence : float
        Of that limit, in (0, 1).
    parameters : {"estimated", "known"}
        Weights by expectation and maximisation, or from the true pairs (the worst case).
    accept_unconverged : bool
        Judge by the last of 1000 steps instead of giving an error.

    Notes
    -----
    A lower bound of the risk: it is what this attack links. A missing value agrees only with missing ones; a
    generalised label with the values it covers, by the column's hierarchy.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x = pa.record_batch({"a": [str(i) for i in range(40)], "b": [str(i % 7) for i in range(40)]})
    >>> files = FilePair(original=x, released=x, ids=np.zeros((40, 2), dtype=np.int64), records=40, released_records=40)
    >>> verdict = ProbabilisticLinkage(columns=("a", "b"), at_most=0.5).judge_files(files)
    >>> verdict.outcome, verdict.observed["share"]
    ('fail', 1.0)
    """

    observes = dict[str, Any]
    source = "Fellegi, Sunter, JASA 64, 1969; Jaro, JASA 84, 1989; Winkler, 1988"
    threat = "An intruder weights the columns on which a released record agrees with each known person."
    formula = "W = sum log2(m/u) or log2((1-m)/(1-u)); share of records whose heaviest pair is right"
    choose = "0.05 for public files; write tolerances by how exactly an intruder knows the numbers."

    at_most: Annotated[LargestShare, Doc("largest share of right links that is tolerated")] = None
    agreement: Annotated[
        Mapping[str, str | dict[str, float | tuple[float, ...]]],
        Stricter("equal"),
        Doc("of each column: equal, {absolute: d}, {relative: d} or {rank: share}; numbers need one"),
    ] = field(default_factory=dict)
    false_match: Annotated[
        float, Ge(0), Le(1), Stricter("equal"), Doc("tolerated share of unmatched pairs that are linked")
    ] = 0.01
    false_non_match: Annotated[
        float, Ge(0), Le(1), Stricter("equal"), Doc("tolerated share of matched pairs that are not linked")
    ] = 0.01
    block_by: Annotated[tuple[str, ...], Stricter("equal"), Doc("columns that must agree; only loses links")] = ()
    sample: Annotated[OptionalNumber, Doc("attacked records; null: all of them")] = 10_000
    confidence: Annotated[Confidence, Doc("of the upper limit that a sample is compared by")] = 0.95
    parameters: Annotated[
        Literal["estimated", "known"],
        Stricter("equal"),
        Doc("estimated (by expectation and maximisation), or known (from the true pairs: worst case)"),
    ] = "estimated"  # type: ignore[assignment]
    accept_unconverged: Annotated[
        bool, Stricter("equal"), Doc("judge even if the estimate did not converge in 1000 steps")
    ] = False

    columns: Annotated[OwnColumns, Doc("columns the intruder knows; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "ProbabilisticLinkage"
        self.hold_columns()
        object.__setattr__(self, "agreement", checked_rules(owner, self.agreement, self.columns))
        if self.block_by:
            self.hold_columns("block_by")
        word = _Parameters(self.parameters)
        word.entry = self
        object.__setattr__(self, "parameters", word)

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().columns_read(roles), *self.block_by)))

    def judge_files(self, files: FilePair) -> Verdict:
        from privpipe.kernels.linkage.fellegi_sunter import expectation_maximisation, known_mixture

        compared = [name for name in files.original.schema.names if name in (self.columns or ()) or self._asks(name)]
        if not compared or not len(files):
            return self.not_judged("no column to compare records by" if len(files) else "no record to attack")
        unknown = sorted(set(self.agreement) - set(compared))
        if unknown:
            raise UsageError(f"probabilistic_linkage: agreement of {unknown[0]!r}, which is not among the columns")
        agreement, sample = agreement_of(files, compared, self.agreement), files.sample(self.sample)
        parts, true = self._parts(files, sample)
        counts = sum((agreement.counts(*part) for part in parts), np.zeros(agreement.patterns, dtype=np.int64))
        if not len(true):
            return self.not_judged(
                "no true pair is left to compare: the blocks separate every record from its original"
            )
        levels, patterns = agreement.levels(), agreement.of_partners(true)
        known = known_mixture(patterns, counts, levels)
        mixture = known
        if self.parameters == "estimated":
            mixture = expectation_maximisation(counts, levels, len(sample) / int(counts.sum()))
        if not (mixture.converged or self.accept_unconverged):
            return self.not_judged(
                f"the estimate did not converge in {mixture.steps:,} steps (accept_unconverged: true)"
            )
        figures = {
            name: self._links(agreement, parts, patterns, each, counts)
            for name, each in (("own", mixture), ("known", known))
        }
        verdict = self._verdict(files, sample, mixture, figures)
        return replace(verdict, compared=partners_in_block(len(true), len(sample))) if self.block_by else verdict

    def _asks(self, name: str) -> bool:
        return self.columns is None and name not in self.block_by

    def _parts(self, files: FilePair, sample: Ints) -> tuple[Parts, Ints]:
        """Attacked released records and the originals they are compared with, and those whose own is among them."""
        if not self.block_by:
            return [(sample, np.arange(len(files), dtype=np.int64))], sample
        parts = list(self._blocks(files, sample))
        true = [np.intersect1d(attacked, candidates) for attacked, candidates in parts]
        return parts, np.concatenate([np.zeros(0, dtype=np.int64), *true])

    def _blocks(self, files: FilePair, sample: Ints) -> Iterator[tuple[Ints, Ints]]:
        before, after = block_of(files, self.block_by)
        order = np.argsort(before, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(before[order])) + 1):
            attacked = sample[after[sample] == before[rows[0]]]
            if len(attacked):
                yield attacked, rows

    def _links(
        self, agreement: Agreement, parts: Parts, patterns: Ints, mixture: Mixture, counts: Ints
    ) -> dict[str, Any]:
        """Right links, and how the pairs and the true ones fall into the three classes."""
        from privpipe.kernels.linkage.fellegi_sunter import ranking

        order = ranking(mixture, agreement.levels(), self.false_match, self.false_non_match)
        hits = 0.0
        for attacked, candidates in parts:
            best, ties = agreement.heaviest(attacked, candidates, order.ranks)
            own = np.isin(attacked, candidates)
            ranks = order.ranks[agreement.of_partners(attacked)]
            right = own & (ranks == best) & (ranks >= order.linked_from)
            hits += float((right / np.maximum(ties, 1)).sum())
        linked, unlinked = order.ranks >= order.linked_from, order.ranks < order.unlinked_below
        classes = {"linked": linked, "clerical": ~linked & ~unlinked, "non_linked": unlinked & ~linked}
        return {
            "hits": hits,
            "pairs": {name: float(counts[of].sum() / counts.sum()) for name, of in classes.items()},
            "true_pairs": {name: float(of[patterns].mean()) for name, of in classes.items()},
        }

    def _verdict(
        self, files: FilePair, sample: Ints, mixture: Mixture, figures: Mapping[str, Mapping[str, Any]]
    ) -> Verdict:
        from privpipe.kernels.linkage.attack_figures import upper_share

        attacked, sampled = len(sample), len(sample) < len(files)
        own, known = (figures[name]["hits"] for name in ("own", "known"))
        figure = upper_share(min(own, attacked), attacked, self.confidence) if sampled else own / attacked
        observed = {
            "share": figure,
            **({"estimate": own / attacked} if sampled else {}),
            "known": known / attacked,
            "pairs": figures["own"]["pairs"],
            "true_pairs": figures["own"]["true_pairs"],
            "matched_pairs": mixture.share,
            "steps": mixture.steps,
        }
        limit = f", upper {self.confidence:g} limit from {attacked:,} sampled records" if sampled else ""
        return self.judged(
            figure,
            observed,
            reason=(
                f"at least {short(figure)} of the released records are linked correctly by {self.parameters} weights "
                f"of agreement{limit}{self.asked}; {short(known / attacked)} by an attacker who knew the true pairs"
                + ("; blocked, which only loses links." if self.block_by else ".")
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(agreement={"age": {"absolute": 1}}),
            cls(agreement={"age": "equal", "income": {"relative": (0.01, 0.05)}}, at_most=0.1),
            cls(columns=("age",), agreement={"age": {"rank": 0.05}}, at_most=0.5, parameters="known"),
        ]

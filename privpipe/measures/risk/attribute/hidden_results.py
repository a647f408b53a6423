"""Results that a release may disclose: how a policy declares them, and what a table shows of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.guarantee import require_columns, short
from privpipe.blocks.parameters import require_integer, require_number
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.kernels.losses.column_losses import CountedPairs, cramers_v, rank_correlation
from privpipe.measures.risk.attribute.counted_table import CountedColumn, CountedTable
from privpipe.tolerance import at_least, at_most

__all__ = ["Found", "Result", "Rule", "Rules", "read_result"]

MOST_ITEMS = 3
"""Items on the left side of a rule that a pattern covers."""
LARGEST_NUMBER_OF_SETS = 20_000
MOST_GROUPS = 20
"""Distinct numbers that are categories themselves where they are compared with a text; more are ten groups."""
GROUPS = 10
NONE_SHOWN = "no record shows the columns of both sides"
FOLDS = 5
LARGEST_SAMPLE = 200_000
"""Records that a tree is trained on."""
MOST_CLASSES = 50
"""Distinct values of a target, and of a predicting text column that are distinguished; rarer ones are one."""


class Found(NamedTuple):
    """What a table shows of a result.

    Parameters
    ----------
    figure : float or None
        None: nothing could be compared; `text` is the reason.
    holds : bool
        Whether the release discloses the result.
    compared, of : int
        Records that the figure rests on, and those it should.
    columns : tuple of str
    text : str
    details : mapping of str to number
    """

    figure: float | None
    holds: bool
    compared: int
    of: int
    columns: tuple[str, ...]
    text: str
    details: Mapping[str, float] = {}


class Demand(NamedTuple):
    """A rule that holds: rows with both of its sides, and how many of their records must not show one of them."""

    rows: Bools
    excess: int


class _Groups(NamedTuple):
    """Left sides of rules over some columns: of each row its number, of each number its records."""

    names: tuple[str, ...]
    rows: Bools
    numbers: Ints
    both: Ints
    base: Ints


class Result:
    """A result that must not hold in the release; subclasses have a `kind` and read their own parameters."""

    kind = ""

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Columns whose combinations it looks at."""
        raise TypeError(f"{self.kind} has no columns")

    def items(self) -> Mapping[str, Any]:
        """Values that the policy names, by column."""
        return {}

    def demands(self, table: CountedTable, keys: tuple[str, ...]) -> Iterator[Demand]:
        """The rules of it that hold; only those of `rule` and `rules` can be hidden by blank cells."""
        raise TypeError(f"{self.kind} is not a rule")

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        """What the release shows of it."""
        raise TypeError(f"{self.kind} finds nothing")


def read_result(place: str, given: Any) -> Result:
    """A result as a policy writes it: a mapping of its kind to its parameters.

    Raises
    ------
    UsageError
    """
    if not isinstance(given, Mapping) or len(given) != 1:
        raise UsageError(f"{place} must be a mapping of one kind to its parameters: {', '.join(KINDS)}")
    [(kind, parameters)] = given.items()
    if kind not in KINDS:
        raise UsageError(
            f"{place}: {kind!r} is not a kind of result; use one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}"
        )
    make, required, optional = KINDS[kind]
    place = f"{place}: {kind}"
    if not isinstance(parameters, Mapping):
        raise UsageError(f"{place} must be a mapping of parameters: {', '.join((*required, *optional))}")
    for name in parameters:
        if name not in (*required, *optional):
            raise UsageError(f"{place}: unknown parameter {name!r}{did_you_mean(str(name), [*required, *optional])}")
    for name in required:
        if name not in parameters:
            raise UsageError(f"{place}: {name} is required")
    return make(place, parameters)


def _items(place: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise UsageError(f"{place} must be a mapping of columns to values")
    found: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not name or isinstance(value, Mapping | list | tuple) or value is None:
            raise UsageError(f"{place} must be a mapping of columns to values, one value for each column")
        found[name] = value
    return found


def _share(place: str, given: Mapping[str, Any], name: str) -> float:
    require_number(place, name, given[name], least=0, most=1)
    return float(given[name])


@dataclass(frozen=True)
class _Limits:
    """What a rule must reach to count as disclosed: support in records or as a share of them, and confidence."""

    support: float
    confidence: float

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> _Limits:
        if "support" not in given and "confidence" not in given:
            raise UsageError(f"{place}: give support, confidence or both")
        support, confidence = given.get("support", 1), given.get("confidence", 0)
        if isinstance(support, int):
            require_integer(place, "support", support, least=1)
        else:
            require_number(place, "support", support, above=0, below=1)
        require_number(place, "confidence", confidence, least=0, most=1)
        return cls(support, confidence)

    def records(self, table: CountedTable) -> int:
        """The fewest records that reach the support."""
        return self.support if isinstance(self.support, int) else max(1, math.ceil(self.support * table.records - 1e-9))

    def reached(self, both: int, base: int, least: int) -> bool:
        """Whether a rule counts as disclosed."""
        return both >= least and bool(at_least(both / base, self.confidence))

    def excess(self, both: int, base: int, least: int) -> int:
        """The fewest records with both sides that must not show one of them, so that the rule is not reached."""
        gone = both - least + 1
        if 0 < self.confidence < 1:
            few = max(0, math.ceil((both - self.confidence * base) / (1 - self.confidence)) - 1)
            while few < gone and at_least((both - few) / (base - few), self.confidence):
                few += 1
            gone = min(gone, few)
        return gone

    def __str__(self) -> str:
        support = f"{self.support:,} records" if isinstance(self.support, int) else f"{short(self.support)} of all"
        return f"support {support} and confidence {short(self.confidence)}"


def _strength(both: int, base: int, of_limits: str, holds: bool) -> str:
    return (
        f"confidence {short(both / base if base else 0.0)} over {both:,} of {base:,} records {_verb(holds)} {of_limits}"
    )


def _verb(holds: bool) -> str:
    return "reaches" if holds else "is below"


@dataclass(frozen=True)
class Rule(Result):
    """An association rule with both sides named."""

    kind = "rule"
    given: Mapping[str, Any]
    then: Mapping[str, Any]
    limits: _Limits

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> Rule:
        left, right = _items(f"{place}: if", given["if"]), _items(f"{place}: then", given["then"])
        if common := set(left) & set(right):
            raise UsageError(f"{place}: {min(common)!r} is on both sides")
        return cls(left, right, _Limits.read(place, given))

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (*self.given, *self.then)

    def items(self) -> Mapping[str, Any]:
        return {**self.given, **self.then}

    def demands(self, table: CountedTable, keys: tuple[str, ...]) -> Iterator[Demand]:
        left = table.matching(self.given) & table.shown(self.columns(keys))
        rows = left & table.matching(self.then)
        base, both, least = table.total(left), table.total(rows), self.limits.records(table)
        if self.limits.reached(both, base, least):
            yield Demand(rows, self.limits.excess(both, base, least))

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        columns = self.columns(keys)
        shown = released.shown(columns)
        if not shown.any():
            return Found(None, False, 0, released.records, columns, NONE_SHOWN)
        left = released.matching(self.given) & shown
        base, both = released.total(left), released.total(left & released.matching(self.then))
        confidence = both / base if base else 0.0
        holds = self.limits.reached(both, base, self.limits.records(released))
        text = f"{_strength(both, base, str(self.limits), holds)}"
        return Found(confidence, holds, released.total(shown), released.records, columns, text, {"support": both})


@dataclass(frozen=True)
class Rules(Result):
    """Every association rule with a named right side, whatever up to three items are on its left."""

    kind = "rules"
    then: Mapping[str, Any]
    limits: _Limits
    left: tuple[str, ...] | None
    max_items: int

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> Rules:
        then, most = _items(f"{place}: then", given["then"]), given.get("max_items", MOST_ITEMS)
        require_integer(place, "max_items", most, least=1, most=MOST_ITEMS)
        left = None if given.get("columns") is None else require_columns(place, given["columns"])
        if left is not None and (common := set(left) & set(then)):
            raise UsageError(f"{place}: {min(common)!r} is on both sides")
        return cls(then, _Limits.read(place, given), left, most)

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (*self._left(keys), *self.then)

    def _left(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in (keys if self.left is None else self.left) if name not in self.then)

    def items(self) -> Mapping[str, Any]:
        return self.then

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        left, columns = self._left(keys), self.columns(keys)
        if not left:
            text = "no column for the left side; name columns"
            return Found(None, False, 0, released.records, columns, text)
        known = released.shown(tuple(self.then))
        compared = released.total(known & np.logical_or.reduce([released.column(name).shown for name in left]))
        if not compared:
            return Found(None, False, 0, released.records, columns, NONE_SHOWN)
        least = self.limits.records(released)
        sets = sum(math.comb(len(left), size) for size in range(self.max_items + 1))
        if sets > LARGEST_NUMBER_OF_SETS:
            text = f"{len(left)} columns make {sets:,} sets, more than {LARGEST_NUMBER_OF_SETS:,}; lower max_items"
            return Found(None, False, 0, released.records, columns, text)
        best: tuple[int, float, int, int, tuple[str, ...]] = (0, 0.0, 0, 0, ())
        for names, both, base in self._counted(released, known, left, least):
            # The strongest reaches the support; of these the most confident, and then the most frequent.
            best = max(best, (int(both >= least), both / base, both, base, names), key=lambda each: each[:3])
        enough, confidence, both, base, names = best
        holds = bool(enough) and bool(at_least(confidence, self.limits.confidence))
        side = ", ".join(map(repr, names)) or "no column"
        text = f"strongest of {sets:,} sets of columns: from {side}, {_strength(both, base, str(self.limits), holds)}"
        return Found(confidence, holds, compared, released.records, (*names, *self.then), text, {"support": both})

    def demands(self, table: CountedTable, keys: tuple[str, ...]) -> Iterator[Demand]:
        known, least = table.shown(tuple(self.then)), self.limits.records(table)
        wanted = table.matching(self.then)
        for group in self._groups(table, known, self._left(keys), least):
            confident = at_least(group.both / np.maximum(group.base, 1), self.limits.confidence)
            for number in np.flatnonzero((group.both >= least) & confident).tolist():
                rows = np.zeros(len(table.counts), dtype=np.bool_)
                rows[group.rows] = group.numbers == number
                excess = self.limits.excess(int(group.both[number]), int(group.base[number]), least)
                yield Demand(rows & wanted, excess)

    def _counted(
        self, table: CountedTable, known: Bools, left: tuple[str, ...], least: int
    ) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Of each set of columns its strongest rule: records with both sides, and with the left one."""
        for group in self._groups(table, known, left, least):
            both, base = group.both, group.base
            at = np.lexsort((both, both / np.maximum(base, 1), both >= least))[-1]
            if base[at]:
                yield group.names, int(both[at]), int(base[at])

    def _groups(self, table: CountedTable, known: Bools, left: tuple[str, ...], least: int) -> Iterator[_Groups]:
        """Of each set of columns its left sides.

        Sets are skipped that hold one without any rule of enough records: support falls with every item.
        """
        from privpipe.kernels.classes.coded_classes import projected_counts

        wanted, frequent = table.matching(self.then), set[tuple[str, ...]]()
        for size in range(self.max_items + 1):
            for names in itertools.combinations(left, size):
                if size and any(part not in frequent for part in itertools.combinations(names, size - 1)):
                    continue
                rows = known & table.shown(names)
                if not rows.any():
                    continue
                first = np.zeros(int(rows.sum()), dtype=np.int64)
                codes = np.column_stack([first, *(table.column(name).codes[rows] for name in names)])
                numbers, base = projected_counts(codes, table.counts[rows])
                both = np.zeros_like(base)
                np.add.at(both, numbers, np.where(wanted[rows], table.counts[rows], 0))
                if both.max(initial=0) >= least:
                    frequent.add(names)
                yield _Groups(names, rows, numbers, both, base)


@dataclass(frozen=True)
class Share(Result):
    """A share of records."""

    kind = "share"
    where: Mapping[str, Any]
    of: Mapping[str, Any]
    at_most: float

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> Share:
        of = {} if given.get("of") is None else _items(f"{place}: of", given["of"])
        where = _items(f"{place}: where", given["where"])
        if common := set(where) & set(of):
            raise UsageError(f"{place}: {min(common)!r} is in where and in of")
        return cls(where, of, _share(place, given, "at_most"))

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (*self.of, *self.where)

    def items(self) -> Mapping[str, Any]:
        return {**self.of, **self.where}

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        columns = self.columns(keys)
        shown = released.shown(columns)
        rows = released.matching(self.of) & shown
        base, part = released.total(rows), released.total(rows & released.matching(self.where))
        if not base:
            return Found(None, False, 0, released.records, columns, "no record shows what the share is of")
        share = part / base
        holds = not at_most(share, self.at_most)
        text = f"share {short(share)}, {part:,} of {base:,} records, required at most {short(self.at_most)}"
        return Found(share, holds, released.total(shown), released.records, columns, text)


@dataclass(frozen=True)
class Correlation(Result):
    """An association of two columns: Spearman's rank correlation of ordered ones, Cramer's V of categories."""

    kind = "correlation"
    pair: tuple[str, ...]
    at_most: float

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> Correlation:
        pair = require_columns(place, given["columns"])
        if len(pair) != 2:
            raise UsageError(f"{place}: columns must name two columns")
        return cls(pair, _share(place, given, "at_most"))

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return self.pair

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        rows, (x, y) = released.shown(self.pair), (released.column(name) for name in self.pair)
        compared = released.total(rows)
        if compared < 2:
            return Found(None, False, compared, released.records, self.pair, "fewer than two records show both columns")
        counts, figures = released.counts[rows], dict[str, float]()
        if x.numbers is not None and y.numbers is not None:
            figures["spearman"] = abs(rank_correlation(_pairs(x.codes[rows], y.codes[rows], counts)))
        if not (x.typed and y.typed):
            pairs = _pairs(_categories(x, rows, counts), _categories(y, rows, counts), counts)
            figures["cramers_v"] = cramers_v(pairs, corrected=False) or 0.0
        name, figure = max(figures.items(), key=lambda each: each[1])
        shown = {"spearman": "|Spearman's rho|", "cramers_v": "Cramer's V"}[name]
        text = f"{shown} {short(figure)} over {compared:,} records, required at most {short(self.at_most)}"
        holds = not at_most(figure, self.at_most)
        return Found(figure, holds, compared, released.records, self.pair, text, figures)


def _pairs(x: Ints, y: Ints, counts: Ints) -> CountedPairs:
    pairs, place = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
    totals = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(totals, place.reshape(-1), counts)
    return CountedPairs(pairs[:, 0], pairs[:, 1], totals)


def _categories(column: CountedColumn, rows: Bools, counts: Ints) -> Ints:
    """Codes of categories; many distinct numbers are groups of about equally many records."""
    codes = np.unique(column.codes[rows], return_inverse=True)[1].reshape(-1)
    if not column.typed or codes.max(initial=0) < MOST_GROUPS:
        return codes.astype(np.int64)
    below = np.concatenate([[0], np.cumsum(np.bincount(codes, weights=counts))])
    middle = (below[:-1] + below[1:]) / 2
    return np.asarray(np.minimum(middle * GROUPS // below[-1], GROUPS - 1).astype(np.int64)[codes])


@dataclass(frozen=True)
class Order(Result):
    """The ranking of groups by the mean of a column: Kendall's tau-b with that of the original."""

    kind = "order"
    column: str
    by: str
    at_most: float

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> Order:
        [column], [by] = (require_columns(place, [given[name]]) for name in ("column", "by"))
        if column == by:
            raise UsageError(f"{place}: column and by are the same column")
        return cls(column, by, _share(place, given, "at_most"))

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (self.by, self.column)

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        columns, of = self.columns(keys), released.records

        def unknown(text: str) -> Found:
            return Found(None, False, 0, of, columns, text)

        if original is None:
            return unknown("the ranking is compared with that of the original, and there is none; name it")
        sides = [_means(table, self.by, self.column) for table in (released, original)]
        if sides[0] is None or sides[1] is None:
            return unknown(f"column {self.column!r} holds no numbers, or no intervals of them")
        groups = [name for name in sides[0] if name in sides[1]]
        compared = sum(sides[0][name][1] for name in groups)
        if len(groups) < 2:
            return unknown(f"fewer than two groups of {self.by!r} are in release and original under one name")
        tau = abs(_kendall([sides[0][name][0] for name in groups], [sides[1][name][0] for name in groups]))
        holds = not at_most(tau, self.at_most)
        text = f"|tau| {short(tau)} over {len(groups):,} groups, required at most {short(self.at_most)}"
        return Found(tau, holds, compared, of, columns, text, {"groups": len(groups)})


def _means(table: CountedTable, by: str, column: str) -> dict[str, tuple[float, int]] | None:
    """The mean of each group, and its records."""
    groups, values = table.column(by), table.column(column)
    if values.numbers is None:
        return None
    rows = table.shown((by, column))
    at, counts, numbers = groups.codes[rows], table.counts[rows], values.numbers[values.codes[rows]]
    found = {}
    for group in np.unique(at).tolist():
        own = at == group
        total = int(counts[own].sum())
        found[groups.texts[group]] = (math.fsum((numbers[own] * counts[own]).tolist()) / total, total)
    return found


def _kendall(x: Sequence[float], y: Sequence[float]) -> float:
    """Kendall's tau-b; 0 where one side has only ties."""
    first, second = (np.sign(np.subtract.outer(side, side)) for side in (np.array(x), np.array(y)))
    size = math.sqrt(float((first**2).sum()) * float((second**2).sum()))
    return float((first * second).sum()) / size if size else 0.0


@dataclass(frozen=True)
class Model(Result):
    """How much better than the most frequent value a decision tree predicts a column, over five folds."""

    kind = "model"
    target: str
    at_most: float
    by: tuple[str, ...] | None

    @classmethod
    def read(cls, place: str, given: Mapping[str, Any]) -> Model:
        [target] = require_columns(place, [given["target"]])
        by = None if given.get("columns") is None else require_columns(place, given["columns"])
        if by is not None and target in by:
            raise UsageError(f"{place}: columns hold the target {target!r}")
        return cls(target, _share(place, given, "at_most"), by)

    def columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (*(name for name in (keys if self.by is None else self.by) if name != self.target), self.target)

    def found(self, released: CountedTable, original: CountedTable | None, keys: tuple[str, ...]) -> Found:
        columns, target = self.columns(keys), released.column(self.target)
        by, of = columns[:-1], released.records
        compared = released.total(target.shown)

        def unknown(text: str) -> Found:
            return Found(None, False, compared, of, columns, text)

        if not by:
            return unknown("no column to predict by; name columns")
        if len(target.texts) > MOST_CLASSES:
            return unknown(f"{self.target!r} has {len(target.texts):,} values, more than {MOST_CLASSES}; recode it")
        if compared < 2 * FOLDS:
            return unknown(f"{FOLDS} folds need {2 * FOLDS} records that show {self.target!r}")
        try:
            skill, base = _skill(released, by, target)
        except UnsupportedError:
            return unknown(
                "a decision tree needs scikit-learn, which is not installed: pip install 'privpipe[utility]'"
            )
        holds = not at_most(skill, self.at_most)
        text = (
            f"a tree predicts {short(base + skill)} of records and the most frequent value {short(base)}: skill "
            f"{short(skill)}, required at most {short(self.at_most)}"
        )
        return Found(skill, holds, compared, of, columns, text, {"base": base})


def _skill(table: CountedTable, by: Sequence[str], target: CountedColumn) -> tuple[float, float]:
    """Accuracy above that of the most frequent value, and this one, over records in an order of their values."""
    from privpipe.measures.utility.loss_models import predicted

    rows = np.flatnonzero(target.shown)
    features = np.column_stack([part for name in by for part in _features(table.column(name), rows)])
    order = np.lexsort((target.codes[rows], *features.T))
    records = np.repeat(order, table.counts[rows][order])
    step = -(-len(records) // LARGEST_SAMPLE)
    records = records[::step]
    x, y, folds = features[records], target.codes[rows][records], np.arange(len(records)) % FOLDS
    right = usual = 0
    for fold in range(FOLDS):
        held = folds == fold
        right += int((predicted(x[~held], y[~held], x[held], len(target.texts), "tree") == y[held]).sum())
        usual += int((y[held] == np.bincount(y[~held]).argmax()).sum())
    return (right - usual) / len(records), usual / len(records)


def _features(column: CountedColumn, rows: Ints) -> Iterator[Floats]:
    """Numbers unchanged, categories as one column each; a missing cell is below all numbers, and in no category."""
    codes = column.codes[rows]
    if column.numbers is not None:
        lowest = float(column.numbers.min()) - 1.0
        yield np.where(codes >= 0, column.numbers[codes], lowest)
        return
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    for code in np.argsort(-sizes, kind="stable")[:MOST_CLASSES].tolist():
        yield (codes == code).astype(np.float64)


KINDS: Mapping[str, tuple[Callable[[str, Mapping[str, Any]], Result], tuple[str, ...], tuple[str, ...]]] = {
    "rule": (Rule.read, ("if", "then"), ("support", "confidence")),
    "rules": (Rules.read, ("then",), ("support", "confidence", "columns", "max_items")),
    "correlation": (Correlation.read, ("columns", "at_most"), ()),
    "share": (Share.read, ("where", "at_most"), ("of",)),
    "order": (Order.read, ("column", "by", "at_most"), ()),
    "model": (Model.read, ("target", "at_most"), ("columns",)),
}
"""Of each kind: its reader, its required parameters, and the others."""

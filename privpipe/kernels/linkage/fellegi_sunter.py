"""Probabilistic record linkage: counts of agreement patterns, and weights of agreement without known pairs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only, require_codes
from privpipe.compiled import njit
from privpipe.errors import UsageError
from privpipe.kernels.grouping.word_groups import group_rows

__all__ = [
    "Agreement",
    "CodeColumn",
    "Mixture",
    "NumberColumn",
    "Ranking",
    "expectation_maximisation",
    "known_mixture",
    "ranking",
]


MOST_PATTERNS = 1 << 20
TILE = 4096
CHUNK = 128
Integers = Ints


@dataclass(frozen=True)
class NumberColumn:
    """A column whose values agree within tolerances.

    Parameters
    ----------
    original, released : ndarray of float64, shape (n,)
        NaN: missing, which agrees (fully) only with missing.
    within : tuple of float
        Ascending, at least one. A pair's level is the number of tolerances it satisfies: 0 is disagreement.
    relative : bool
        Whether tolerances are shares of the original value's size.
    """

    original: Floats = field(repr=False)
    released: Floats = field(repr=False)
    within: tuple[float, ...]
    relative: bool = False

    @property
    def levels(self) -> int:
        """Levels above disagreement."""
        return len(self.within)


@dataclass(frozen=True)
class CodeColumn:
    """A column whose values agree or not.

    Parameters
    ----------
    original, released : ndarray of int64, shape (n,)
    mismatch : ndarray of bool, shape (original codes, released codes), optional
        Where they disagree; None: where the codes differ.
    """

    original: Integers = field(repr=False)
    released: Integers = field(repr=False)
    mismatch: Bools | None = field(default=None, repr=False)
    levels: int = 1


class _Side(NamedTuple):
    """Numbers and codes of the distinct records of one side, one row per column, and how many records each has."""

    numbers: Floats
    codes: Integers
    counts: Integers


class _Rules(NamedTuple):
    """For each tolerance its number column, radix, slope and base; for each code column radix and table."""

    tolerances: Floats
    coded: Integers
    table: Bools


class Agreement:
    """Patterns of agreement of released records with original ones.

    A pattern is a number with one digit for each column, the first column's lowest: its level of agreement.

    Parameters
    ----------
    columns : sequence of NumberColumn or CodeColumn
        Row i of both sides is the same record.

    Raises
    ------
    UsageError
        More than 2^20 patterns.

    Examples
    --------
    >>> x, y = np.array([1.0, 5.0, 9.0]), np.array([1.1, 8.0, 9.0])
    >>> found = Agreement([NumberColumn(x, y, (0.5,)), CodeColumn(np.array([0, 0, 1]), np.array([0, 0, 1]))])
    >>> every = np.arange(3)
    >>> found.counts(every, every).tolist()
    [4, 0, 3, 2]
    >>> found.of_partners(every).tolist()
    [3, 2, 3]
    """

    def __init__(self, columns: Sequence[NumberColumn | CodeColumn]) -> None:
        self.columns = tuple(columns)
        self.radices = np.cumprod([1, *(column.levels + 1 for column in columns)]).astype(np.int64)
        if self.radices[-1] > MOST_PATTERNS:
            raise UsageError(
                f"{self.radices[-1]:,} patterns of agreement; at most {MOST_PATTERNS:,} are possible; leave columns out"
            )

    @property
    def patterns(self) -> int:
        """How many there are."""
        return int(self.radices[-1])

    def levels(self) -> Integers:
        """Level of each column in each pattern, shape (patterns, columns)."""
        numbers = np.arange(self.patterns, dtype=np.int64)
        return np.column_stack(
            [numbers // self.radices[at] % (column.levels + 1) for at, column in enumerate(self.columns)]
        )

    def counts(self, attacked: Integers, candidates: Integers) -> Integers:
        """Pairs of each pattern between some released records and some original ones, shape (patterns,)."""
        total = np.zeros(self.patterns, dtype=np.int64)
        for found in self._each(attacked, candidates, lambda arrays: _count(*arrays, self.patterns))[0]:
            total += found
        return total

    def heaviest(self, attacked: Integers, candidates: Integers, ranks: Integers) -> tuple[Integers, Integers]:
        """Greatest rank among the candidates of each attacked released record, and how many have it.

        Parameters
        ----------
        ranks : ndarray of int64, shape (patterns,)
            From 0; equal for patterns of one weight.
        """
        fixed = read_only(ranks, np.int64)
        parts, groups = self._each(attacked, candidates, lambda arrays: _heaviest(*arrays, fixed))
        if not parts:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        best, ties = (np.concatenate(each)[groups] for each in zip(*parts, strict=True))
        return best, ties

    def of_partners(self, rows: Integers) -> Integers:
        """Pattern of each record with itself."""
        found = np.zeros(len(rows), dtype=np.int64)
        for at, column in enumerate(self.columns):
            x, y = column.original[rows], column.released[rows]
            if isinstance(column, CodeColumn):
                found += self.radices[at] * (x == y if column.mismatch is None else ~column.mismatch[x, y])
                continue
            both = np.isnan(x) & np.isnan(y)
            for slope, base in _bounds(column):
                found += self.radices[at] * (both | (np.abs(x - y) <= slope * np.abs(x) + base))
        return found

    def _each(self, attacked: Integers, candidates: Integers, work: Callable[[Any], Any]) -> tuple[list[Any], Integers]:
        """Result of `work` for each chunk of the distinct attacked records, and the distinct record of each record."""
        (near, groups), (far, _) = self._side("released", attacked), self._side("original", candidates)
        rules = self._rules()

        def part(start: int) -> Any:
            rows = slice(start, start + CHUNK)
            own = _Side(*(read_only(part[..., rows], part.dtype) for part in near))
            return work((own, far, rules))

        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with ThreadPoolExecutor(workers, thread_name_prefix="privpipe-agreement") as pool:
            return list(pool.map(part, range(0, len(near.counts), CHUNK))), groups

    def _side(self, side: str, rows: Integers) -> tuple[_Side, Integers]:
        sides = [getattr(column, side)[rows] for column in self.columns]
        numbers = [values for values in sides if values.dtype == np.float64]
        codes = [values for values in sides if values.dtype != np.float64]
        stacked = np.stack(numbers) if numbers else np.zeros((0, len(rows)))
        coded = np.stack(codes) if codes else np.zeros((0, len(rows)), dtype=np.int64)
        groups, firsts = group_rows(np.vstack([stacked.view(np.int64), coded]).T)
        counts = np.bincount(groups, minlength=len(firsts))
        kept = read_only(stacked[:, firsts], np.float64), read_only(coded[:, firsts], np.int64)
        return _Side(*kept, read_only(counts, np.int64)), groups

    def _rules(self) -> _Rules:
        tolerances, coded, tables = [], [], [np.zeros(0, dtype=np.bool_)]
        numbers = offset = 0
        for at, column in enumerate(self.columns):
            radix = int(self.radices[at])
            if isinstance(column, NumberColumn):
                tolerances += [(float(numbers), float(radix), slope, base) for slope, base in _bounds(column)]
                numbers += 1
            elif column.mismatch is None:
                coded.append((radix, -1, 1))
            else:
                coded.append((radix, offset, column.mismatch.shape[1]))
                require_codes(column.original, column.mismatch.shape[0], "a table of mismatches")
                require_codes(column.released, column.mismatch.shape[1], "a table of mismatches")
                tables.append(column.mismatch.ravel())
                offset += column.mismatch.size
        return _Rules(
            tolerances=read_only(np.array(tolerances).reshape(-1, 4), np.float64),
            coded=read_only(np.array(coded).reshape(-1, 3), np.int64),
            table=read_only(np.concatenate(tables), np.bool_),
        )


def _bounds(column: NumberColumn) -> list[tuple[float, float]]:
    """Slope and base of each tolerance, with the slack of `tolerance.slack`: |x - y| <= slope |x| + base."""
    if column.relative:
        return [(share * (1 + 1e-9), 1e-12) for share in column.within]
    return [(0.0, width * (1 + 1e-9) + 1e-12) for width in column.within]


@njit(nogil=True, cache=True)
def _add_numbers(
    numbers: Floats,
    far: Floats,
    tolerances: Floats,
    start: int,
    out: NDArray[np.int32],
) -> None:
    for t in range(len(tolerances)):
        column = int(tolerances[t, 0])
        radix = np.int32(tolerances[t, 1])
        slope, base = tolerances[t, 2], tolerances[t, 3]
        values, y = far[column], numbers[column]
        if np.isnan(y):
            for i in range(len(out)):
                out[i] += radix if np.isnan(values[start + i]) else np.int32(0)
        elif slope == 0.0:
            for i in range(len(out)):
                out[i] += radix if abs(values[start + i] - y) <= base else np.int32(0)
        else:
            for i in range(len(out)):
                x = values[start + i]
                out[i] += radix if abs(x - y) <= slope * abs(x) + base else np.int32(0)


@njit(nogil=True, cache=True)
def _add_codes(
    codes: Integers, far: Integers, coded: Integers, table: Bools, start: int, out: NDArray[np.int32]
) -> None:
    for k in range(len(coded)):
        radix = np.int32(coded[k, 0])
        offset, width, code = coded[k, 1], coded[k, 2], codes[k]
        others = far[k]
        if offset < 0:
            for i in range(len(out)):
                out[i] += radix if others[start + i] == code else np.int32(0)
        else:
            for i in range(len(out)):
                out[i] += np.int32(0) if table[offset + others[start + i] * width + code] else radix


@njit(nogil=True, cache=True)
def _patterns(near: _Side, r: int, far: _Side, rules: _Rules, start: int, out: NDArray[np.int32]) -> None:
    """Pattern of one released record with each original one of a tile."""
    out[:] = 0
    _add_numbers(near.numbers[:, r], far.numbers, rules.tolerances, start, out)
    _add_codes(near.codes[:, r], far.codes, rules.coded, rules.table, start, out)


@njit(nogil=True, cache=True)
def _count(near: _Side, far: _Side, rules: _Rules, patterns: int) -> Integers:
    counts = np.zeros(patterns, np.int64)
    n, m = far.numbers.shape[1], near.numbers.shape[1]
    out = np.empty(TILE, np.int32)
    for start in range(0, n, TILE):
        tile = out[: min(TILE, n - start)]
        for r in range(m):
            _patterns(near, r, far, rules, start, tile)
            for i in range(len(tile)):
                counts[tile[i]] += near.counts[r] * far.counts[start + i]
    return counts


@njit(nogil=True, cache=True)
def _heaviest(near: _Side, far: _Side, rules: _Rules, ranks: Integers) -> tuple[Integers, Integers]:
    n, m = far.numbers.shape[1], near.numbers.shape[1]
    best, ties = np.full(m, -1, np.int64), np.zeros(m, np.int64)
    out = np.empty(TILE, np.int32)
    for start in range(0, n, TILE):
        tile = out[: min(TILE, n - start)]
        for r in range(m):
            _patterns(near, r, far, rules, start, tile)
            for i in range(len(tile)):
                rank = ranks[tile[i]]
                if rank > best[r]:
                    best[r], ties[r] = rank, far.counts[start + i]
                elif rank == best[r]:
                    ties[r] += far.counts[start + i]
    return best, ties


SMALLEST = 1e-6
STEPS = 1000


@dataclass(frozen=True)
class Mixture:
    """Pairs as a mixture of matched and unmatched ones, columns independent within each.

    Parameters
    ----------
    matched, unmatched : tuple of ndarray of float64, shape (levels + 1,) for each column
        m and u: probability of each level of agreement, that of disagreement first. Each in [1e-6, 1 - 1e-6].
    share : float
        pi: the share of matched pairs among all pairs.
    steps : int
        Steps of expectation and maximisation; 0 where the true pairs were known.
    converged : bool
    """

    matched: tuple[Floats, ...] = field(repr=False)
    unmatched: tuple[Floats, ...] = field(repr=False)
    share: float
    steps: int = 0
    converged: bool = True

    def chances(self, levels: Integers) -> tuple[Floats, Floats]:
        """Logarithms of the probability of each pattern among matched and among unmatched pairs."""
        return _logs(self.matched, levels), _logs(self.unmatched, levels)


@dataclass(frozen=True)
class Ranking:
    """Patterns by weight, and where linked ones begin and non-linked ones end.

    Parameters
    ----------
    ranks : ndarray of int64, shape (patterns,)
        0 for the lightest; equal where weights are equal.
    linked_from : int
        Ranks from here on are linked.
    unlinked_below : int
        Ranks below are non-linked; those between are clerical.
    """

    ranks: Integers = field(repr=False)
    linked_from: int
    unlinked_below: int


def expectation_maximisation(counts: Integers, levels: Integers, share: float) -> Mixture:
    """Fit the mixture to the counts of the patterns, under independence of the columns within each part.

    Starts at pi = share, m = 0.9 for full agreement (the rest in equal parts) and u = the shares among all pairs; ends
    when the log-likelihood changes by less than 1e-9 of itself, or after 1000 steps. Where m of full agreement is
    below u for most columns, the two parts are exchanged.

    Source: Jaro, JASA 84, 1989; Winkler, 1988.

    Parameters
    ----------
    counts : ndarray of int64, shape (patterns,)
        Pairs of each pattern; at least one pair.
    levels : ndarray of int64, shape (patterns, columns)
        Level of each column in each pattern.
    share : float
        Start of pi, in (0, 1).

    Examples
    --------
    >>> levels = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    >>> found = expectation_maximisation(np.array([8800, 550, 550, 100]), levels, 0.01)
    >>> found.converged, bool(found.matched[0][1] > 0.7), bool(found.unmatched[0][1] < 0.1)
    (True, True, True)
    """
    seen = np.flatnonzero(counts)
    weights, digits = counts[seen].astype(np.float64), levels[seen]
    widths = levels.max(axis=0) + 1
    matched = tuple(np.append(np.full(width - 1, 0.1 / (width - 1)), 0.9) for width in widths)
    unmatched = _levels_of(weights, digits, widths)
    pi, before = min(max(share, 1e-12), 1 - 1e-12), -np.inf
    for step in range(1, STEPS + 1):
        one, other = np.log(pi) + _logs(matched, digits), np.log1p(-pi) + _logs(unmatched, digits)
        either = np.logaddexp(one, other)
        likelihood = float(weights @ either)
        if abs(likelihood - before) < 1e-9 * abs(likelihood):
            return _labelled(Mixture(matched, unmatched, pi, step - 1))
        before = likelihood
        belongs = np.exp(one - either)
        matched = _levels_of(weights * belongs, digits, widths)
        unmatched = _levels_of(weights * (1 - belongs), digits, widths)
        pi = min(max(float(weights @ belongs / weights.sum()), 1e-300), 1 - 1e-12)
    return _labelled(Mixture(matched, unmatched, pi, STEPS, converged=False))


def known_mixture(true: Integers, counts: Integers, levels: Integers) -> Mixture:
    """The mixture fitted from the true pairs: the worst case.

    Parameters
    ----------
    true : ndarray of int64, shape (pairs,)
        Patterns of the true pairs, at least one.
    counts : ndarray of int64, shape (patterns,)
        Counts over all pairs, including the true ones.
    """
    matched = np.bincount(true, minlength=len(counts)).astype(np.float64)
    rest = counts - matched
    widths = levels.max(axis=0) + 1
    others = rest if rest.sum() > 0 else matched
    return Mixture(
        _levels_of(matched, levels, widths), _levels_of(others, levels, widths), float(matched.sum() / counts.sum())
    )


def ranking(mixture: Mixture, levels: Integers, false_match: float, false_non_match: float) -> Ranking:
    """Order patterns by weight sum log2(m / u), and cut the order by the tolerated error rates.

    Linked from the top while the probability among unmatched pairs adds up to at most `false_match`; non-linked from
    the bottom while that among matched ones adds up to at most `false_non_match`. Where the two would meet, one cut:
    where the two errors cross, within both rates. Patterns of equal weight stay together.

    Source: Fellegi, Sunter, JASA 64, 1969.

    Examples
    --------
    >>> half, sure, rare = np.array([0.5, 0.5]), np.array([0.05, 0.95]), np.array([0.995, 0.005])
    >>> levels = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    >>> found = ranking(Mixture((sure, half), (rare, half), 0.1), levels, 0.01, 0.01)
    >>> found.ranks.tolist(), found.linked_from, found.unlinked_below
    ([0, 1, 0, 1], 1, 0)
    """
    matched, unmatched = mixture.chances(levels)
    weights = (matched - unmatched) / np.log(2.0)
    order = np.argsort(weights, kind="stable")
    steps = np.diff(weights[order]) > 1e-9 * (1.0 + np.abs(weights[order][1:]))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(steps)])
    size = int(ranks.max()) + 1
    of_matched = np.bincount(ranks, weights=np.exp(matched), minlength=size)
    of_unmatched = np.bincount(ranks, weights=np.exp(unmatched), minlength=size)
    # Error of a cut at c: unmatched pairs from rank c on, matched ones below it.
    false_links = np.append(np.cumsum(of_unmatched[::-1])[::-1], 0.0)
    false_gaps = np.append(0.0, np.cumsum(of_matched))
    lowest = int(np.argmax(false_links <= false_match + 1e-12))
    highest = size - int(np.argmax((false_gaps <= false_non_match + 1e-12)[::-1]))
    if highest <= lowest:
        return Ranking(ranks, lowest, highest)
    crossing = int(np.flatnonzero(false_links >= false_gaps)[-1])
    cut = min(max(crossing, lowest), highest)
    return Ranking(ranks, cut, cut)


def _logs(chances: tuple[Floats, ...], levels: Integers) -> Floats:
    total = np.zeros(len(levels))
    for at, chance in enumerate(chances):
        total += np.log(chance)[levels[:, at]]
    return total


def _levels_of(weights: Floats, levels: Integers, widths: Integers) -> tuple[Floats, ...]:
    """Share of each level in each column, clipped so that no evidence is absolute."""
    total = max(float(weights.sum()), 1e-300)
    return tuple(
        np.clip(np.bincount(levels[:, at], weights=weights, minlength=int(width)) / total, SMALLEST, 1 - SMALLEST)
        for at, width in enumerate(widths)
    )


def _labelled(found: Mixture) -> Mixture:
    """The mixture with the part that agrees more often as the matched one."""
    fewer = sum(bool(m[-1] < u[-1]) for m, u in zip(found.matched, found.unmatched, strict=True))
    if 2 * fewer <= len(found.matched):
        return found
    return Mixture(found.unmatched, found.matched, 1 - found.share, found.steps, found.converged)

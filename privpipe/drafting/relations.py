"""Relations between the columns of a table: which depend on others, and what makes records unique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.drafting.guesses import guess_role, is_age, is_birth, is_household_name, is_person_name, is_weight_name
from privpipe.drafting.profile import NUMBERS, Guess, Profile
from privpipe.engines import Engine

__all__ = [
    "FINE_VALUES",
    "MOST_RECORDS",
    "SURE",
    "WORTH",
    "CodedTable",
    "Relations",
    "coded_table",
    "is_fine",
    "is_prose",
    "relate",
    "whole_groups",
]


FIRST = 2_000
"""Records that are enough to distinguish most pairs of columns, before all of them are looked at."""
SAMPLE_KEY = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class CodedTable:
    """Columns of one table as codes from 0; a missing value is one more.

    Parameters
    ----------
    codes : mapping of column to ndarray of int32, shape (records,)
    sizes : mapping of column to int
        Distinct values, a missing one too.

    Examples
    --------
    >>> codes = {"town": np.array([0, 1, 2, 2]), "region": np.array([0, 0, 1, 1])}
    >>> table = CodedTable(codes, {"town": 3, "region": 2})
    >>> table.follows("region", "town"), table.follows("town", "region"), table.unique(["town"])
    (True, False, 0.5)
    """

    codes: Mapping[str, NDArray[Any]]
    sizes: Mapping[str, int]
    _joint: dict[tuple[str, ...], Ints] = field(default_factory=dict, repr=False, compare=False)

    @property
    def records(self) -> int:
        """How many there are."""
        return len(next(iter(self.codes.values()))) if self.codes else 0

    def follows(self, coarse: str, fine: str) -> bool:
        """Whether the one column is a function of the other."""
        head = slice(0, FIRST)
        if not self._functional(self.codes[fine][head], self.codes[coarse][head]):
            return False
        return self._functional(self.codes[fine], self.codes[coarse])

    @staticmethod
    def _functional(fine: NDArray[Any], coarse: NDArray[Any]) -> bool:
        last = np.zeros(int(fine.max(initial=-1)) + 1, dtype=coarse.dtype)
        last[fine] = coarse
        return bool((last[fine] == coarse).all())

    def bound(self, coarse: str, fine: str) -> float:
        """Pairs of records equal in the finer column that a chance would have made differ in the coarser one."""
        counts = np.bincount(self.codes[coarse])
        total = int(counts.sum())
        alike = float((counts / total) @ (counts / total)) if total else 1.0
        groups = np.bincount(self.codes[fine])
        return float((groups[groups > 0] - 1).sum()) * (1 - alike)

    def unique(self, columns: Sequence[str]) -> float:
        """Share of records that are alone with their values."""
        if not columns or not self.records:
            return 0.0
        counts = np.bincount(self._together(tuple(sorted(columns))))
        return float((counts == 1).sum() / self.records)

    def risk(self, columns: Sequence[str]) -> float:
        """Mean over the records of one over the number of those with the same values."""
        if not columns or not self.records:
            return 0.0
        return int(np.count_nonzero(np.bincount(self._together(tuple(sorted(columns)))))) / self.records

    def _together(self, columns: tuple[str, ...]) -> Ints:
        found = self._joint.get(columns)
        if found is None:
            last = self.codes[columns[-1]].astype(np.int64)
            if len(columns) == 1:
                return last
            found = _numbered(self._together(columns[:-1]) * self.sizes[columns[-1]] + last)
            self._joint[columns] = found
        return found


def _numbered(values: Ints) -> Ints:
    """Equal values as equal numbers from 0, by hashing: no order is needed, and sorting takes four times as long."""
    import pyarrow as pa

    return pa.array(values).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def coded_table(table: Any, names: Sequence[str]) -> CodedTable:
    """Columns of an Arrow table as codes."""
    codes, sizes = {}, {}
    for name in names:
        found = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes[name] = found.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        sizes[name] = max(len(found.dictionary), 1)
    return CodedTable(codes, sizes)


def whole_groups(key: NDArray[Any], share: float) -> Bools:
    """Which records are in a sample of about that share of all groups: each group whole, or not at all.

    Parameters
    ----------
    key : ndarray of int, shape (records,)
        The group of each.

    Examples
    --------
    >>> kept = whole_groups(np.repeat(np.arange(1000), 3), 0.5)
    >>> groups = kept.reshape(-1, 3)
    >>> bool((groups.min(axis=1) == groups.max(axis=1)).all()), bool(1200 < kept.sum() < 1800)
    (True, True)
    """
    mixed = key.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(SAMPLE_KEY)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed < np.uint64(min(int(share * 2**64), 2**64 - 1)))


MOST_DISTINCT = 10_000
MOST_RECORDS = 1_000_000
"""Records above which relations are measured on a sample."""
MOST_FOR_UNIQUENESS = 100_000
FINE_VALUES = 50
FINE_SHARE = 0.05
FEW_FRACTIONS = 12
FREE_WORDS = 4.0
LEAST_KEY_SHARE = 0.05
MOST_OF_A_KEY = 30.0
SURE = 20.0
"""Pairs of records that a chance would have made differ; from here on a dependency is taken for one."""
SAME_AGE = 0.99
WORTH = 0.01
"""Share of records that a column has to make unique on top of the others, to be proposed as known."""


@dataclass(frozen=True)
class Relations:
    """What was measured between columns.

    Parameters
    ----------
    repeats : mapping of column to column
        Columns whose values correspond one to one to those of another that is kept.
    follows : mapping of column to column
        Columns that are a function of a finer one: the coarsest of those.
    keys : mapping of column to tuple of str
        Columns that group a few records each, and what is the same within all of their groups.
    ages : mapping of column to column
        Columns of births, and the column of ages that gives the same information.
    alone : float
        Share of records that the recognised quasi-identifiers make unique.
    adds : mapping of column to float
        Share of records that a column not recognised makes unique on top of these and of those before it.
    records : int
        Records it was measured on; 0: all.
    by_key : str
        The column by whose groups these were drawn, whole; empty where records were.
    decided : mapping of column to Guess
        Columns that would give back what others generalize, and what is done with them.
    """

    repeats: Mapping[str, str] = field(default_factory=dict)
    follows: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ages: Mapping[str, str] = field(default_factory=dict)
    alone: float = 0.0
    adds: Mapping[str, float] = field(default_factory=dict)
    records: int = 0
    by_key: str = ""
    decided: Mapping[str, Guess] = field(default_factory=dict)


def relate(engine: Engine, table: Any, profiles: Sequence[Profile], most: int = MOST_RECORDS) -> Relations:
    """Measure a table; of more than `most` records a sample of whole groups of the column that seems to be its key.

    Parameters
    ----------
    profiles : sequence of Profile
        Of all its columns.
    """
    records = profiles[0].records
    wanted = [each for each in profiles if 1 < each.distinct < max(3, 0.95 * each.records)]
    names = [each.name for each in wanted]
    if not names:
        return Relations()
    rows = engine.collect(engine.select(table, names))
    key = ""
    if records > most:
        rows, key = _sampled(rows, wanted, most / records)
    coded = coded_table(rows, names)
    coarse = [each.name for each in wanted if each.distinct <= min(MOST_DISTINCT, max(records // 2, 2))]
    keys = dict(_keys(coded, wanted, coarse))
    repeats, follows = _dependencies(coded, wanted, [name for name in coarse if name not in keys])
    ages = dict(_ages(rows, wanted))
    grouping = (each for each in wanted if is_household_name(each.name) or is_person_name(each.name))
    named = {each.name for each in grouping if each.distinct > max(FINE_VALUES, records // 10)}
    taken = {*repeats, *keys, *ages, *named, *(each.name for each in wanted if is_weight_name(each.name))}
    guesses = {each.name: guess_role(each) for each in profiles if each.name not in taken}
    known = [name for name, guess in guesses.items() if guess.role == "quasi_identifier" and not guess.unknown]
    open_ = [each for each in profiles if each.name in guesses and guesses[each.name].unknown]
    unknown = [each.name for each in open_ if not is_fine(each) and not is_prose(each)]
    known, unknown = ([name for name in some if name in coded.codes] for some in (known, unknown))
    small = _thinner(coded, keys)
    alone = small.unique(known)
    adds = dict(_ranked(small, known, unknown))
    return Relations(repeats, follows, keys, ages, alone, adds, coded.records if records > most else 0, key)


def is_fine(profile: Profile) -> bool:
    """Whether a column is a measured number: many values, or fractions.

    Examples
    --------
    >>> is_fine(Profile("mg", "number", 1000, 0, 60, whole=False)), is_fine(Profile("mg", "integer", 1000, 0, 60))
    (True, True)
    >>> is_fine(Profile("rooms", "integer", 1000, 0, 9))
    False
    """
    many = profile.distinct > max(FINE_VALUES, FINE_SHARE * profile.records)
    return profile.type in NUMBERS and (many or (not profile.whole and profile.distinct > FEW_FRACTIONS))


def is_prose(profile: Profile) -> bool:
    """Whether a column is free text."""
    return profile.words >= FREE_WORDS and profile.distinct > FINE_VALUES


def _sampled(rows: Any, profiles: Sequence[Profile], share: float) -> tuple[Any, str]:
    """A keyed sample of whole groups of the likeliest key, of records where there is none."""
    named = [each for each in profiles if is_person_name(each.name) or is_household_name(each.name)]
    named = [each for each in named if each.distinct > LEAST_KEY_SHARE * each.records] or [
        each for each in profiles if each.type in ("integer", "text") and each.distinct > each.records / MOST_OF_A_KEY
    ]
    if not named:
        return rows.filter(whole_groups(np.arange(len(rows)), share)), ""
    key = min(named, key=lambda each: each.distinct)
    codes = coded_table(rows, [key.name]).codes[key.name]
    return rows.filter(whole_groups(codes, share)), key.name


def _keys(
    coded: CodedTable, profiles: Sequence[Profile], coarse: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Columns of no recognised meaning whose groups are small and alike in some other column."""
    for each in profiles:
        size = each.records / each.distinct
        if each.type not in ("integer", "text") or size > MOST_OF_A_KEY or not each.whole:
            continue
        guess = guess_role(each)
        if guess.role != "identifier" and not guess.unknown:
            continue
        alike = tuple(
            name
            for name in coarse
            if name != each.name
            and coded.sizes[name] < coded.sizes[each.name] / 1.5
            and coded.follows(name, each.name)
            and coded.bound(name, each.name) >= SURE
        )
        if alike:
            yield each.name, alike


def _dependencies(
    coded: CodedTable, profiles: Sequence[Profile], coarse: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What says the same as another column, and what is a function of one; of the finer ones the coarsest."""
    rank = {each.name: _standing(each, at) for at, each in enumerate(profiles)}
    repeats: dict[str, str] = {}
    follows: dict[str, str] = {}
    for pair in combinations(coarse, 2):
        first, second = sorted(pair, key=lambda name: rank[name])
        sizes = coded.sizes
        if first in repeats or second in repeats or min(sizes[first], sizes[second]) <= 1:
            continue
        finer, coarser = (first, second) if sizes[first] >= sizes[second] else (second, first)
        if max(sizes.values()) <= 1 or not coded.follows(coarser, finer) or coded.bound(coarser, finer) < SURE:
            continue
        if sizes[first] == sizes[second]:
            repeats[second] = first
        elif coarser not in follows or sizes[finer] < sizes[follows[coarser]]:
            follows[coarser] = finer
    return repeats, {name: other for name, other in follows.items() if name not in repeats and other not in repeats}


def _standing(profile: Profile, at: int) -> tuple[bool, bool, int]:
    """Which of two columns that say the same is kept: a recognised one, then words, then the first."""
    guess = guess_role(profile)
    return guess.unknown or guess.role == "identifier", profile.type in NUMBERS, at


def _ages(rows: Any, profiles: Sequence[Profile]) -> Iterator[tuple[str, str]]:
    """Columns of births, or of numbers whatever their name, that run along a column of ages."""
    ages = [each.name for each in profiles if is_age(each)]
    for each in profiles:
        if (
            ages
            and each.name not in ages
            and (is_birth(each) or (each.type in NUMBERS and each.distinct > FEW_FRACTIONS))
        ):
            years = _numbers(rows.column(each.name))
            for age in ages:
                if years is not None and _runs_along(years, _numbers(rows.column(age))):
                    yield each.name, age
                    break


def _numbers(column: Any) -> Any:
    """A column of numbers or dates, as texts too, as floats; None where it is neither."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = column.combine_chunks()
    if pa.types.is_temporal(flat.type):
        return pc.cast(pc.cast(flat, pa.date32()), pa.int32()).to_numpy(zero_copy_only=False).astype(float)
    for steps in ((pa.float64(),), (pa.date32(), pa.int32()), (pa.timestamp("us"), pa.date32(), pa.int32())):
        found = flat
        try:
            for step in steps:
                found = pc.cast(found, step)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        return found.to_numpy(zero_copy_only=False).astype(float)
    return None


def _runs_along(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    both = ~(np.isnan(one) | np.isnan(other))
    if both.sum() < FINE_VALUES or np.ptp(one[both]) == 0 or np.ptp(other[both]) == 0:
        return False
    return bool(abs(np.corrcoef(one[both], other[both])[0, 1]) >= SAME_AGE)


def _thinner(coded: CodedTable, keys: Mapping[str, Any]) -> CodedTable:
    """Fewer records of a large table, for what has to be counted many times."""
    if coded.records <= MOST_FOR_UNIQUENESS:
        return coded
    key = coded.codes[min(keys, key=lambda name: coded.sizes[name])] if keys else np.arange(coded.records)
    kept = whole_groups(key, MOST_FOR_UNIQUENESS / coded.records)
    return CodedTable({name: codes[kept] for name, codes in coded.codes.items()}, coded.sizes)


def _ranked(coded: CodedTable, known: Sequence[str], unknown: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Columns by what each adds to the mean risk on top of those before it, with the share it makes unique."""
    chosen, left = list(known), list(unknown)
    while left:
        risk, before = coded.risk(chosen), coded.unique(chosen)
        found = {name: coded.risk([*chosen, name]) - risk for name in left}
        best = max(left, key=lambda name: (found[name], -left.index(name)))
        if found[best] < WORTH:
            for name in sorted(left, key=lambda name: -found[name]):
                yield name, min(coded.unique([*chosen, name]) - before, WORTH / 2)
            return
        yield best, max(coded.unique([*chosen, best]) - before, WORTH)
        chosen.append(best)
        left.remove(best)

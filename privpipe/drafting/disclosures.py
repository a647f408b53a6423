"""What released columns would give back of generalized ones: parts of dates, predictors, and raw columns together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from privpipe.blocks import Cells, ClassBlock, Facts
from privpipe.blocks.arrays import Ints
from privpipe.drafting.guesses import calendar_part, is_birth, is_date, is_weight_name, standing_of
from privpipe.drafting.profile import Guess, Profile
from privpipe.drafting.relations import SURE, CodedTable, Relations, coded_table, is_fine, is_prose, whole_groups
from privpipe.drafting.roles import related_guesses, suggest_hierarchy
from privpipe.engines import Engine
from privpipe.kernels.classes.coded_classes import Coded, coded_cells
from privpipe.measures.risk.attribute.recovery import Confirming

__all__ = ["MOST_GAIN", "MOST_UNIQUE", "disclosing", "gain_of"]


MOST_GAIN = 0.05
"""Share of the records that other columns may add to what the most frequent value of a column reveals of it."""
MOST_UNIQUE = 0.2
"""Share of the records that may be unique over the columns that are released raw."""
MOST_RECORDS = 50_000
ROOM = 6
"""Quasi-identifiers; further columns are dropped."""
FEWEST = 100
"""Records below which nothing can be measured."""
DEPENDENT = 0.005
"""Gain from which a column is tested with others."""
MOST_TESTED = 6
"""Columns that are tested in pairs and triples for one quasi-identifier."""
LABELS = 8
"""Labels that a generalized column is taken to keep."""
SAME = 0.9
"""Share of the records in which the part of a date is that of another column."""


def disclosing(engine: Engine, table: Any, profiles: Sequence[Profile], found: Relations) -> Relations:
    """The relations with what is decided about columns that would give back what another one generalizes.

    Parameters
    ----------
    profiles : sequence of Profile
        Of all columns.
    """
    records = profiles[0].records
    names = [each.name for each in profiles if each.distinct > 1]
    if records < FEWEST or not names:
        return found
    rows = engine.collect(engine.select(table, names))
    if records > MOST_RECORDS:
        rows = rows.filter(whole_groups(np.arange(len(rows)), MOST_RECORDS / records))
    coded = coded_table(rows, names)
    for decide in (_calendar, _functions, _predictors, _crowd):
        guesses = related_guesses(profiles, found)
        more = dict(decide(Seen(rows, coded, profiles, found.follows, guesses)))
        found = replace(found, decided={**found.decided, **more})
    return found


@dataclass(frozen=True)
class Seen:
    """What is decided by: records, their codes, all columns, functions of others, and the guesses so far."""

    rows: Any
    coded: CodedTable
    profiles: Sequence[Profile]
    follows: Mapping[str, str]
    guesses: Mapping[str, Guess]

    def in_role(self, *roles: str) -> list[Profile]:
        """The columns in these roles."""
        known = [each for each in self.profiles if each.name in self.coded.codes]
        return [each for each in known if self.guesses[each.name].role in roles]

    @property
    def raw(self) -> list[Profile]:
        """Columns that are released though nothing is done to them, or little."""
        return [each for each in self.in_role("insensitive") if not is_prose(each) and not is_weight_name(each.name)]

    @property
    def coarse(self) -> list[Profile]:
        """Columns that are likely to be generalized."""
        known = self.in_role("quasi_identifier")
        return [each for each in known if each.distinct > LABELS and suggest_hierarchy(each)]

    @property
    def room(self) -> int:
        """How many more quasi-identifiers a table may have."""
        return ROOM - sum(guess.role == "quasi_identifier" for guess in self.guesses.values())


def gain_of(coded: CodedTable, column: str, by: Sequence[str], label: Ints | None = None) -> float:
    """Share of the records whose value of a column is guessed by others in addition to its label.

    Each value is guessed from the other records of its group, so that groups of one record show nothing.

    Parameters
    ----------
    label : ndarray of int64, optional
        What is released of the column; left out, nothing.

    Examples
    --------
    >>> born = np.repeat(np.arange(40), 10)
    >>> codes = {"born": born, "age": 39 - born, "sex": np.arange(400) % 2}
    >>> table = CodedTable(codes, {"born": 40, "age": 40, "sex": 2})
    >>> round(gain_of(table, "age", ["born"]), 3), gain_of(table, "age", ["sex"])
    (0.975, 0.0)
    """
    known = np.zeros(coded.records, dtype=np.int64) if label is None else label
    values = Coded(coded.codes[column].astype(np.int64), coded.sizes[column])
    labels = Coded(known, int(known.max()) + 1)
    alone = coded_cells([labels], values)
    base = float(np.maximum.reduceat(alone.counts, alone.offsets[:-1]).sum()) / coded.records
    cells = coded_cells(
        [labels, *(Coded(coded.codes[name].astype(np.int64), coded.sizes[name]) for name in by)], values
    )
    block = ClassBlock(cells.sizes, {column: Cells(cells.offsets, cells.codes, cells.counts)})
    guessed = Confirming(column).measure(block, Facts())
    return max((guessed.right + guessed.alone * base) / coded.records - base, 0.0)


def _label(rows: Any, coded: CodedTable, column: Profile) -> Ints:
    """What a release may show of a column: numbers and dates in eighths, the most frequent of other values."""
    import pyarrow.compute as pc

    codes = coded.codes[column.name].astype(np.int64)
    if column.type == "text" or column.type == "boolean":
        counts = np.bincount(codes)
        kept = np.argsort(-counts, kind="stable")[:LABELS]
        place = np.full(len(counts), LABELS, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        labels: Ints = place[codes]
        return labels
    ranks = pc.rank(rows.column(column.name), sort_keys="ascending", tiebreaker="min").to_numpy().astype(np.int64) - 1
    eighths: Ints = ranks * LABELS // max(len(ranks), 1)
    return eighths


def _calendar(seen: Seen) -> Iterator[tuple[str, Guess]]:
    """Dates and their parts, which are one thing: the date is kept, or the parts are judged together."""
    known = seen.in_role("quasi_identifier", "insensitive")
    dates = [each for each in known if is_date(each)]
    parts = [each for each in known if each not in dates and (calendar_part(each.name) or is_birth(each))]
    for date in dates:
        if seen.guesses[date.name].role == "insensitive":
            reason = "a date, which an attacker may know; insensitive if none can"
            yield date.name, Guess("quasi_identifier", reason, unknown=True)
    left = []
    for part in parts:
        of = next((date.name for date in dates if _is_part(seen.rows, seen.coded, part, date)), "")
        if of:
            reason = f"a part of {of!r}: it would give back what is generalized there; derive it from the released date"
            yield part.name, Guess("drop", reason)
        else:
            left.append(part)
    if len(left) > 1 and not dates:
        for part in left:
            if seen.guesses[part.name].role == "insensitive":
                others = ", ".join(repr(each.name) for each in left if each is not part)
                yield part.name, Guess("quasi_identifier", f"a part of a date, together with {others}")


def _is_part(rows: Any, coded: CodedTable, part: Profile, date: Profile) -> bool:
    """Whether a column follows from a date: as its part, or because each date has one value of it."""
    if date.name in coded.codes and coded.follows(part.name, date.name) and coded.bound(part.name, date.name) >= SURE:
        return True
    kind = calendar_part(part.name)
    numbers, moments = _whole(rows.column(part.name)), _moments(rows.column(date.name))
    if numbers is None or moments is None or not kind:
        return False
    import pyarrow.compute as pc

    found = pc.equal(getattr(pc, kind)(moments), numbers)
    return bool((pc.mean(pc.cast(found, "int8")).as_py() or 0.0) >= SAME)


def _whole(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(column, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _moments(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return column
    try:
        return pc.cast(column, pa.timestamp("us"))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _functions(seen: Seen) -> Iterator[tuple[str, Guess]]:
    """Raw columns that are a function of one that is generalized."""
    coarse = {each.name for each in seen.coarse}
    for each in seen.raw:
        finer = seen.follows.get(each.name)
        if finer in coarse:
            reason = f"a function of {finer!r}: it would give back some of what is generalized there"
            yield each.name, Guess("drop", reason)


def _predictors(seen: Seen) -> dict[str, Guess]:
    """Raw columns, alone or by twos and threes, that predict a quasi-identifier which is generalized."""
    coded, room = seen.coded, seen.room
    raw = [each for each in seen.raw if each.distinct <= coded.records / 2]
    fine = {each.name for each in raw if is_fine(each)}
    decided: dict[str, Guess] = {}
    for column in sorted(seen.coarse, key=lambda each: -each.distinct):
        label = _label(seen.rows, coded, column)
        left = [each.name for each in raw if each.name not in decided]
        for by, gain in _sets(coded, column.name, left, label):
            subject = "predicts" if len(by) == 1 else f"{' and '.join(map(repr, by))} together predict"
            reason = (
                f"{subject} {column.name!r}: {100 * gain:.1f} % more of its values are guessed than from a coarse label"
            )
            for name in by:
                if room > 0 and name not in fine:
                    decided[name] = Guess("quasi_identifier", f"{reason}; judged with it", unknown=True)
                    room -= 1
                else:
                    decided[name] = Guess("drop", f"{reason}; it would give back what is generalized there")
    return decided


def _sets(coded: CodedTable, column: str, raw: Sequence[str], label: Ints) -> Iterator[tuple[tuple[str, ...], float]]:
    """Columns, then pairs and triples of the others that depend on a column, whose gain is above the threshold."""
    gains = {name: gain_of(coded, column, [name], label) for name in raw}
    taken = {name for name, gain in gains.items() if gain > MOST_GAIN}
    for name in raw:
        if name in taken:
            yield (name,), gains[name]
    left = [name for name in raw if name not in taken]
    depend = [name for name in left if gains[name] > DEPENDENT or coded.follows(name, column)]
    depend = sorted(depend, key=lambda name: -gains[name])[:MOST_TESTED]
    for size in (2, 3):
        for by in combinations(depend, size):
            if not taken.intersection(by):
                gain = gain_of(coded, column, by, label)
                if gain > MOST_GAIN:
                    taken.update(by)
                    yield by, gain


def _crowd(seen: Seen) -> Iterator[tuple[str, Guess]]:
    """Those of the raw columns without which the others do not make too many records unique."""
    coded, room = seen.coded, seen.room
    raw = [each for each in seen.raw if not is_fine(each)]
    share = coded.unique([each.name for each in raw])
    if len(raw) < 3 or share <= MOST_UNIQUE:
        return
    kept: list[str] = []
    left = [each.name for each in raw]
    while left:
        found = {name: coded.unique([*kept, name]) for name in left}
        least = min(left, key=lambda name: (found[name], left.index(name)))
        if found[least] > MOST_UNIQUE:
            break
        kept.append(least)
        left.remove(least)
    crowd = f"the {len(raw)} columns taken for insensitive together make {100 * share:.1f} % of the records unique"
    rest = f"{100 * coded.unique(kept):.1f} % without {len(left)} of them"
    ranked = sorted(
        (each for each in raw if each.name in left), key=lambda each: (-standing_of(each.name), each.distinct)
    )
    for at, each in enumerate(ranked):
        if at < room:
            reason = f"{crowd}, {rest}; insensitive if no attacker can know it"
            yield each.name, Guess("quasi_identifier", reason, unknown=True)
        else:
            yield each.name, Guess("drop", f"{crowd}, {rest}; there are {ROOM} quasi-identifiers already")

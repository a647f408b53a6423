"""The rest of local recoding merged in plain Python, straight from the definition, on texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from privpipe.testing import Classes, oracle_of

__all__ = ["plainly_merged"]

UNIT = 1 << 22
NEAREST = 32


class Table:
    """A problem, and what its cells lose in whole units, weighted by what each column loses before."""

    def __init__(self, problem: Any, kept: Sequence[Sequence[int] | None]) -> None:
        self.problem = problem
        self.limits = [problem.limits.get(name, (0, len(problem.hierarchies[name][0]) - 1)) for name in problem.columns]
        n, self.weights = len(kept), []
        for at in range(len(self.limits)):
            lost = sum(UNIT if node is None else self.unit(at, row, node[at]) for row, node in enumerate(kept))
            self.weights.append(UNIT * UNIT * n // (UNIT * n + lost))

    def unit(self, at: int, row: int, level: int) -> int:
        name = self.problem.columns[at]
        share = self.problem.share(name, self.problem.rows[name][row], level)
        return round(self.problem.unit(name, share) * UNIT)

    def label(self, at: int, row: int, level: int) -> Any:
        name = self.problem.columns[at]
        return next(own[level] for own in self.problem.hierarchies[name] if own[0] == self.problem.rows[name][row])

    def labels(self, row: int, node: Sequence[int]) -> tuple[Any, ...]:
        own = [self.label(at, row, level) for at, level in enumerate(node)]
        return (*own, *(self.problem.rows[key][row] for key in self.problem.keys if key not in self.problem.columns))

    def cost(self, rows: Sequence[int], node: Sequence[int]) -> int:
        each = [self.unit(at, rows[0], level) * self.weights[at] // UNIT for at, level in enumerate(node)]
        return sum(each) * len(rows)

    def common(self, rows: Sequence[int]) -> tuple[int, ...] | None:
        """The lowest levels at which some rows have equal labels; None where a column may not go so high."""
        found = []
        for at, (least, most) in enumerate(self.limits):
            levels = [
                level for level in range(least, most + 1) if len({self.label(at, row, level) for row in rows}) == 1
            ]
            if not levels:
                return None
            found.append(levels[0])
        stay = {self.labels(row, found)[len(found) :] for row in rows}
        return tuple(found) if len(stay) == 1 else None

    def holds(self, rows: Sequence[int]) -> bool:
        values = {"ill": self.problem.rows["ill"]}
        seen: Any = Classes([list(rows)], 0, values, {"ill": Counter(values["ill"])})
        return all(oracle_of(type(each))(each, seen).outcome == "pass" for each in self.problem.guarantees)


def plainly_merged(problem: Any, kept: Sequence[Sequence[int] | None], allowed: int) -> list[tuple[Any, ...] | None]:
    """Released labels of each row; None: suppressed. Every guarantee is over all the keys."""
    table = Table(problem, kept)
    lowest = tuple(least for least, _ in table.limits)
    classes: dict[tuple[Any, ...], tuple[list[int], tuple[int, ...]]] = {}
    for row, node in enumerate(kept):
        own = tuple(lowest if node is None else node)
        classes.setdefault(table.labels(row, own), ([], own))[0].append(row)
    starts = {row: order_of(key) for key, (rows, _) in classes.items() for row in rows}

    def place(key: tuple[Any, ...]) -> list[tuple[bool, str]]:
        """Of a union: that of the first of the classes it was made of."""
        return min(starts[row] for row in classes[key][0])

    bad = {
        key for key, (rows, _) in classes.items() if any(kept[row] is None for row in rows) and not table.holds(rows)
    }
    for forced in (False, True):
        aside: set[Any] = set()
        while waiting := sorted(bad - aside, key=lambda key: (len(classes[key][0]), place(key))):
            if forced and sum(len(classes[key][0]) for key in bad) <= allowed:
                break
            own = waiting[0]
            other = partner(table, classes, bad, own, sorted(classes, key=place), forced=forced)
            if other is None:
                aside.add(own)
                continue
            united(table, classes, bad, own, other)
            aside &= bad
    found: list[tuple[Any, ...] | None] = [None] * len(kept)
    for key, (rows, _) in classes.items():
        for row in rows:
            found[row] = None if key in bad else key
    return found


def order_of(key: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(text is None, text or "") for text in key]


def partner(table: Table, classes: Any, bad: set[Any], own: Any, others: list[Any], *, forced: bool) -> Any:
    rows, node = classes[own]
    full = sum(table.weights)
    found = []
    for key in others:
        theirs, level = classes[key]
        common = None if key == own else table.common([*rows, *theirs])
        if common is None:
            continue
        gains = full * len(theirs) - table.cost(theirs, level) if key in bad else 0
        more = table.cost([*rows, *theirs], common) - table.cost(rows, node) - table.cost(theirs, level)
        worth = more < gains + full * len(rows) - table.cost(rows, node)
        found.append((more, key, worth))
    nearest = sorted(found, key=lambda each: each[0])[:NEAREST]
    asked = [key for _, key, worth in nearest if worth or forced]
    for key in asked:
        if key in bad or table.holds([*rows, *classes[key][0]]):
            return key
    return asked[0] if forced and asked else None


def united(table: Table, classes: Any, bad: set[Any], own: Any, other: Any) -> None:
    rows = sorted([*classes.pop(own)[0], *classes.pop(other)[0]])
    node = table.common(rows)
    assert node is not None
    bad -= {own, other}
    key = table.labels(rows[0], node)
    if key in classes:
        rows += classes.pop(key)[0]
        bad -= {key}
    classes[key] = (rows, node)
    if not table.holds(rows):
        bad.add(key)

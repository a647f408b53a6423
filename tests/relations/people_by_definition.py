"""The figures of related tables by their definition: every person, every knowledge that is true of it, everyone asked.

No code is shared with the product: knowledge is tried on every person, and nothing is joined or grouped.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = ["People"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class People:
    """Related tables as plain rows.

    Parameters
    ----------
    root : sequence of rows
    children : mapping of table to rows that have the person's key under `key`
    key : str
    quasi_identifiers : mapping of table to columns; that of the root under ``""``
    knows : mapping of table to number or "all"
    counted : bool
    """

    root: Sequence[Row]
    children: Mapping[str, Sequence[Row]]
    key: str
    quasi_identifiers: Mapping[str, Sequence[str]]
    knows: Mapping[str, int | str]
    counted: bool = False

    def root_of(self, person: Row) -> tuple[Any, ...]:
        shown = tuple(person[name] for name in self.quasi_identifiers.get("", ()))
        if not self.counted:
            return shown
        return (*shown, *(sum(self.rows(person, table).values()) for table in self.children))

    def rows(self, person: Row, table: str) -> Counter[tuple[Any, ...]]:
        names = self.quasi_identifiers.get(table, ())
        own = (row for row in self.children[table] if row[self.key] == person[self.key])
        return Counter(tuple(row[name] for name in names) for row in own)

    def knowledge(self, person: Row) -> Iterator[dict[str, Counter[Any]]]:
        options = []
        for table in self.children:
            rows, most = self.rows(person, table), self.knows.get(table, 0)
            if most == "all":
                options.append([rows])
                continue
            found = {
                tuple(sorted(pick, key=repr))
                for size in range(int(most) + 1)
                for pick in itertools.combinations(sorted(rows.elements(), key=repr), size)
            }
            options.append([Counter(pick) for pick in found])
        for picks in itertools.product(*options):
            yield dict(zip(self.children, picks, strict=True))

    def is_true(self, known: Mapping[str, Counter[Any]], person: Row) -> bool:
        for table, pick in known.items():
            rows = self.rows(person, table)
            if self.knows.get(table, 0) == "all":
                if rows != pick:
                    return False
            elif any(rows[row] < many for row, many in pick.items()):
                return False
        return True

    def groups(self, person: Row) -> Iterator[list[Row]]:
        for known in self.knowledge(person):
            root = self.root_of(person)
            yield [other for other in self.root if self.root_of(other) == root and self.is_true(known, other)]

    def k(self) -> int:
        return min(len(group) for person in self.root for group in self.groups(person))

    def failing(self, k: int) -> list[Any]:
        return [person[self.key] for person in self.root if any(len(group) < k for group in self.groups(person))]

    def stable(self, k: int) -> list[Any]:
        """Keys of the greatest set of persons in which no one fails."""
        left = self
        while lost := set(left.failing(k)):
            root = [person for person in left.root if person[self.key] not in lost]
            left = People(root, self.children, self.key, self.quasi_identifiers, self.knows, self.counted)
        return [person[self.key] for person in left.root]

    def held(self, person: Row, table: str, column: str) -> set[Any]:
        if not table:
            return {person[column]}
        return {row[column] for row in self.children[table] if row[self.key] == person[self.key]}

    def shares(self, table: str, column: str) -> Iterator[tuple[int, Counter[Any]]]:
        """The size of every group, and of each value the persons who have it."""
        for person in self.root:
            for group in self.groups(person):
                yield len(group), Counter(value for other in group for value in self.held(other, table, column))

    def alpha(self, table: str, column: str) -> Fraction | None:
        found = [Fraction(max(n.values()), size) for size, n in self.shares(table, column) if n]
        return max(found, default=None)

    def distinct(self, table: str, column: str) -> int | None:
        return min((len(n) for _, n in self.shares(table, column) if n), default=None)

    def distance(self, table: str, column: str) -> Fraction | None:
        """The largest earth mover's distance with all values equally far apart."""
        whole = Counter(value for person in self.root for value in self.held(person, table, column))
        total = sum(whole.values())
        found = [
            sum(abs(Fraction(n[v], sum(n.values())) - Fraction(whole[v], total)) for v in whole) / 2
            for _, n in self.shares(table, column)
            if n
        ]
        return max(found, default=None)

"""Labels of a dimension, from the values of its column and a hierarchy, or fixed before any record is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.hierarchies import Hierarchy, HierarchySpec, canonical_text
from privpipe.hierarchies.canonical import canonical_literal
from privpipe.roles import column_type_of
from privpipe.tables.cells import Dimension

__all__ = ["MISSING", "UNKNOWN", "Ladder", "fixed_domains", "fixed_leaves", "kind_of", "texts_of", "typed_label"]


MISSING = "(missing)"
"""The label of null."""
UNKNOWN = "(unknown)"
"""The label of values that a hierarchy sends to its root."""


def texts_of(values: pa.Array) -> list[str | None]:
    """Canonical texts of a column's values, None for null."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    found: list[str | None] = canonical_text(array, None).to_pylist()
    return found


def typed_label(where: str, label: str, kind: pa.DataType) -> str:
    """The text that a value written in a policy has among the records of a column.

    Parameters
    ----------
    where : str
        For messages: the place in the policy.
    kind : pyarrow.DataType
        Of the column; a text is unchanged.

    Raises
    ------
    DataError
        It is not a value of that type: no record would have the label.

    Examples
    --------
    >>> typed_label("only", "1.50", pa.float64()), typed_label("only", "True", pa.bool_())
    ('1.5', 'true')
    """
    named = column_type_of(kind.value_type if pt.is_dictionary(kind) else kind)
    try:
        text = canonical_literal(label, named)
    except ValueError:
        text = None
    if text is None:
        raise DataError(
            f"{where}: a label is not of the column's type ({named}), so no record would have it; write a value of "
            "that type"
        )
    return text


def kind_of(kind: pa.DataType) -> str | None:
    """The declared type under which a hierarchy compares values of an Arrow type; None for texts.

    Examples
    --------
    >>> kind_of(pa.int64()), kind_of(pa.string())
    ('integer', None)
    """
    tests = {
        "integer": pt.is_integer,
        "number": pt.is_floating,
        "decimal": pt.is_decimal,
        "date": pt.is_date,
        "timestamp": pt.is_timestamp,
        "boolean": pt.is_boolean,
    }
    return next((name for name, test in tests.items() if test(kind)), None)


@dataclass(frozen=True)
class Ladder:
    """The levels that a table shows of one column.

    Parameters
    ----------
    name : str
        Column.
    total : str
        Label of all.
    hierarchy : Hierarchy or None
        None: values and the total.
    levels : tuple of int
        Levels of the hierarchy that are shown, ascending; records are grouped by the first.
    overlapping : bool
        Records of one contributor may be in several labels.
    """

    name: str
    total: str
    hierarchy: Hierarchy | None = None
    levels: tuple[int, ...] = (0,)
    overlapping: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        total: str,
        hierarchy: Hierarchy | None,
        levels: Sequence[int | str] | None,
        *,
        overlapping: bool = False,
    ) -> Ladder:
        """The ladder of a column, whose hierarchy covers its values; default: all levels."""
        if hierarchy is None:
            return cls(name, total, None, (0,), overlapping)
        chosen = range(hierarchy.height + 1) if levels is None else [hierarchy.level_of(each) for each in levels]
        # A level of one label is the total.
        shown = sorted({each for each in chosen if each == 0 or len(hierarchy.labels(each)) > 1})
        return cls(name, total, hierarchy, tuple(shown) or (0,), overlapping)

    @property
    def coarsens(self) -> bool:
        """Whether records are grouped by labels: a level above their values is lowest, or some share a label."""
        return self.levels[0] > 0 or (self.hierarchy is not None and self.hierarchy.unknown_code is not None)

    def labels(self, values: Sequence[str | None], level: int) -> list[str | None]:
        """The label of each value at a level of the hierarchy, None for null.

        Raises
        ------
        DataError
            A value that the hierarchy leaves to suppression.
        """
        if self.hierarchy is None:
            return list(values)
        codes = self.hierarchy.encode(list(values))
        if bool((codes < 0).any()):
            raise DataError(
                f"dimension {self.name!r}: {int((codes < 0).sum()):,} distinct values are outside the hierarchy and "
                "`unknown: suppress` has no label for them; write `unknown: root`, or add them"
            )
        texts = self.hierarchy.texts(level)
        other = self.hierarchy.unknown_code
        return [
            None if value is None else (UNKNOWN if code == other else texts[code])
            for value, code in zip(values, codes.tolist(), strict=True)
        ]

    def paths(self, values: Sequence[str | None]) -> dict[str | None, tuple[str, ...]]:
        """Labels of each leaf from below the total down to itself; `values` are what records are grouped by.

        Raises
        ------
        DataError
            A value reads as the total or as the label of null.
        """
        rungs = self.rungs(values)
        found: dict[str | None, tuple[str, ...]] = {}
        for at, value in enumerate(values):
            path: list[str] = []
            for rung in reversed(rungs):
                label = rung[at]
                text = MISSING if label is None else label
                if not path or path[-1] != text:
                    path.append(text)
            found[value] = tuple(path)
        self._refuse(found)
        return found

    def rungs(self, values: Sequence[str | None]) -> list[list[str | None]]:
        """Labels of each leaf at each level that is shown."""
        if self.hierarchy is None:
            return [list(values)]
        if not self.coarsens:
            return [self.labels(values, level) for level in self.levels]
        # Leaves are labels of the lowest level: any value below one leads to all above it.
        lowest = self.hierarchy.texts(self.levels[0])
        first: dict[str, int] = {}
        for code, label in enumerate(lowest):
            first.setdefault(label, code)
        rungs: list[list[str | None]] = []
        for level in self.levels:
            texts = self.hierarchy.texts(level)
            rungs.append([value if value is None or value == UNKNOWN else texts[first[value]] for value in values])
        return rungs

    def _refuse(self, paths: dict[str | None, tuple[str, ...]]) -> None:
        labels = {label for value, path in paths.items() if value is not None for label in path}
        shown = labels | ({MISSING} if None in paths else set())
        if any(label.strip().casefold() == self.total.strip().casefold() for label in shown):
            raise DataError(
                f"dimension {self.name!r}: a label reads as the label of the total ({self.total!r}); choose another "
                "`total`, or rename the value"
            )
        if MISSING in labels and None in paths:
            raise DataError(
                f"dimension {self.name!r}: a value is {MISSING!r}, which is the label of missing values; rename it, or "
                "write `nulls: drop`"
            )

    def dimension(self, values: Sequence[str | None]) -> Dimension:
        """The dimension of these leaves, in the order of the hierarchy, else of their texts.

        Raises
        ------
        DataError
            One label is in two places, or only the total is left.
        """
        paths = self.paths(values)
        parents: dict[str, str] = {}
        for value in sorted(values, key=self._place()):
            above = self.total
            for label in paths[value]:
                if parents.setdefault(label, above) != above:
                    raise DataError(
                        f"dimension {self.name!r}: one label is in two places of the hierarchy, so that its cell would "
                        "be two; give each label of each level another text"
                    )
                above = label
        if not parents:
            return Dimension(self.name, (self.total,), (-1,), self.overlapping)
        return Dimension.tree(self.name, parents, overlapping=self.overlapping)

    def _place(self) -> Callable[[str | None], tuple[bool, int, str]]:
        order: dict[str, int] = {}
        if self.hierarchy is not None:
            for at, label in enumerate(self.hierarchy.texts(self.levels[0])):
                order.setdefault(label, at)
        return lambda value: (value is None, order.get(value, len(order)) if value else len(order), value or "")

    def codes(self, dimension: Dimension, values: Sequence[str | None]) -> NDArray[np.int64]:
        """Codes of leaves in the dimension."""
        known, paths = dimension.codes, self.paths(values)
        return np.array([known[paths[value][-1]] for value in values], dtype=np.int64).reshape(-1)

    def rung_codes(self, dimension: Dimension, labels: Sequence[str | None]) -> NDArray[np.int64]:
        """Codes of labels of any level in the dimension."""
        known = dimension.codes
        return np.array([known[MISSING if label is None else label] for label in labels], dtype=np.int64).reshape(-1)


def fixed_domains(
    by: Sequence[str],
    written: Mapping[str, Sequence[str]],
    schema: pa.Schema,
    hierarchies: Mapping[str, Hierarchy | HierarchySpec],
) -> tuple[dict[str, tuple[str, ...]], dict[str, Hierarchy]]:
    """The values of every dimension, and its hierarchy over them: as written, else those that the hierarchy holds.

    Raises
    ------
    UsageError
        A dimension has neither.
    DataError
        A value that is written is none of the column's type.
    """
    for name in written:
        if name not in by:
            raise UsageError(f"domain: {name!r} is not a dimension of the table{did_you_mean(name, by)}")
    domains: dict[str, tuple[str, ...]] = {}
    found: dict[str, Hierarchy] = {}
    for name in by:
        given = hierarchies.get(name)
        kind = schema.field(name).type
        texts = list(dict.fromkeys(typed_label(f"domain.{name}", text, kind) for text in written.get(name, ())))
        if isinstance(given, HierarchySpec):
            given = given.build(texts, [1] * len(texts), kind_of(kind))
        if not texts and given is not None and not given.data_dependent:
            texts = list(dict.fromkeys(given.texts(0)))
        if not texts:
            raise UsageError(
                f"private_table: the labels of {name!r} must be fixed before records are looked at: write its values, "
                f"as in domain: {{{name}: [...]}}, or give it a hierarchy from a file"
            )
        domains[name] = tuple(texts)
        if given is not None:
            found[name] = given
    return domains, found


def fixed_leaves(ladder: Ladder, domain: Mapping[str, Sequence[str]] | None, *, drop_nulls: bool) -> list[str | None]:
    """Leaves that a dimension has whatever the records hold; none where its labels come from them."""
    if domain is None:
        return []
    values: list[str | None] = list(domain[ladder.name])
    leaves = ladder.labels(values, ladder.levels[0]) if ladder.coarsens else values
    return [*leaves, *(() if drop_nulls else (None,))]

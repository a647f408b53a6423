"""`tables draft`: the policy of a finished table of cells, guessed from the relations that hold in every row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.drafting.guesses import word_set
from privpipe.drafting.methods import flow
from privpipe.errors import DataError, PrivpipeError
from privpipe.tables.finished_tables import figures_of, labels_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["finished_policy"]

TOTALS = word_set(
    "total totals all everyone overall sum gesamt insgesamt summe ensemble tous todos totale tot _t",
)
"""Labels that are a total by name, in lower case."""
COUNTS = word_set(
    "count counts n freq frequency persons people contributors number cases anzahl nombre",
)
MEANS = re.compile(r"(?i)^(mean|avg|average)_?(.+)$")
ACROSS = "column"
"""Name of the dimension whose labels are columns of a wide table."""
STATUS = "status"


@dataclass(frozen=True, repr=False)
class Grid:
    """Figures of one column, by dimensions.

    Parameters
    ----------
    labels : mapping of str to sequence of str
        Of each dimension, in the order of the table.
    codes : ndarray of int64, shape (rows, dimensions)
    values : ndarray of int64, shape (rows,)
    blank : ndarray of bool, shape (rows,)
    """

    labels: Mapping[str, Sequence[str]]
    codes: Ints
    values: Ints
    blank: NDArray[np.bool_]

    def lines(self, place: int) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
        """Figures with a row for each label of a dimension and a column for each combination of the others' labels."""
        others = np.delete(self.codes, place, axis=1)
        every, column = (
            np.unique(others, axis=0, return_inverse=True)
            if others.shape[1]
            else (others[:1], np.zeros(len(others), int))
        )
        shape = (len(list(self.labels.values())[place]), max(len(every), 1))
        figures, known = np.zeros(shape, dtype=object), np.zeros(shape, dtype=np.bool_)
        row, column = self.codes[:, place], np.asarray(column).reshape(-1)
        figures[row, column] = self.values.astype(object)
        known[row, column] = ~self.blank
        return figures, known


def finished_policy(rows: pa.Table, name: str, order: Mapping[str, Sequence[str]] | None = None) -> str:
    """The text of the policy by which a finished table can be judged.

    Parameters
    ----------
    rows : pyarrow.Table
        In long form (one row per cell), or wide: labels of the last dimension are columns.
    name : str
        Of the policy.
    order : mapping of str to sequence of str, optional
        Labels of a column as they follow one another in the file: trees are often written in their order.

    Raises
    ------
    DataError
        Dimensions, figures or the label of the total cannot be told.
    """
    texts, figures = _columns(rows)
    across = _across(rows, texts, figures)
    if across:
        rows, figures = _long(rows, texts, figures), ["count"]
        texts = [*texts, ACROSS]
    dims, figures = _dimensions(rows, texts, figures)
    labels, codes = {}, np.empty((rows.num_rows, len(dims)), dtype=np.int64)
    for place, each in enumerate(dims):
        labels[each], codes[:, place] = labels_of(rows, each)
    kinds = _kinds(rows, figures)
    added = [column for column, kind in kinds.items() if kind != "mean"]
    if not added:
        raise DataError("no column holds counts or sums that could be judged")
    grids = [Grid(labels, codes, *figures_of(rows.column(column), column)[:2]) for column in added]
    total = _total(grids[0])
    order = {**(order or {}), **({ACROSS: labels[ACROSS]} if across else {})}
    trees = {each: _tree(each, place, grids, total, order.get(each, ())) for place, each in enumerate(dims)}
    return _text(name, dims, kinds, total, trees, wide=across)


def _columns(rows: pa.Table) -> tuple[list[str], list[str]]:
    """Columns of labels and columns of figures."""
    import pyarrow.types as pt

    texts: list[str] = []
    figures: list[str] = []
    for column in rows.schema.names:
        if column == STATUS or column.endswith(f"_{STATUS}"):
            continue
        kind = rows.schema.field(column).type
        number = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
        if not number:
            try:
                _, blank, _ = figures_of(rows.column(column), column)
                number = not blank.all()
            except PrivpipeError:
                number = False
        (figures if number else texts).append(column)
    if not texts or not figures:
        raise DataError("the table needs columns of labels and columns of figures, which make cells that can be judged")
    return texts, figures


def _across(rows: pa.Table, texts: Sequence[str], figures: Sequence[str]) -> bool:
    """Whether columns of figures are labels of one dimension: one is a total by name and the sum of the others."""
    named = [column for column in figures if column.strip().casefold() in TOTALS]
    if len(named) != 1 or len(figures) < 3:
        return False
    read = {column: figures_of(rows.column(column), column, None) for column in figures}
    places = max(decimals for *_, decimals in read.values())
    units = {column: figures_of(rows.column(column), column, places)[0].astype(object) for column in figures}
    known = ~np.logical_or.reduce([blank for _, blank, _ in read.values()])
    rest = sum((units[column] for column in figures if column != named[0]), np.zeros(rows.num_rows, dtype=object))
    # Labels may be a tree, whose inner ones are counted twice: then the sum is more.
    return bool(known.any()) and bool((rest[known] >= units[named[0]][known]).all())


def _long(rows: pa.Table, texts: Sequence[str], figures: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    columns = {each: pa.concat_arrays([rows.column(each).combine_chunks()] * len(figures)) for each in texts}
    columns[ACROSS] = pa.array([label for label in figures for _ in range(rows.num_rows)], pa.string())
    columns["count"] = pa.concat_arrays([rows.column(each).cast(pa.string()).combine_chunks() for each in figures])
    return pa.table(columns)


def _dimensions(rows: pa.Table, texts: Sequence[str], figures: Sequence[str]) -> tuple[list[str], list[str]]:
    """The labels, and as many columns of whole numbers from the left (years) as tell all rows apart."""
    dims, left = list(texts), list(figures)
    while len({tuple(each) for each in zip(*(rows.column(d).to_pylist() for d in dims), strict=True)}) < rows.num_rows:
        if len(left) < 2:
            raise DataError("several rows have the same labels, so that a cell occurs twice; give each cell one row")
        dims.append(left.pop(0))
    return dims, left


def _kinds(rows: pa.Table, figures: Sequence[str]) -> dict[str, str]:
    """What each column of figures is: a count, a sum, or a mean of another one."""
    found: dict[str, str] = {}
    for column in figures:
        _, _, decimals = figures_of(rows.column(column), column)
        mean = MEANS.match(column)
        if mean and any(other in figures for other in (mean[2], f"sum_{mean[2]}", f"total_{mean[2]}")):
            found[column] = "mean"
        elif not decimals and "count" not in found.values() and (column.casefold() in COUNTS or len(figures) == 1):
            found[column] = "count"
        else:
            found[column] = "sum"
    return found


def _total(grid: Grid) -> str:
    """The label of all: the same in every dimension."""
    shared = set.intersection(*(set(each) for each in grid.labels.values()))
    named = [label for label in shared if label.strip().casefold() in TOTALS]
    if len(named) == 1:
        return named[0]
    able = [
        label
        for label in sorted(shared)
        if all(_is_total(grid, place, list(each).index(label)) for place, each in enumerate(grid.labels.values()))
    ]
    if len(able) == 1:
        return able[0]
    raise DataError(
        f"{len(able) or len(named)} labels could be that of the total; each dimension needs one label of all, "
        "the same in each, such as Total"
    )


def _is_total(grid: Grid, place: int, row: int) -> bool:
    figures, known = grid.lines(place)
    others = np.delete(np.arange(len(figures)), row)
    there = known[row] & known[others].all(axis=0)
    return len(others) > 1 and bool(there.any()) and bool((figures[others].sum(axis=0) == figures[row])[there].all())


def _tree(name: str, place: int, grids: Sequence[Grid], total: str, order: Sequence[str]) -> dict[str, str]:
    """The parent of each label but the total.

    Raises
    ------
    DataError
        No nesting of the labels adds up.
    """
    labels = list(list(grids[0].labels.values())[place])
    lines = [grid.lines(place) for grid in grids]
    figures, known = (
        np.concatenate([each[0] for each in lines], axis=1),
        np.concatenate([each[1] for each in lines], axis=1),
    )
    top = labels.index(total)
    rank = {label: at for at, label in enumerate(order)}
    inner = sorted((at for at in range(len(labels)) if at != top), key=lambda at: (rank.get(labels[at], at), at))
    if not inner:
        raise DataError(f"dimension {name!r} has no label but that of the total")
    nested = _Nesting(figures, known)
    if nested.adds_up(top, inner):
        return {labels[at]: total for at in inner}
    for parents in (nested.in_order(inner), nested.in_order(inner[::-1]), _by_prefix(labels, inner, nested)):
        roots = [at for at in inner if at not in parents]
        if nested.adds_up(top, roots):
            return {labels[at]: labels[parents[at]] if at in parents else total for at in inner}
    raise DataError(
        f"dimension {name!r}: no nesting of its labels adds up to {total!r}; write the tree as its `hierarchy:`, or "
        "`overlapping:` where labels overlap"
    )


@dataclass(frozen=True, repr=False)
class _Nesting:
    """Which labels add up to which."""

    figures: NDArray[np.object_]
    known: NDArray[np.bool_]

    def adds_up(self, whole: int, parts: Sequence[int]) -> bool:
        """Whether parts add up to a label wherever all are known, and that is somewhere."""
        there = self.known[whole] & self.known[list(parts)].all(axis=0)
        sums = self.figures[list(parts)].sum(axis=0)
        return bool(there.any()) and bool((sums == self.figures[whole])[there].all())

    def in_order(self, labels: Sequence[int]) -> dict[int, int]:
        """Parents where each stands right before its parts."""
        parents: dict[int, int] = {}
        roots: list[int] = []
        for at in reversed(labels):
            for number in range(2, len(roots) + 1):
                parts = roots[:number]
                if bool((self.figures[at][self.known[at]] != 0).any()) and self.adds_up(at, parts):
                    parents.update(dict.fromkeys(parts, at))
                    roots = roots[number:]
                    break
            roots.insert(0, at)
        return parents


def _by_prefix(labels: Sequence[str], inner: Sequence[int], nested: _Nesting) -> dict[int, int]:
    """Parents where the code of each begins those of its parts."""
    parents: dict[int, int] = {}
    for at in inner:
        above = [other for other in inner if other != at and labels[at].startswith(labels[other])]
        if above:
            parents[at] = max(above, key=lambda other: len(labels[other]))
    for whole in set(parents.values()):
        if not nested.adds_up(whole, [at for at, above in parents.items() if above == whole]):
            return {}
    return parents


def _text(
    name: str,
    dims: Sequence[str],
    kinds: Mapping[str, str],
    total: str,
    trees: Mapping[str, Mapping[str, str]],
    *,
    wide: bool,
) -> str:
    counted = "count" in kinds.values()
    lines = [
        "# Written by `privpipe tables draft`: dimensions and trees are guesses from relations that hold in every row:",
        "# read every line. `privpipe validate TABLE POLICY` judges the table by it.",
        "version: 1",
        f"name: {flow(name)}",
        "columns:",
    ]
    for each in dims:
        parents = trees[each]
        spec: dict[str, Any] = {"role": "quasi_identifier"}
        if any(above != total for above in parents.values()):
            lines.append(
                f"  # Labels of {flow(each)} are a tree: {len(set(parents.values())) - 1} of them are sums of others."
            )
            spec["hierarchy"] = {"rows": _paths(parents, total)}
        lines.append(f"  {flow(each)}: {flow(spec)}")
    responses: list[Any] = []
    for column, kind in kinds.items():
        if kind == "count":
            responses.append("count" if column == "count" else {"count": [], "name": column})
            continue
        match = MEANS.match(column)
        source = (
            column
            if kind == "sum" or match is None
            else next(other for other in (match[2], f"sum_{match[2]}", f"total_{match[2]}") if other in kinds)
        )
        responses.append({kind: source, "name": column})
        if kind == "sum":
            lines.append(f"  {flow(source)}: {{role: insensitive}}")
    aggregate: dict[str, Any] = {"by": list(dims), "responses": responses, "total": total}
    if wide:
        lines.append(f"  # {flow(ACROSS)} is the dimension whose labels are columns of the file.")
        aggregate["layout"] = "wide"
    lines += ["transform:", f"  - aggregate: {flow(aggregate)}", "guarantees:"]
    if counted:
        lines += [
            "  # Outputs of research: a count rests on at least 10 persons (ACRO); 3 in official statistics.",
            "  - minimum_frequency: {at_least: 10}",
        ]
    if "sum" in kinds.values():
        lines += [
            "  # Sums: only the true cells show who contributes most. With these as --original, add:",
            "  # - p_percent: {at_least: 10}",
        ]
    lines += ["  # No blank figure follows from the others.", "  - table_audit: {}"]
    return "\n".join(lines) + "\n"


def _paths(parents: Mapping[str, str], total: str) -> list[list[str]]:
    """A row for each label without parts: itself, and the labels above it, all of one length."""
    found = []
    for leaf in parents:
        if leaf not in parents.values():
            path = [leaf]
            while parents[path[-1]] != total:
                path.append(parents[path[-1]])
            found.append(path)
    longest = max(map(len, found))
    return [[path[0]] * (longest - len(path)) + path + ["*"] for path in found]

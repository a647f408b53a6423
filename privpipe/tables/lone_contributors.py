"""Contributors who know hidden cells: no one else is in them, or no one else contributes much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from privpipe.tables.aggregates import CellFigures, exact
from privpipe.tables.audit_problem import Insider
from privpipe.tables.integer_matrices import Integers

if TYPE_CHECKING:
    from privpipe.tables.families import Family

__all__ = ["contributors_who_know"]

Bools = NDArray[np.bool_]


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
        below which its largest contributor knows the cell to within them; None: only those who are alone know it.
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
    """Cells of which a contributor has nearly all: their places, its code, and what all others contribute."""
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

    Codes of records are numbers of leaf cells, so they join cells of one table alone. Cells of several tables are those
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

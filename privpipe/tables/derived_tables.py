"""Tables whose cells are all among those of another table of the release: taken from there, without another pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec, squares_of
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.dimension_labels import MISSING, UNKNOWN
from privpipe.tables.leaf_totals import all_cells

__all__ = ["derived"]

Ints = NDArray[np.int64]


def derived(spec: TableSpec, whole: Aggregated) -> Aggregated | None:
    """The table of `spec` from one of more dimensions over the same records; None where it has to be counted.

    A table of all combinations of labels has those of fewer dimensions where the others are at their total, and those
    of a restricted population where the restricting dimension is at its label.

    Examples
    --------
    >>> from privpipe.tables.responses import responses_of
    >>> spec = TableSpec(by=("region",), responses=responses_of("count"))
    >>> cells = all_cells([Dimension.tree("region", {"N": "Total"}), Dimension.tree("sex", {"f": "Total"})])
    >>> figures = CellFigures.of_contributions(cells, [[(1, 1)]] * 4)
    >>> whole = Aggregated(replace(spec, by=("region", "sex")), cells, {COUNT: figures})
    >>> derived(spec, whole).cells.codes.tolist()
    [[0], [1]]
    """
    if not _follows(spec, whole):
        return None
    dimensions = {dimension.name: dimension for dimension in whole.cells.dimensions}
    fixed = {} if whole.spec.only else {name: dimensions[name].codes[label] for name, label in spec.only.items()}
    records = whole.figures[COUNT].records
    kept: list[Dimension] = []
    choices: list[Ints] = []
    for name in spec.by:
        # A label that no record of the population has is no label of the table.
        own = np.arange(len(dimensions[name].labels))
        places = _places(whole.cells, [name], [own], fixed)
        labels = own[(records[places] > 0) | (own == 0)]
        kept.append(_part(dimensions[name], labels, overlapping=name in spec.overlapping))
        choices.append(labels)
    cells = replace(all_cells(kept), only=dict(spec.only))
    codes = [labels[cells.codes[:, at]] for at, labels in enumerate(choices)]
    places = _places(whole.cells, list(spec.by), codes, fixed)
    keys = [COUNT, *spec.sums, *map(squares_of, sorted(spec.squared))]
    return Aggregated(spec, cells, {key: _moved(whole.figures[key], places, cells) for key in keys}, whole.dropped)


def _follows(spec: TableSpec, whole: Aggregated) -> bool:
    """Whether all that the table shows is in the whole one."""
    if not whole.additive or spec.contribution_bound is not None or spec.drop_nulls:
        # Persons in several cells of the whole may be in one of the table; kept cells depend on the dimensions.
        return False
    dimensions = {dimension.name: dimension for dimension in whole.cells.dimensions}
    if whole.spec.only:
        inside = dict(whole.spec.only) == dict(spec.only)
    else:
        inside = all(name in dimensions and _is_value(dimensions[name], label) for name, label in spec.only.items())
    wanted = [*spec.sums, *map(squares_of, spec.squared)]
    return (
        inside
        and not any(response.ordered for response in spec.responses)
        and set(spec.by) <= set(dimensions)
        and all(spec.levels.get(name) == whole.spec.levels.get(name) for name in spec.by)
        and all(name in whole.figures for name in wanted)
        and all(whole.spec.sums.get(name) == decimals for name, decimals in spec.sums.items())
    )


def _is_value(dimension: Dimension, label: str) -> bool:
    """Whether a label is a value of the records, whose text it is."""
    code = dimension.codes.get(label)
    return code is not None and not dimension.children[code] and code > 0 and label not in (MISSING, UNKNOWN)


def _part(dimension: Dimension, labels: Ints, *, overlapping: bool) -> Dimension:
    """The dimension with some of its labels, and all that are above them."""
    position = {int(code): at for at, code in enumerate(labels.tolist())}
    parent = tuple(position.get(dimension.parent[code], -1) for code in labels.tolist())
    return Dimension(dimension.name, tuple(dimension.labels[code] for code in labels.tolist()), parent, overlapping)


def _places(cells: Cells, names: list[str], codes: list[Ints], fixed: Mapping[str, int]) -> Ints:
    """Positions of cells with these labels, and all other dimensions at their total."""
    columns: list[Any] = []
    for dimension in cells.dimensions:
        if dimension.name in names:
            columns.append(codes[names.index(dimension.name)])
        else:
            columns.append(np.full(len(codes[0]), fixed.get(dimension.name, 0), dtype=np.int64))
    return np.asarray(np.ravel_multi_index(tuple(columns), cells.shape), dtype=np.int64)


def _moved(figures: CellFigures, places: Ints, cells: Cells) -> CellFigures:
    others = {column: _moved(other, places, cells) for column, other in figures.others.items()}
    return replace(figures.taken(places), cells=cells, others=others)

"""The joint table of a shared run: partial sums added up, and a policy that releases them as any other tables."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.border import bordered
from privpipe.errors import DataError, UsageError
from privpipe.private_files import flush_new, private_folder
from privpipe.sharing.additive_shares import joined
from privpipe.sharing.holder_steps import partial_sum
from privpipe.sharing.run_document import CONTRIBUTORS, TABLE, RunDocument
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.entries import TableSet
from privpipe.tables.original_cells import counted_figures, lone_codes
from privpipe.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy
    from privpipe.signing import SigningKey

__all__ = ["joint_policy"]

SOURCE = "joint.parquet"


@bordered
def joint_policy(document: RunDocument, work: Path, sink: str, *, key: SigningKey | None = None) -> Policy:
    """The policy that releases the joint table of all partial sums, which are written to `work` as its source.

    `privpipe.release` with it publishes the table once every guarantee holds; the batch is the run's nonce.

    Parameters
    ----------
    work : Path
        A private folder; with guarantees the writer's, for the exact joint cells are in it.
    sink : str
        The folder or object store of the release.
    key : SigningKey, optional
        The writer's, where the run has guarantees.

    Raises
    ------
    DataError
        A partial sum is missing, of another run, was altered, or they add up to no table.
    UsageError
        The key is not the writer's.
    """
    if document.writer is not None and (key is None or key.public != document.holders[document.writer].sign):
        raise UsageError(f"the joint table is written by {document.writer!r} alone: give its key")
    missing = [name for name in document.holders if not (document.folder / f"{name}.sum").exists()]
    if missing:
        raise DataError(
            f"the partial sums of {', '.join(map(repr, missing))} are missing: all holders take part, or nothing is "
            "published"
        )
    total = joined(partial_sum(document, name, key) for name in document.holders)
    columns = dict(zip(document.figures, total.reshape(len(document.figures), -1), strict=True))
    _require_sound(document, columns)
    place = private_folder(private_folder(work) / document.nonce) / SOURCE
    flush_new(place, _rows(document, columns))
    found = document.policy(str(place.absolute()), sink)
    if found.tables is None:
        raise UsageError("the run document makes no tables")
    return found.replaced(tables=replace(found.tables, counted=partial(_tables, document, found)))


def _require_sound(document: RunDocument, columns: dict[str, Ints]) -> None:
    """Refuse sums that no tables of the holders have: a holder did not follow the run."""
    if document.epsilon is not None:
        return  # noise has no bounds
    holders = len(document.holders)
    for name, found in columns.items():
        least, most = document.bounds(name)
        beyond = int(((found < holders * least) | (found > holders * most)).sum())
        if name.endswith(CONTRIBUTORS):
            beyond += int((found > columns[COUNT]).sum())
        if beyond:
            raise DataError(
                f"{name!r}: {beyond:,} joint cells are impossible under the declared bounds, so a holder sent "
                "something else than shares of its table; nothing is published"
            )


def _rows(document: RunDocument, columns: dict[str, Ints]) -> bytes:
    """The joint cells as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet

    grid = np.indices([len(labels) for labels in document.dimensions.values()]).reshape(len(document.dimensions), -1)
    labelled = {
        name: pa.array(labels, pa.string()).take(pa.array(at))
        for (name, labels), at in zip(document.dimensions.items(), grid, strict=True)
    }
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table({**labelled, **columns}), sink)
    return bytes(sink.getvalue())


def _tables(document: RunDocument, policy: Policy, rows: pa.Table) -> TableSet:
    """The joint table with all totals, as `aggregate` would have made it of all records."""
    if policy.tables is None:
        raise TypeError("the policy makes no tables")
    dimensions = [Dimension.tree(name, dict.fromkeys(labels, "Total")) for name, labels in document.dimensions.items()]
    cells = Cells.complete(dimensions)
    place = np.zeros(rows.num_rows, dtype=np.int64)
    for each in dimensions:
        coded = rows.column(each.name).combine_chunks().dictionary_encode()
        codes = np.array([each.codes[str(label)] - 1 for label in coded.dictionary.to_pylist()], dtype=np.int64)
        place = place * (len(each.labels) - 1) + codes[coded.indices.to_numpy()]
    if rows.num_rows != document.leaves or len(np.unique(place)) != document.leaves:
        raise DataError("the joint cells do not hold each cell once")

    def whole(name: str) -> Ints:
        grid = np.zeros(document.leaves, dtype=np.int64)
        grid[place] = rows.column(name).to_numpy()
        grid = grid.reshape([len(labels) for labels in document.dimensions.values()])
        for axis in range(grid.ndim):
            grid = np.concatenate([grid.sum(axis=axis, keepdims=True), grid], axis=axis)
        return np.ascontiguousarray(grid.ravel())

    counts = whole(COUNT)
    single = np.zeros_like(counts) if document.epsilon is not None else lone_codes(cells, counts, additive=True)
    figures = {COUNT: counted_figures(cells, counts, single)}
    for name, measure in document.measures.items():
        if name != COUNT:
            contributors = counts if document.epsilon is not None else whole(f"{name}{CONTRIBUTORS}")
            figures[name] = _summed(name, cells, contributors, whole(name), measure.decimals, single)
    [spec] = policy.tables.aggregate.specs().values()
    table = Table.of(TABLE, Aggregated(spec, cells, figures))
    if document.epsilon is not None:
        table = _noisy(document, table)
    return TableSet(tables={TABLE: table}, guarantees=policy.tables.guarantees, sensitive=(), notes=_notes(document))


def _summed(name: str, cells: Cells, contributors: Ints, totals: Ints, decimals: int, single: Ints) -> CellFigures:
    """A sum of which single contributions are not known."""
    none = np.zeros((len(cells), 1), dtype=np.int64)
    return CellFigures(
        cells=cells,
        response=name,
        contributors=contributors,
        records=contributors,
        totals=totals,
        magnitudes=np.abs(totals),
        largest=none,
        holders=none,
        negative=(totals < 0).astype(np.int64),
        nonzero=contributors,
        single=np.where(contributors == 1, single, 0),
        decimals=decimals,
    )


def _noisy(document: RunDocument, table: Table) -> Table:
    """The table with the record of its noise, which `differential_privacy` judges."""
    noise, keys = document.noise(), table.shown_measures
    share = Fraction(1, len(document.figures))
    spec = replace(
        table.aggregated.spec,
        domain=dict(document.dimensions),
        contribution_bound=document.contribution_bound,
        bounds=document.clipping,
    )
    process: dict[str, Any] = {
        "mechanism": "discrete laplace",
        "epsilon": str(document.epsilon),
        "contribution_bound": document.contribution_bound,
        "neighbours": "add_remove",
        "split": "leaves",
        "levels": 1,
        "scales": {key: float(noise.scale(key, share)) for key in keys},
        "bounds": {key: list(noise.bounds[key]) for key in keys if key != COUNT},
        "labels_fixed": True,
        "holders": len(document.holders),
        "colluding": document.colluding,
    }
    measures = {key: replace(each, status="noisy") for key, each in table.measures.items()}
    return replace(table, aggregated=replace(table.aggregated, spec=spec), measures=measures, process=process)


def _notes(document: RunDocument) -> tuple[str, ...]:
    """Notes of the verdict on how the cells were added up."""
    holders = ", ".join(document.holders)
    first = (
        f"the joint table of {len(document.holders)} holders ({holders}), added up by shares modulo 2^64 under the "
        f"run document {document.digest[:16]}; holders are assumed to follow it, and no person to be at two of them"
    )
    if document.writer is not None:
        return (
            first,
            f"the holder {document.writer!r} saw the exact joint cells before the guarantees were applied",
            "a holder can subtract its own cells from published ones: what is left are cells of the others together",
        )
    among, noise = len(document.holders) - document.colluding, document.noise()
    share = Fraction(1, len(document.figures))
    scales = ", ".join(f"{name} {float(noise.scale(name, share)):g}" for name in document.figures)
    return (
        first,
        f"each holder added a part of discrete Laplace noise (scales in units: {scales}), of which {among} make up the "
        f"whole, so that the table is private also for {document.colluding} holders who pool what they know",
        f"a person counts in up to {document.contribution_bound} cells, and in totals as often as in cells",
    )

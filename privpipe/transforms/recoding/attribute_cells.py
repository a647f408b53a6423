"""AG_CS: one level for each column; cells of combinations that are still too rare are blanked.

Source: the matrix of Ciriani, De Capitani di Vimercati, Foresti, Samarati, k-Anonymity, Springer 2007.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats
from privpipe.draws import Draws, Seed
from privpipe.errors import NoSolutionError, UnsupportedError
from privpipe.hierarchies import Hierarchy, canonical_text
from privpipe.kernels.quality.loss import LossModel
from privpipe.progress import within
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_suppression.cell_table import CellTable, aim_of, read_cells
from privpipe.transforms.local_suppression.suppress_cells import blanked_of, cell_figures, greedy_cells
from privpipe.transforms.local_suppression.suppress_cells_stage import BlankGroup, BlanksFound, SuppressCellsStage
from privpipe.transforms.recoding.encoded_table import EncodedTable, encode
from privpipe.transforms.recoding.explorer import Lattice, Limits
from privpipe.transforms.recoding.generalize_stage import GeneralizeStage, levels_detail
from privpipe.transforms.recoding.labelling import LossSpec, aggregated
from privpipe.transforms.suppression.record_suppression import require_within

__all__ = ["RepairedNode", "plan", "search_repaired"]

TIE = 1e-9
LARGEST = 1 << 20
PASSES = 50
"""Repairing a vector takes as long as this many checks of one."""


@dataclass(frozen=True)
class RepairedNode:
    """A vector of levels whose failing classes are repaired by blanks.

    Parameters
    ----------
    levels : tuple of int
    loss : float
        `cell_loss`: that of every cell's own label, a blank standing for the whole domain.
    columns : list of float
        Each column's part.
    checked : int
        Vectors that were repaired.
    lower_bound : float
        No vector has less, before repair.
    exhausted : bool
        Whether every vector was repaired or has a loss before repair that is not below this one.
    """

    levels: tuple[int, ...]
    loss: float
    columns: list[float] = field(repr=False)
    checked: int
    lower_bound: float
    exhausted: bool


def search_repaired(encoded: EncodedTable, stage: GeneralizeStage, context: StageContext) -> RepairedNode:
    """Best-first over the vectors of levels by their loss before repair, until that is not below the incumbent's.

    Repairs are greedy, so the outcome is a proved optimum only where it needs no blanks, or no fewer could do: where
    its loss is the least bound of all vectors.

    Raises
    ------
    NoSolutionError
        No vector can be repaired within the budget.
    UnsupportedError
        Another quality model than `loss`, or one that is not a single figure.
    """
    lattice = _served(encoded, stage, context)
    k = aim_of(_blanking(encoded), context).k
    nodes = lattice.nodes()
    loss_of = _CellLoss(encoded, stage.loss)
    bounds = np.array([loss_of(node)[0] for node in nodes.tolist()])
    best: RepairedNode | None = None
    limits = Limits.of(stage.budget, encoded, PASSES)
    checked, end = 0, time.monotonic() + (stage.budget.seconds or np.inf)
    proved = np.inf
    open_nodes = [(float(bound), False, at) for at, bound in enumerate(bounds)]
    heapq.heapify(open_nodes)
    while open_nodes and (best is None or open_nodes[0][0] < best.loss - TIE):
        if checked >= limits.nodes or time.monotonic() > end:
            break
        bound, counted, at = heapq.heappop(open_nodes)
        levels = tuple(nodes[at].tolist())
        cells, shares = _cells_at(encoded, levels, context)
        if not counted:
            # Counting the classes is cheap compared with repairing them, and often shows that it will not pay.
            heapq.heappush(open_nodes, (max(bound, loss_of.repaired_at_least(levels, cells, shares)), True, at))
            continue
        checked += 1
        proved = min(proved, bound)
        within("nodes", checked, len(nodes))
        repaired = _repaired_loss(loss_of, levels, cells, shares, context)
        if repaired is not None and (best is None or repaired[0] < best.loss - TIE):
            best = RepairedNode(levels, *repaired, checked, 0.0, False)
    if best is None:
        raise NoSolutionError(
            f"{context.place}: at none of {checked:,} vectors of levels do blanks give every record k = {k:,} like it"
        )
    # Every vector is open, or repaired, and then no blanks could have made it cheaper than its bound.
    least = min([best.loss, proved, *(bound for bound, _, _ in open_nodes[:1])])
    exhausted = not open_nodes or open_nodes[0][0] >= best.loss - TIE
    return replace(best, checked=checked, lower_bound=float(least), exhausted=exhausted)


def _repaired_loss(
    loss_of: _CellLoss,
    levels: tuple[int, ...],
    cells: CellTable,
    shares: Floats,
    context: StageContext,
) -> tuple[float, list[float]] | None:
    """The loss and each column's part after greedy blanks; None where no blanks help: coarser levels may."""
    try:
        blank_groups = greedy_cells(cells, context)
    except NoSolutionError:
        return None
    if any(blanks < 0 for _, blanks, _ in blank_groups):
        return None
    return loss_of(levels, loss_of.added(cells, shares, blank_groups))


def _served(encoded: EncodedTable, stage: GeneralizeStage, context: StageContext) -> Lattice:
    if stage.loss.name != "loss" or stage.loss.aggregate == "rank":
        raise UnsupportedError(
            f"{context.place}: approach AG_CS minimises the loss of cells; write `loss: {{name: loss}}` with an "
            "aggregate other than rank"
        )
    lattice = Lattice.of(encoded, roots_only=stage.roots_only)
    if lattice.size > LARGEST:
        raise UnsupportedError(
            f"{context.place}: approach AG_CS serves {LARGEST:,} vectors of levels, not {lattice.size:,}; narrow "
            "them with min_level and max_level of the columns"
        )
    return lattice


def plan(engine: Any, table: Any, stage: GeneralizeStage, context: StageContext) -> dict[str, Any]:
    """Levels and blanks, as detail of the stage's plan.

    Raises
    ------
    NoSolutionError
        Nothing serves, or more records have unknown values than the budget allows.
    """
    encoded = encode(engine, table, stage, context)
    found = search_repaired(encoded, stage, context)
    require_within(encoded.unknown, 0.0, encoded.records, context)
    levels = dict(zip(encoded.columns, found.levels, strict=True))
    hierarchies = dict(zip(encoded.columns, encoded.hierarchies, strict=True))
    detail: dict[str, Any] = {
        "approach": "AG_CS",
        **levels_detail(replace(stage, mark=False), hierarchies, levels, context),
        "records": encoded.records,
        "tuples": len(encoded),
        "exhausted": found.exhausted,
        "lower_bound": found.lower_bound,
        "nodes": Lattice.of(encoded, roots_only=stage.roots_only).size,
        "nodes_checked": found.checked,
    }
    cells, distinct = _recoded_cells(engine, table, encoded, stage, detail, context)
    blank_groups = greedy_cells(cells, context)
    shares = np.stack([_shares_of(distinct[name], hierarchies[name], levels[name]) for name in encoded.columns], axis=1)
    loss_of = _CellLoss(encoded, stage.loss)
    loss, columns = loss_of(found.levels, loss_of.added(cells, shares, blank_groups))
    figures = cell_figures(cells, BlanksFound(tuple(blank_groups)))
    kept = ("reading", "k", "failing_before", "failing_after", "blanked_cells", "blanked_by_column")
    return {
        **detail,
        "optimal": loss <= found.lower_bound + TIE,
        **blanked_of(cells, blank_groups).to_dict(),
        **{name: figures[name] for name in kept},
        "loss": loss,
        "column_losses": dict(zip(encoded.columns, columns, strict=True)),
        "gap": max(0.0, loss - found.lower_bound),
        **({} if stage.budget.seconds is None else {"reproducible": False}),
    }


def _recoded_cells(
    engine: Any,
    table: Any,
    encoded: EncodedTable,
    stage: GeneralizeStage,
    detail: Mapping[str, Any],
    context: StageContext,
) -> tuple[CellTable, Any]:
    """The table at the chosen levels as the engine counts it: its places are those a plan names."""
    recoding = replace(stage, approach=None, search=None, levels=detail["levels"], columns=encoded.columns)
    recoding = replace(recoding, roots_only=False, suppress_at_most=None)
    made = StagePlan(name=stage.name(), detail=detail)
    recoded = recoding.run(engine, table, made, Draws(Seed.public("privpipe/search"), 0, stage.name()), context)
    cells = read_cells(engine, recoded, _blanking(encoded), replace(context, schema=recoded.schema))
    return cells, engine.distinct(recoded, list(cells.keys))


def _shares_of(texts: Any, hierarchy: Hierarchy, level: int) -> Floats:
    """Share of the domain that each released text represents."""
    share = dict(zip(hierarchy.released(level), hierarchy.shares(level).tolist(), strict=True))
    return np.array([share[text] for text in canonical_text(texts, None).to_pylist()], dtype=np.float64)


def _blanking(encoded: EncodedTable) -> SuppressCellsStage:
    return SuppressCellsStage(columns=encoded.columns)


def _cells_at(encoded: EncodedTable, levels: Sequence[int], context: StageContext) -> tuple[CellTable, Floats]:
    """The table at a vector of levels, in the order of its texts, and the share of each label, shape (t, m)."""
    aim = aim_of(_blanking(encoded), context)
    columns, keys = aim.columns, aim.keys
    rows = np.arange(len(encoded), dtype=np.int64)
    ranks = np.stack([encoded.key_ranks(key, levels, rows) for key in keys], axis=1)
    distinct, first, owner = np.unique(ranks, axis=0, return_index=True, return_inverse=True)
    shares = np.stack(
        [
            hierarchy.shares(level)[encoded.codes[first, at]]
            for at, (hierarchy, level) in enumerate(zip(encoded.hierarchies, levels, strict=True))
        ],
        axis=1,
    )
    for at, (hierarchy, level) in enumerate(zip(encoded.hierarchies, levels, strict=True)):
        if hierarchy.stays_missing(level):
            distinct[encoded.codes[first, at] == hierarchy.null_code, at] = -1
    counts = np.bincount(owner.ravel(), weights=encoded.rows.counts, minlength=len(distinct)).astype(np.int64)
    cells = CellTable(
        keys=keys,
        columns=len(columns),
        codes=distinct.astype(np.int64),
        counts=counts,
        weights=np.ones(len(columns)),
        k=aim.k,
        wildcard=context.nulls == "wildcard",
        judged=aim.judged,
        alone_at_most=aim.alone_at_most,
        records=int(counts.sum()),
        digest="",
    )
    return cells, shares


@dataclass(frozen=True)
class _CellLoss:
    """Loss of cells: `loss` where no cell is blank; a blank represents the whole domain."""

    encoded: EncodedTable
    spec: LossSpec

    @cached_property
    def _model(self) -> LossModel:
        return LossModel(self.encoded, self.spec)

    def __call__(self, levels: Sequence[int], more: Sequence[float] | None = None) -> tuple[float, list[float]]:
        """Aggregate and figure of each column, where blanks add a number of shares of the domain."""
        units = []
        for at, level in enumerate(levels):
            least = self.spec.g * self.encoded.records / self.encoded.hierarchies[at].domain_size
            span = self.encoded.records - least
            added = self.spec.g * more[at] / span if more is not None and span else 0.0
            units.append(self._model.least(at, level) + added)
        weighted = np.array([units]) * self.spec.weights_of(self.encoded.columns)
        return float(aggregated(weighted, self._model.aggregate)[0, 0]), units

    def repaired_at_least(self, levels: Sequence[int], cells: CellTable, shares: Floats) -> float:
        """A loss that no blanks fall below, where a blank is a value; 0 under wildcards, where others' blanks may do.

        Every record of a class that is too small, and has no cell missing, needs a blank in a column that is not the
        same in all records. Put all into one column: the aggregates are concave in how they are spread, `max` is not.
        """
        small = (cells.counts < cells.k) & (cells.missing == 0)
        if cells.wildcard or not small.any() or self._model.aggregate == "max":
            return 0.0
        records, found = int(cells.counts[small].sum()), []
        for at in range(len(levels)):
            if (cells.codes[:, at] != cells.codes[0, at]).any():
                more = np.zeros(len(levels))
                more[at] = records * (1.0 - shares[small, at].max())
                found.append(self(levels, more.tolist())[0])
        return min(found, default=0.0) - TIE

    def added(self, cells: CellTable, shares: Floats, blank_groups: Sequence[BlankGroup]) -> list[float]:
        """What blanks add in each column: for every blanked cell the rest of the domain; `shares` of shape (t, m)."""
        more = np.zeros(len(self.encoded.columns))
        for at, blanks, records in blank_groups:
            blank = (blanks & ~int(cells.missing[at])) >> np.arange(len(more)) & 1
            more += records * blank * (1.0 - shares[at])
        return [float(each) for each in more]

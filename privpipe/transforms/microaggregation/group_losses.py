"""What groups lose, and the least that any groups of k could: known only once the records are grouped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.transforms.base import StagePlan
from privpipe.transforms.microaggregation.group_learning import Kept
from privpipe.transforms.microaggregation.group_plan import PART, GroupPlan
from privpipe.transforms.microaggregation.mixed_records import Encoding, missing_cells
from privpipe.transforms.microaggregation.record_groups import GroupingRules
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    from privpipe.draws import Draws, Stream

__all__ = ["AFTERWARDS", "losses_of"]

AFTERWARDS = ("losses", "loss", "lower_bound", "above_bound", "suppressed_records")
"""Figures of a plan that its groups, and the draws, do not depend on."""

Gathered = dict[int, tuple[tuple[NDArray[np.float64], NDArray[np.int64]], ...]]


@dataclass(frozen=True)
class _Points:
    """The points of each part, with the ids of their records."""

    group: GroupPlan
    strata: Strata
    encoding: Encoding

    def measure(self, block: RowBlock, facts: Facts) -> Gathered:
        held = np.full(len(block), self.group.by_pattern) | ~missing_cells(block, self.group.columns).all(axis=1)
        found: Gathered = {}
        for number, places in self.group.parts_of(block, self.strata):
            inside = block.take(places[held[places]])
            stratum = self.group.parts[number].stratum
            found[number] = ((self.group.points(inside, stratum, self.encoding), inside.record_ids),)
        return found

    def merge(self, left: Gathered, right: Gathered) -> Gathered:
        return {key: (*left.get(key, ()), *right.get(key, ())) for key in {*left, *right}}


def losses_of(engine: Primitives, table: Any, plan: StagePlan, draws: Draws, rules: GroupingRules) -> dict[str, Any]:
    """The loss of each list of columns, 100 SSE / SST, and how far above the least possible it is at most.

    Only of lists whose every part is one block small enough for a proof; nothing where there is none. Private: a
    released row does not tell them.
    """
    strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
    found = []
    for data in plan.detail["groups"]:
        group = GroupPlan.from_dict(data, plan.seed_key)
        if not _provable(group):
            continue
        kept = engine.map_rows(table, Kept(strata), table.schema) if strata.suppressed else table
        asked = _Points(group, strata, Encoding(group.kinds))
        columns = tuple(dict.fromkeys((*strata.by, *group.columns)))
        gathered: Gathered = engine.reduce_rows(kept, columns, asked, Facts()) or {}
        figures = _figures(group, gathered, draws.of("/".join(group.columns)), rules)
        if figures is not None:
            found.append({"columns": list(group.columns), **figures})
    if not found:
        return {}
    whole = found[0] if len(found) == 1 == len(plan.detail["groups"]) else {}
    return {"losses": found, **{name: figure for name, figure in whole.items() if name != "columns"}}


def _provable(group: GroupPlan) -> bool:
    """Whether each part is one block, not cut and not chunked, and all of them fit on the driver."""
    from privpipe.kernels.microaggregation.lower_bound import MOST_PROVED, provable

    sizes = [part.records for part in group.parts if part.records]
    largest = max(group.block, group.k) if group.block is not None else MOST_PROVED
    whole = all(len(part.trees) == 1 and part.trees[0].blocks == 1 for part in group.parts)
    few = 0 < sum(sizes) <= MOST_PROVED and max(sizes) < 2 * largest
    return group.prove and whole and few and all(provable(size, group.k) for size in sizes)


def _figures(
    group: GroupPlan, gathered: Gathered, stream: Stream, rules: GroupingRules
) -> Mapping[str, float | None] | None:
    """Loss, the least possible one, and by how much of it the one may be above the other; all in percent."""
    from privpipe.kernels.microaggregation.blocks import Refinement, block_proof

    lost, least, total = 0.0, 0.0, 0.0
    for number, pieces in sorted(gathered.items()):
        points = np.concatenate([each for each, _ in pieces])
        order = stream.arrange(np.concatenate([ids for _, ids in pieces]))
        if not len(points) or not points.shape[1]:
            continue
        searching = stream.child(str(number * PART))
        refinement = Refinement(group.neighbours, group.cells, searching, rules.iterations, True)
        gamma = rules.gamma if rules.method == "v_mdav" else None
        proof = block_proof(points, order, group.k, refinement, gamma)
        if proof is None:
            return None
        lost, least = lost + proof[0], least + proof[1]
        arranged = points[order]
        total += float(((arranged - arranged.mean(axis=0)) ** 2).sum())
    if not total > 0:
        return None
    known = {"loss": round(100 * lost / total, 6), "lower_bound": None, "above_bound": None}
    if lost > 0 and not least > 0:
        return known  # no bound was found
    above = math.ceil(1e4 * (lost / least - 1)) / 1e2 if lost > 0 else 0.0
    return known | {
        "lower_bound": _outward(100 * least / total, ROUND_FLOOR),
        "above_bound": _outward(above, ROUND_CEILING),
    }


def _outward(value: float, rounding: str) -> float:
    """Four digits, which is what reports show, rounded away from what is claimed."""
    return float(Context(prec=4, rounding=rounding).create_decimal_from_float(value))

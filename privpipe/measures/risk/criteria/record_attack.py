"""Attacks on single records by the nearest rows of the release: whom they attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import FilePair
from privpipe.blocks.marks import Stricter
from privpipe.blocks.table_files import TableFiles
from privpipe.measures.risk.criteria.attacked_tables import keyed_order, plain, scaled
from privpipe.measures.risk.criteria.controlled_attack import ControlledAttack

__all__ = ["MOST_SEARCHED", "RecordAttack", "Targets"]

Places = NDArray[np.int64]
MOST_SEARCHED = 100_000
"""Originals among which the most distant ones are looked for; of more a keyed sample of that size."""


@dataclass(frozen=True)
class Targets:
    """Places of the attacked originals and others, and what is to be said of how they were chosen.

    `everyone` says that each original is attacked, so that the success is exact.
    """

    original: Places
    holdout: Places
    everyone: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordAttack(ControlledAttack):
    """An attack on records one by one: on all of them, a keyed sample, or those that are farthest from others."""

    sample: Annotated[
        int | None, Ge(1), Stricter("equal"), Doc("originals attacked, and as many others at the most; null: all")
    ] = 10_000
    targets: Annotated[
        Literal["all", "outliers"],
        Stricter("equal"),
        Doc("all records, or outliers: those whose nearest other original is farthest"),
    ] = "all"
    outlier_share: Annotated[
        float, Gt(0), Le(1), Stricter("equal"), Doc("share of the records that are attacked as outliers")
    ] = 0.05

    def chosen(self, files: TableFiles, pair: FilePair, columns: Sequence[str]) -> Targets:
        """Whom the attack on these columns takes, by the same rule from originals and others."""
        holdout = files.original.slice(0, 0) if files.holdout is None else files.holdout
        # By all that was read: records alike in what is known may differ in the secret.
        orders = [keyed_order(table, files.order, self.name()) for table in (files.original, holdout)]
        if self.targets == "all":
            parts = [order[: self.sample or len(order)] for order in orders]
            return Targets(parts[0], parts[1], len(parts[0]) == files.original.num_rows)
        searched = orders[0][:MOST_SEARCHED]
        tables = scaled(files, pair, columns, self.name())
        from privpipe.kernels.linkage.nearest_rows import SearchedRows

        known = plain(tables.original.take(searched))
        rows = SearchedRows(known)
        # The nearest row of an original is itself, the second nearest another.
        apart = [rows.nearest(known, min(2, len(searched))).distance]
        parts = [searched[_farthest(apart[0], self.outlier_share)]]
        if len(orders[1]):
            apart.append(rows.nearest(plain(tables.holdout.take(orders[1]))).distance)
            parts.append(orders[1][_farthest(apart[1], self.outlier_share)])
        limit = self.sample or max(map(len, parts))
        kept = [part[np.sort(np.argsort(_ranks(orders[at])[part])[:limit])] for at, part in enumerate(parts)]
        sampled = f", looked for in a keyed sample of {MOST_SEARCHED:,}" if len(searched) < len(orders[0]) else ""
        note = f"attacked are the {self.outlier_share:g} of the records that are farthest from other originals{sampled}"
        return Targets(
            kept[0],
            kept[1] if len(kept) > 1 else np.zeros(0, np.int64),
            len(kept[0]) == files.original.num_rows,
            (note,),
        )

    def counts(self, files: TableFiles, targets: Targets) -> dict[str, Any]:
        """How many records there are and were attacked."""
        return {
            "records": files.original.num_rows,
            "released": files.released.num_rows,
            "holdout": 0 if files.holdout is None else files.holdout.num_rows,
            "attacked": len(targets.original),
            "controls": len(targets.holdout),
        }


def _farthest(distances: NDArray[np.float64], share: float) -> Places:
    """Places of the share with the largest distances; of equal ones those that come first, in keyed order."""
    rounded = np.round(distances, 12)
    return np.argsort(-rounded, kind="stable")[: max(1, ceil(share * len(distances) - 1e-9))].astype(np.int64)


def _ranks(order: Places) -> Places:
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks

"""Attacks whose success on the originals is compared with their success on others: tables on one scale, and attacks
on single records by the nearest rows of the release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import FilePair, Verdict
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.file_pair import TableFiles, TableMeasure
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Confidence, LargestShare, OptionalNumber, PositiveShare, Stricter
from privpipe.kernels.linkage.attack_figures import Figure
from privpipe.measures.risk.linkage.linkable_files import gower_files, plain

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.kernels.linkage.attack_figures import AttackFigures
    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = [
    "MOST_SEARCHED",
    "ControlledAttack",
    "RecordAttack",
    "ScaledTables",
    "Targets",
    "keyed_order",
    "keyed_rows",
    "scaled",
]


@dataclass(frozen=True)
class ScaledTables:
    """Three tables on the scale of Gower's distances; `holdout` has no rows where none was given.

    `tells` is whether some column puts the rows of the release at different distances from an original.
    """

    original: LinkedFile = field(repr=False)
    released: LinkedFile = field(repr=False)
    holdout: LinkedFile = field(repr=False)
    tells: bool


def scaled(files: TableFiles, pair: FilePair, columns: Sequence[str], owner: str) -> ScaledTables:
    """The tables by some columns: numbers over their range in original and release, texts as codes.

    The holdout moves no range. A number with one value is left out; a missing one is at distance 1 of any other.

    Raises
    ------
    DataError
        An infinite number, which has no distance.
    """
    n = files.original.num_rows
    found = {name: pair.finite_numbers(name, owner) for name in columns}
    known, released = gower_files(pair, found, of=n)
    original, holdout = known.take(np.arange(n)), known.take(np.arange(n, len(pair)))
    tells = _tells(released.numbers, original.codes, released.codes, known.mismatch)
    return ScaledTables(original, plain(released), holdout, tells)


def keyed_rows(table: pa.Table, order: Stream | None, owner: str) -> tuple[Ints, Stream]:
    """An id for each record from its content and an ordinal among identical ones, and the stream of an entry.

    Names of columns do not enter, only their order, so that a renamed table is attacked in the same way.
    """
    from privpipe.draws import Seed, Stream
    from privpipe.kernels.ids.record_ids import content_hash, ordinals, record_id

    stream = Stream(bytes(16)) if order is None else order
    seed = Seed(stream.key)
    words = content_hash(table.rename_columns([f"{at:06d}" for at in range(table.num_columns)]), seed)
    return record_id(words, ordinals(words), seed), stream.child(owner)


def keyed_order(table: pa.Table, order: Stream | None, owner: str) -> Ints:
    """The places of a table's records in the keyed order of an entry."""
    ids, stream = keyed_rows(table, order, owner)
    return stream.arrange(ids).astype(np.int64)


def _tells(numbers: Floats, own: Ints, labels: Ints, tables: tuple[Bools | None, ...]) -> bool:
    if not len(numbers) or any(_differ(column) for column in numbers.T):
        return bool(len(numbers))
    for at, table in enumerate(tables):
        shown = np.unique(labels[:, at])
        if len(shown) < 2:
            continue
        if (
            table is None
            or (table[np.unique(own[:, at])][:, shown] != table[np.unique(own[:, at])][:, shown[:1]]).any()
        ):
            return True
    return False


def _differ(column: Floats) -> bool:
    return bool((column != column[0]).any()) if not np.isnan(column[0]) else not np.isnan(column).all()


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlledAttack(TableMeasure):
    """An attack on a release, its success compared with that on others, or with a guess."""

    threshold_field = "at_most"
    observes = dict[str, Any]
    protects_nobody_at = 1

    at_most: Annotated[LargestShare, Doc("largest figure (its upper limit) that is tolerated")] = None
    figure: Annotated[
        Figure | None,
        Stricter("equal"),
        Doc("excess over the holdout, gain over guessing, or success; left out: excess with a holdout, else success"),
    ] = None
    confidence: Annotated[Confidence, Doc("of the limits that are compared")] = 0.95

    @property
    def compared(self) -> Figure:
        """The figure that the threshold is compared with."""
        return self.figure or ("success" if self.holdout is None else "excess")

    def unjudgeable(self, files: TableFiles) -> str:
        """Why there is nothing to attack, or nothing."""
        if not files.released.num_rows:
            return "the release holds no row"
        if not files.original.num_rows:
            return "there is no record to attack"
        if self.compared == "excess" and (files.holdout is None or not files.holdout.num_rows):
            return "the excess needs a holdout of records that the release was not made from"
        return ""

    def verdict(
        self, found: AttackFigures, beside: Mapping[str, Any], did: str, broken: str = "", notes: tuple[str, ...] = ()
    ) -> Verdict:
        """The verdict on the figures of an attack, with further figures.

        Parameters
        ----------
        did : str
            What the attack did, as the rest of a sentence that begins with "this attack".
        broken : str
            Why it proves nothing, or nothing.
        notes : tuple of str
        """
        figure = self.compared
        estimate, limit = found.observed(figure), found.compared(figure)
        observed: dict[str, Any] = {
            "figure": figure,
            "estimate": estimate,
            "upper": limit,
            **shown(found),
            **beside,
        }
        if limit is None:
            broken = broken or "the attack succeeds on every record of the holdout: nothing is left to exceed"
        if broken or limit is None:
            return self.not_judged(broken, observed)
        return self.judged(
            limit,
            observed,
            reason=(
                f"{figure} of at least {short(estimate)}, upper {self.confidence:g} limit {short(limit)}{self.asked}: "
                f"this attack {did}; " + "; ".join((_beside(found), *notes)) + "."
            ),
        )


def shown(found: AttackFigures) -> dict[str, Any]:
    """All three figures with their limits, also those that are not compared."""
    return {
        "success": found.success,
        "success_upper": found.upper,
        "control": found.control,
        "control_lower": found.lower,
        "naive": found.naive,
        "excess": found.excess,
        "excess_upper": found.excess_upper,
        "gain": found.observed("gain"),
        "gain_upper": found.compared("gain"),
    }


def _beside(found: AttackFigures) -> str:
    control = "" if found.control is None else f", {short(found.control)} on the holdout"
    return f"it succeeds on {short(found.success)} of the originals{control}, a guess on {short(found.naive)}"


MOST_SEARCHED = 100_000
"""Originals among which the most distant ones are looked for; of more a keyed sample of that size."""


@dataclass(frozen=True)
class Targets:
    """Places of the attacked originals and others, and notes on how they were chosen.

    `everybody` states that each original is attacked, so that the success is exact.
    """

    original: Ints
    holdout: Ints
    everyone: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordAttack(ControlledAttack):
    """An attack on records one by one: on all of them, a keyed sample, or those that are farthest from others."""

    sample: Annotated[OptionalNumber, Doc("originals attacked, and as many others at most; null: all")] = 10_000
    targets: Annotated[
        Literal["all", "outliers"],
        Stricter("equal"),
        Doc("all records, or outliers: those whose nearest other original is farthest"),
    ] = "all"
    outlier_share: Annotated[PositiveShare, Doc("share of the records that are attacked as outliers")] = 0.05

    def chosen(self, files: TableFiles, pair: FilePair, columns: Sequence[str]) -> Targets:
        """The records that the attack on these columns takes, by the same rule from originals and others."""
        holdout = files.original.slice(0, 0) if files.holdout is None else files.holdout
        # By all columns read: records with equal known columns may differ in the secret.
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


def _farthest(distances: Floats, share: float) -> Ints:
    """Places of the share with the largest distances; of equal ones those that come first, in keyed order."""
    rounded = np.round(distances, 12)
    return np.argsort(-rounded, kind="stable")[: max(1, ceil(share * len(distances) - 1e-9))].astype(np.int64)


def _ranks(order: Ints) -> Ints:
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks

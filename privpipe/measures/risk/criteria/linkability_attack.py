"""Linkability: the release as a bridge between two tables about the same people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.arrays import Floats
from privpipe.blocks.file_pair import TableFiles
from privpipe.blocks.guarantee import require_columns
from privpipe.blocks.marks import Columns, Stricter
from privpipe.errors import UsageError
from privpipe.measures.risk.criteria.controlled_attack import RecordAttack, scaled
from privpipe.tolerance import below

if TYPE_CHECKING:
    from privpipe.kernels.linkage.distance import LinkedFile
    from privpipe.kernels.linkage.nearest_rows import SearchedRows

__all__ = ["LinkabilityAttack"]


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkabilityAttack(RecordAttack):
    """Share of records whose two parts, held in different tables, the release links with each other.

    Parameters
    ----------
    known : two lists of columns
        What either table of the intruder holds; no column in both.
    holdout : str, optional
        Table of records of the same population that the release was not made from: the control.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"excess", "gain", "success"}, optional
        Over the control, over a guess, or neither. Default: excess with a holdout, else success.
    neighbours : int
        Rows of the release that are taken as near to a record, 1 to 10.
    sample : int, optional
        Attacked originals, and others at most; None: all.
    targets : {"all", "outliers"}
        `outliers`: the `outlier_share` whose nearest other original is farthest.
    outlier_share : float
        In (0, 1].
    confidence : float
        Of the limits that are compared, in (0, 1).

    Notes
    -----
    For each record the `neighbours` rows of the release nearest on either list, by Gower's distance; it is linked where
    they share a row, with ties broken by chance in closed form. A guess takes rows at random. No records are paired.
    A lower bound of the risk: it is what this attack links.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x = pa.table({"a": [0, 0, 4, 0], "b": [0, 1, 9, 4]})
    >>> y = pa.table({"a": [0, 1, 4, 9], "b": [0, 1, 4, 9]})
    >>> verdict = LinkabilityAttack(known=[["a"], ["b"]], at_most=0.2).judge_tables(TableFiles(original=x, released=y))
    >>> verdict.outcome, verdict.observed["success"], verdict.observed["naive"]
    ('fail', 0.25, 0.25)
    """

    source = "Giomi, Boenisch, Wehmeyer, Tasnadi, PoPETs 2023(2)"
    threat = "Someone who holds two tables with different columns about the same people links them through the release."
    formula = "a = mean P(nearest rows on one list meet those on the other); (a - control)/(1 - control) <= at_most"
    choose = "0.05 for the excess over a holdout, as a starting point; consider which columns each table may hold."

    known: Annotated[
        tuple[tuple[str, ...], ...],
        Columns(),
        Stricter("equal"),
        Doc("two disjoint lists of columns: those of the intruder's two tables"),
    ]
    neighbours: Annotated[
        int, Ge(1), Le(10), Stricter("equal"), Doc("rows of the release taken as near on either side")
    ] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "LinkabilityAttack"
        if not isinstance(self.known, list | tuple) or len(self.known) != 2:
            raise UsageError(f"{owner}: known must be two lists of columns")
        lists = tuple(require_columns(owner, names) for names in self.known)
        twice = sorted(set(lists[0]) & set(lists[1]))
        if twice:
            raise UsageError(
                f"{owner}: {twice[0]!r} is in both lists of known; a column that both tables hold links them"
            )
        object.__setattr__(self, "known", lists)

    def judge_tables(self, files: TableFiles) -> Verdict:
        from privpipe.kernels.linkage.attack_figures import attack_figures
        from privpipe.kernels.linkage.criteria import linked_by_chance
        from privpipe.kernels.linkage.nearest_rows import SearchedRows

        reason = self.unjudgeable(files)
        if reason:
            return self.not_judged(reason)
        pair = files.with_others(files.holdout)
        sides = [scaled(files, pair, names, self.name()) for names in self.known]
        for side, names in zip(sides, self.known, strict=True):
            if not side.tells:
                return self.not_judged(f"no column of {', '.join(names)} distinguishes rows of the release")
        targets = self.chosen(files, pair, (*self.known[0], *self.known[1]))
        searched = SearchedRows(sides[0].released), SearchedRows(sides[1].released)
        k = min(self.neighbours, files.released.num_rows)
        hits = [
            float(np.sum(self._linked(searched, tuple(getattr(side, of).take(places) for side in sides), k)))
            for of, places in (("original", targets.original), ("holdout", targets.holdout))
        ]
        naive = linked_by_chance(files.released.num_rows, k)
        found = attack_figures(
            hits[0],
            len(targets.original),
            control_hits=hits[1],
            controls=len(targets.holdout),
            naive=naive,
            confidence=self.confidence,
            everyone=targets.everyone,
        )
        beside = {**self.counts(files, targets), "hits": hits[0], "control_hits": hits[1], "neighbours": k}
        broken = (
            "the attack is broken: it links fewer records than rows drawn at random would, which proves nothing"
            if bool(below(found.upper, naive))
            else ""
        )
        attacked = f"{len(targets.original):,} of {files.original.num_rows:,} records"
        did = f"sought {attacked} by their {k} nearest rows on either side"
        return self.verdict(found, beside, did, broken, targets.notes)

    def _linked(self, searched: tuple[SearchedRows, SearchedRows], asked: tuple[LinkedFile, ...], k: int) -> Floats:
        from privpipe.kernels.linkage.criteria import linked_shares

        if not len(asked[0]):
            return np.zeros(0)
        near = searched[0].nearest(asked[0], k), searched[1].nearest(asked[1], k)
        return linked_shares(searched, near, k)

    @classmethod
    def examples(cls) -> list[Self]:
        known = (("age",), ("income",))
        return [
            cls(known=known, figure="gain"),
            cls(known=known, holdout="others.csv", at_most=0.5, neighbours=2),
            cls(known=known, holdout="others.csv", targets="outliers", sample=None),
        ]

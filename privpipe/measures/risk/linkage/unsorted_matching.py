"""Unsorted matching: disclosure by the order of released rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import PositionMeasure, RowPositions
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LargestShare
from privpipe.tolerance import at_most

__all__ = ["UnsortedMatching"]


@dataclass(frozen=True, kw_only=True, repr=False)
class UnsortedMatching(PositionMeasure):
    """Rank correlation of a record's position in the release with that in the original, among identical released rows.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the correlation is reported.
    quasi_identifiers : tuple of str, optional
        Not used: rows are identical if all their released columns are.

    Notes
    -----
    Two releases whose rows are in the original's order are joined by position, whatever k each has. Where all rows
    differ, the positions themselves are correlated, unless the rows are sorted by their own values.

    With fewer records than three standard deviations need (3 sd > at_most) the figure decides nothing: it passes only
    if the order of the files is proved to be the keyed one that releases are written in, and is an error otherwise.

    Examples
    --------
    >>> rows = np.arange(1000)
    >>> kept = RowPositions(classes=rows % 2, released=rows, original=rows)
    >>> verdict = UnsortedMatching(at_most=0.1).judge_positions(kept)
    >>> verdict.outcome, verdict.observed["rho"]
    ('fail', 1.0)
    """

    threshold_field = "at_most"
    observes = dict[str, Any]
    source = "Sweeney, IJUFKS 10(5), 2002"
    threat = "An intruder joins two releases, or a release and its source, by the number of the row."
    formula = "|rho|, rho = sum of products of centred ranks / sum f (f^2 - 1) / 12, within classes"
    choose = "0.1; releases written by privpipe are in keyed order, so this guards against a mistake."

    at_most: Annotated[LargestShare, Doc("largest correlation, of either sign, that is tolerated")] = None

    quasi_identifiers: Annotated[KeyColumns, Doc("not used: rows are compared over all released columns")] = None

    def judge_positions(self, positions: RowPositions | str) -> Verdict:
        from privpipe.kernels.synthesis.copula import order_correlation

        if isinstance(positions, str):
            return Verdict(self, None, "error", self.demanded(), reason=positions)
        rho, sd, compared = order_correlation(positions.classes, positions.released, positions.original)
        among = f"{compared:,} records that others are released identically to"
        if not compared:
            if positions.ordered:
                reason = "all rows differ and are in the order of their own values, which they reveal anyway."
                return Verdict(self, {"rho": 0.0, "compared": 0}, "pass", self.demanded(), reason=reason)
            one = np.zeros(len(positions.released), dtype=np.int64)
            rho, sd, _ = order_correlation(one, positions.released, positions.original)
            among = f"{len(one):,} records, no two of them released identically"
        if math.isnan(rho):
            return self.not_judged("there are no two records to compare")
        figure = abs(rho)
        observed = {"rho": figure, "sd": sd, "compared": compared, "proved": positions.proved}
        seen = f"observed |rho| {short(figure)}{self.asked}, over {among}"
        if self.at_most is None:
            return Verdict(self, observed, "pass", None, reason=f"{seen}.")
        if not at_most(3 * sd, self.at_most):
            few = f"too few for a test (3 sd = {short(3 * sd)})"
            if positions.proved:
                reason = f"{seen}, {few}; the order of the files is proved to be the keyed one."
                return Verdict(self, observed, "pass", self.at_most, reason=reason)
            reason = f"{seen}, {few}, and the order of the rows is not proved to be a keyed one."
            return Verdict(self, observed, "error", self.at_most, reason=reason)
        passed = bool(at_most(figure, self.at_most))
        return Verdict(self, observed, "pass" if passed else "fail", self.at_most, reason=f"{seen}.")

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.1), cls(at_most=1.0)]

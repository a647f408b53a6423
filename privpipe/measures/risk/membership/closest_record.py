"""How close released rows come to original ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import TableFiles, TableMeasure
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Confidence, LargestShare, OptionalNumber, OwnColumns, Stricter
from privpipe.errors import UsageError
from privpipe.measures.risk.linkage.linkable_files import plain
from privpipe.measures.risk.membership.record_distances import (
    DistanceFigures,
    closest,
    compared,
    distance_figures,
)

__all__ = ["ClosestRecord"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ClosestRecord(TableMeasure):
    """How near the nearest released rows come to an original record, compared with records that were never in the data.

    Parameters
    ----------
    holdout : str, optional
        Table of records of the same population that the release was not made from.
    at_least : float, optional
        Of `ratio`, at least 0; 1: released rows come no nearer than other people do. Without a threshold (under
        `measures:`) the figures are reported.
    figure : {"ratio", "closer", "copies"}
        ``closer``: share of released rows nearer to an original than to one of as many others, ties one half, by its
        upper limit; 0.5 is neutral. ``copies``: excess of rows at distance 0 from an original over those at distance 0
        from one of as many others, by its upper limit.
    at_most : float, optional
        Of `closer` and `copies`, in [0, 1].
    confidence : float
        Of the limits, in (0, 1).
    columns : tuple of str, optional
        Default: all quasi-identifiers.
    sample : int, optional
        Released rows and others compared, as many of each; None: all.

    Notes
    -----
    The 5 % quantile of the distance to the closest original record over released rows, divided by the same over the
    holdout: a ratio without limits, rough in small tables, and blind to copies below its quantile. `copies` is the
    share of released rows at distance 0. All else is by Gower's distance, original and holdout cut to one size in keyed
    order: `nndr` is the 5 % quantile of nearest over second nearest, `privacy_loss` the adversarial accuracy of the
    holdout less that of the original. Figures of distances miss leaks that attacks find: judge `membership_attack` too.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"a": np.arange(100.0)})
    >>> files = TableFiles(original=people, released=people, holdout=pa.table({"a": np.arange(100.0) + 0.5}))
    >>> verdict = ClosestRecord(holdout="others.csv", at_least=0.9).judge_tables(files)
    >>> verdict.outcome, verdict.observed["ratio"], verdict.observed["copies"]
    ('fail', 0.0, 1.0)
    """

    threshold_field = "at_least"
    direction = "at_least"
    observes = dict[str, Any]
    other_thresholds = ("at_most",)
    source = (
        "Yeom, Giacomelli, Fredrikson, Jha, CSF 2018, for the holdout as yardstick; Platzer, Reutterer, 2021; "
        "Yale et al., 2020; Yao, Krco, Ganev, de Montjoye, 2025, for what distances miss"
    )
    threat = (
        "A synthetic release repeats records of its source. Distances miss leaks that attacks find (Yao et al., 2025): "
        "the gate is membership_attack."
    )
    formula = "q05(distance of released rows to the original) / q05(distance of others to it) >= at_least"
    choose = (
        "ratio: 0.8 to 1, released rows should come no nearer to the data than other people do; it does not see copies "
        "below its quantile. closer: a little above 0.5. copies: 0.01; for few copies replicated_uniques over all of "
        "the columns."
    )

    at_least: Annotated[
        float | None,
        Ge(0),
        Stricter("larger"),
        Doc("least ratio of the 5 % quantiles of distance, released rows over others"),
    ] = None
    figure: Annotated[
        Literal["ratio", "closer", "copies"],
        Stricter("equal"),
        Doc("ratio (at_least), closer or copies (at_most): of quantiles, of rows nearer to an original, of copies"),
    ] = "ratio"
    at_most: Annotated[
        LargestShare, Doc("of closer and copies: largest figure (its upper limit) that is tolerated")
    ] = None
    confidence: Annotated[Confidence, Doc("of the upper limit that is compared")] = 0.95
    sample: Annotated[OptionalNumber, Doc("released rows and others compared, as many of each; null: all")] = 10_000

    columns: Annotated[OwnColumns, Doc("columns compared; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "ClosestRecord"
        self.hold_columns()
        unfit = "at_most" if self.figure == "ratio" else "at_least"
        if getattr(self, unfit) is not None:
            asked = "at_least" if self.figure == "ratio" else "at_most"
            raise UsageError(f"{owner}: {unfit}: figure {self.figure} is demanded by {asked}")
        if self.figure != "ratio":
            # What is compared depends on the figure: the entry knows its own threshold.
            object.__setattr__(self, "threshold_field", "at_most")
            object.__setattr__(self, "direction", "at_most")

    def judge_tables(self, files: TableFiles) -> Verdict:
        if not files.original.num_rows or not files.released.num_rows:
            return self.not_judged("there are no records to compare")
        found = compared(files, files.original.schema.names)
        if found is None:
            return self.not_judged("no column distinguishes records")
        size = min(len(found.released), self.sample or len(found.released))
        if len(found.holdout):
            size = min(size, len(found.holdout))
        rows = np.arange(size)
        near = closest(found.released.take(rows), found.original, found.metric)
        observed: dict[str, Any] = {
            "ratio": None,
            "released": float(np.quantile(near, 0.05)),
            "copies": float((near <= 1e-12).mean()),
            "compared": size,
            "metric": found.metric,
        }
        if len(found.holdout):
            # Within one table labels have nothing to cover: codes are compared directly.
            known, others = plain(found.original), plain(found.holdout).take(rows)
            observed["holdout"] = float(np.quantile(closest(others, known, found.metric), 0.05))
            if observed["holdout"] > 0:
                observed["ratio"] = observed["released"] / observed["holdout"]
        by_gower = found if found.metric == "gower" else compared(files, files.original.schema.names, gower=True)
        figures = None if by_gower is None else distance_figures(by_gower, self.sample)
        if figures is not None:
            observed |= self._beside(figures, len(found.original), len(found.released))
        return self._verdict(observed)

    def _beside(self, figures: DistanceFigures, records: int, released: int) -> dict[str, Any]:
        from privpipe.kernels.linkage.attack_figures import attack_figures, upper_share

        excess = attack_figures(
            figures.copies,
            figures.rows,
            control_hits=figures.copies_others,
            controls=figures.rows,
            confidence=self.confidence,
            everyone=figures.rows == released and figures.cut == records,
        )
        return {
            "closer": figures.closer / figures.rows,
            "closer_upper": upper_share(figures.closer, figures.rows, self.confidence),
            "copies_original": excess.success,
            "copies_holdout": excess.control,
            "copies_excess": excess.excess,
            "copies_upper": excess.excess_upper,
            "rows": figures.rows,
            "originals": figures.cut,
            **figures.shown,
        }

    def _compared(self, observed: dict[str, Any]) -> float | None:
        """What the threshold is compared with."""
        name = {"ratio": "ratio", "closer": "closer_upper", "copies": "copies_upper"}[self.figure]
        found: float | None = observed.get(name)
        return found

    def _verdict(self, observed: dict[str, Any]) -> Verdict:
        figure = self._compared(observed)
        if figure is None and self.is_gate():
            return self.not_judged(self._why(observed), observed)
        return self.judged(
            figure,  # type: ignore[arg-type]  # None only where nothing is asked
            observed,
            f"{self._seen(observed)}{self.asked}; {self._over(observed)}; distances miss leaks that attacks find.",
        )

    def _seen(self, observed: dict[str, Any]) -> str:
        if self.figure == "ratio":
            return "no ratio" if observed["ratio"] is None else f"observed {short(observed['ratio'])}"
        if "rows" not in observed:
            return "no holdout to compare with"
        limit = f"upper {self.confidence:g} limit {short(self._compared(observed) or 0.0)}"
        if self.figure == "closer":
            return f"{short(observed['closer'])} of released rows are nearer to an original than to another, {limit}"
        return (
            f"{short(observed['copies_original'])} of released rows are copies of an original compared with "
            f"{short(observed['copies_holdout'])} of others, {limit} of the excess"
        )

    def _over(self, observed: dict[str, Any]) -> str:
        if self.figure != "ratio" and "rows" in observed:
            return f"over {observed['rows']:,} rows and {observed['originals']:,} records each, by gower distance"
        return (
            f"over {observed['compared']:,} released rows, {short(observed['copies'])} of them exact copies, by "
            f"{observed['metric']} distance"
        )

    def _why(self, observed: dict[str, Any]) -> str:
        if "holdout" not in observed:
            return "without a holdout of persons who are not in the data nothing is judged"
        if self.figure == "ratio":
            return "5 % of the others are original records to the digit, so the ratio is undefined"
        if "rows" not in observed:
            return "no column distinguishes records"
        return "every released row is a copy of one of the others, so that nothing is left to exceed"

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(holdout="others.csv", at_least=0.9),
            cls(holdout="others.csv", columns=("age",), sample=None),
            cls(holdout="others.csv", figure="closer", at_most=0.6),
            cls(holdout="others.csv", figure="copies", at_most=0.05, columns=("age", "town")),
        ]

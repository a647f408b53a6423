"""Distance-based record linkage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Confidence, LargestShare, OptionalNumber, OwnColumns, Stricter
from privpipe.blocks.parameters import require_choice
from privpipe.blocks.verdict import Comparison
from privpipe.errors import UsageError
from privpipe.measures.risk.linkage.linkable_files import (
    Linkable,
    Metric,
    Standardise,
    block_of,
    linkable,
    partners_in_block,
)
from privpipe.roles import Roles

__all__ = ["RecordLinkage"]

Direction = Literal["both", "from_intruder", "from_released"]
Assignment = Literal["nearest", "one_to_one", "both"]
LARGEST_ASSIGNMENT = 5000


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordLinkage(FilePairMeasure):
    """Share of records that an intruder with the original values links to the right released record, by distance.

    Parameters
    ----------
    columns : tuple of str, optional
        What the intruder knows. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    metric : {"euclidean", "gower", "mahalanobis"}, optional
        Default: euclidean where every column is a number in both files, else gower.
    standardise : {"own", "original"}
        Each file by its own mean and deviation, or both by the original's.
    direction : {"both", "from_intruder", "from_released"}
        Who looks for the nearest: each original record, each released one, or both ways (the larger counts).
    assignment : {"nearest", "one_to_one", "both"}
        Each to its nearest, or all at once at the smallest total distance (at most 5,000 records).
    ties : {"fractional", "strict", "any"}
        A partner among t equally near ones counts 1/t, 0 unless t = 1, or 1.
    sample : int, optional
        Attacked records; None: all. Then the upper confidence limit is compared.
    confidence : float
        Of that limit, in (0, 1).
    block_by : tuple of str
        Compare only records that agree on these columns; it can only lose links.
    knows : {"curve"} or {"random": t}, optional
        Report the share also for the first 1, 2, ... columns, or the mean over t keyed subsets of each size.

    Notes
    -----
    A lower bound of the risk: it is what this attack links. Suppressed originals count as not linked.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 9.0]}), pa.record_batch({"a": [1.5, 1.5, 8.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((3, 2), dtype=np.int64), records=3, released_records=3)
    >>> verdict = RecordLinkage(columns=("a",), at_most=0.5).judge_files(files)
    >>> verdict.outcome, round(verdict.observed["share"], 3)
    ('fail', 0.667)
    """

    observes = dict[str, Any]
    source = "Pagliuca, Seri, 1999; Domingo-Ferrer, Torra, 2001; Winkler, PSD 2004"
    threat = "An intruder who knows the original numbers of a person takes the nearest released record."
    formula = "(1/m) sum over attacked records of [partner among the nearest] / ties <= at_most"
    choose = "0.05 for public files; the share that chance alone would link is 1/n."

    at_most: Annotated[LargestShare, Doc("largest share of right links that is tolerated")] = None
    metric: Annotated[
        Metric | None,
        Stricter("equal"),
        Doc("euclidean, gower or mahalanobis; left out: euclidean for numbers, else gower"),
    ] = None
    standardise: Annotated[
        Standardise,
        Stricter("equal"),
        Doc("own: each file by its own mean and deviation; original: both by the original's"),
    ] = "own"
    # The way of the search, no bound of a model.
    direction: Annotated[  # type: ignore[misc]
        Direction, Stricter("equal"), Doc("both, from_intruder (originals look for released records) or from_released")
    ] = "both"  # type: ignore[assignment]
    assignment: Annotated[Assignment, Stricter("equal"), Doc("nearest, one_to_one (least total distance) or both")] = (
        "nearest"
    )
    ties: Annotated[Literal["fractional", "strict", "any"], Stricter("equal"), Doc("fractional, strict or any")] = (
        "fractional"
    )
    sample: Annotated[OptionalNumber, Doc("attacked records; null: all of them")] = 10_000
    confidence: Annotated[Confidence, Doc("of the upper limit that a sample is compared by")] = 0.95
    block_by: Annotated[tuple[str, ...], Stricter("equal"), Doc("columns that must agree; only loses links")] = ()
    knows: Annotated[
        Literal["curve"] | dict[str, Annotated[int, Ge(1)]] | None,
        Stricter("equal"),
        Doc("report the share by what the intruder knows: curve, or {random: t}"),
    ] = None

    columns: Annotated[OwnColumns, Doc("columns the intruder knows; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "RecordLinkage"
        self.hold_columns()
        if self.block_by:
            self.hold_columns("block_by")
        if isinstance(self.knows, Mapping):
            if set(self.knows) != {"random"}:
                raise UsageError(f"{owner}: knows must be curve or {{random: t}}")
        elif self.knows is not None:
            require_choice(owner, "knows", self.knows, ("curve",))

    @property
    def sense(self) -> Literal["at_most"]:
        return "at_most"

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().columns_read(roles), *self.block_by)))

    def judge_files(self, files: FilePair) -> Verdict:
        known = [name for name in files.original.schema.names if self.columns is None or name in self.columns]
        known = [name for name in known if name not in self.block_by] if self.columns is None else known
        found = linkable(files, known, self.metric, self.standardise)
        if found is None:
            return self.not_judged("no column distinguishes records")
        if self.assignment != "nearest" and len(files) > LARGEST_ASSIGNMENT:
            return self.not_judged(
                f"a one-to-one assignment is limited to {LARGEST_ASSIGNMENT:,} records and there are {len(files):,}; "
                "sample both files by the same keyed order, or use assignment: nearest"
            )
        shares, beside = self._shares(files, found)
        figure = max(shares.values())
        observed: dict[str, Any] = {"share": figure, **shares, **beside, "metric": found.metric}
        if self.knows is not None:
            observed["knows"] = self._by_knowledge(files, known)
        return self._verdict(files, found, figure, observed)

    def _verdict(self, files: FilePair, found: Linkable, figure: float, observed: dict[str, Any]) -> Verdict:
        attacked = min(self.sample or len(files), len(files))
        limit = f", upper {self.confidence:g} limit from {attacked:,} sampled records" if attacked < len(files) else ""
        gone = files.records - len(files)
        return self.judged(
            figure,
            observed,
            reason=(
                f"at least {short(figure)} of the records are linked correctly by {found.metric} "
                f"distance{limit}{self.asked}; over {files.records:,} records, {gone:,} of them not released"
                + (f"; constant and left out: {', '.join(found.left_out)}" if found.left_out else "")
                + ("; blocked, which only loses links." if self.block_by else ".")
            ),
            compared=self._in_blocks(files) if self.block_by else (),
        )

    def _in_blocks(self, files: FilePair) -> tuple[Comparison, ...]:
        before, after = block_of(files, self.block_by)
        sample = files.sample(self.sample)
        return partners_in_block(int((before[sample] == after[sample]).sum()), len(sample))

    def _shares(self, files: FilePair, found: Linkable) -> tuple[dict[str, float], dict[str, Any]]:
        """The share linked in each requested way, or its upper limit from a sample; with estimates."""
        shares, beside = {}, {}
        if self.assignment != "one_to_one":
            sample = files.sample(self.sample)
            for way in ("from_intruder", "from_released"):
                if self.direction in (way, "both"):
                    shares[way], estimate = self._nearest(files, found, way, sample)
                    if len(sample) < len(files):
                        beside[f"estimate_{way}"] = estimate
        if self.assignment != "nearest":
            shares["one_to_one"], beside["total_distance"] = self._assigned(files, found)
        return shares, beside

    def _nearest(self, files: FilePair, found: Linkable, way: str, sample: Ints) -> tuple[float, float]:
        from privpipe.kernels.linkage.attack_figures import upper_share
        from privpipe.kernels.linkage.distance import linkage_scores

        hunters, hunted = (
            (found.original, found.released) if way == "from_intruder" else (found.released, found.original)
        )
        hits = 0.0
        for attacked, candidates in self._blocks(files, way, sample):
            places = np.searchsorted(candidates, attacked)
            scores = linkage_scores(
                hunters.take(attacked), hunted.take(candidates), places, squared=found.squared, ties=self.ties
            )
            hits += float(scores.sum())
        whole = files.records if way == "from_intruder" else len(files)
        if len(sample) == len(files):
            return hits / whole, hits / whole
        released = len(files) / whole
        limit = upper_share(min(hits, len(sample)), len(sample), self.confidence)
        return limit * released, hits / len(sample) * released

    def _assigned(self, files: FilePair, found: Linkable) -> tuple[float, float]:
        from privpipe.kernels.linkage.distance import one_to_one, pair_distances

        right, total = 0.0, 0.0
        for _, rows in self._blocks(files, "from_intruder", np.arange(len(files))):
            distances = pair_distances(found.original.take(rows), found.released.take(rows), squared=found.squared)
            pairs, apart = one_to_one(distances, self.ties)
            right, total = right + pairs, total + apart
        return right / files.records, total

    def _blocks(self, files: FilePair, way: str, sample: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Attacked records, and those they are compared with, ascending; a partner in another block is lost."""
        if not self.block_by:
            yield sample, np.arange(len(files), dtype=np.int64)
            return
        before, after = block_of(files, self.block_by)
        hunted = before if way == "from_released" else after
        stays = before == after
        order = np.argsort(hunted, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(hunted[order])) + 1):
            attacked = sample[stays[sample] & (hunted[sample] == hunted[rows[0]])]
            if len(attacked):
                yield attacked, rows

    def _by_knowledge(self, files: FilePair, known: list[str]) -> dict[str, float]:
        """The share for each number of columns known."""
        shares = {}
        for size in range(1, len(known) + 1):
            subsets = [known[:size]] if self.knows == "curve" else self._keyed_subsets(files, known, size)
            each = []
            for columns in subsets:
                found = linkable(files, columns, self.metric, self.standardise)
                each.append(max(self._shares(files, found)[0].values()) if found is not None else 0.0)
            shares[str(size)] = float(np.mean(each))
        return shares

    def _keyed_subsets(self, files: FilePair, known: list[str], size: int) -> list[list[str]]:
        times = self.knows["random"] if isinstance(self.knows, dict) else 1
        subsets = []
        for number in range(times):
            ids = np.column_stack([np.full(len(known), size), np.arange(len(known))]).astype(np.int64)
            words = np.arange(len(known)) if files.order is None else files.order.words(ids, number)
            chosen = sorted(np.argsort(words, kind="stable")[:size].tolist())
            subsets.append([known[at] for at in chosen])
        return subsets

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.5, standardise="original"),
            cls(columns=("age",), metric="gower", direction="from_released", ties="any", at_most=1.0),
            cls(assignment="both", knows="curve"),
        ]

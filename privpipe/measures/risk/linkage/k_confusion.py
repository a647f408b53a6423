"""k-confusion: how many released records a linkage method cannot distinguish as that of a person."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import FilePair, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LeastNumber, Stricter
from privpipe.blocks.verdict import EXPLAIN, Comparison, least
from privpipe.errors import HierarchyError, UsageError
from privpipe.measures.risk.linkage.linkable_files import (
    NEEDS_ORIGINAL,
    SIDES,
    Linkable,
    Standardise,
    compared_labels,
    linkable,
)

__all__ = ["KConfusion"]

LARGEST = 2_000_000_000
"""Distances between classes that are computed."""
CHUNK = 4_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class KConfusion(DistinctPairMeasure):
    """Fewest released records that linkage by distance cannot distinguish as that of an original record.

    The candidates of an original record are the released ones nearest to it, and those at most
    `within` further.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the figure is reported.
    metric : {"euclidean", "gower"}, optional
        Left out: euclidean where every column is a number in both tables, else gower.
    standardise : {"own", "original"}
        For euclidean distance each table by its own mean and deviation, or both by the original's.
    within : float
        At least 0, in the unit of the metric: standard deviations (euclidean), or the mean over the columns of shares
        of their ranges (gower).
    quasi_identifiers : tuple of str, optional
        What the intruder knows. Default: all of the policy.

    Notes
    -----
    Stokes and Torra count the released records to which a method of re-identification gives a probability above a
    threshold; here the method is the nearest record, which gives all candidates the same. A k-anonymous table has
    k-confusion, whatever the linkage; a perturbed one can have it with all records different. Two distances are equal
    when they differ by at most 1e-12 (1 + the larger). Exact, over distinct combinations of values; suppressed records
    are not candidates. No record is paired with its original, so a method that misleads the intruder to k wrong
    records has k-confusion too; `record_linkage` counts right links. Without the original the outcome is an error.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x = pa.table({"age": [30.0, 40.0, 60.0], "__count": [1, 1, 1]})
    >>> y = pa.table({"age": [35.0, 60.0], "__count": [2, 1]})
    >>> verdict = KConfusion(k=2).judge_tables(DistinctPair(keys=("age",), released=y, original=x))
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 1, 1)
    """

    threshold_field = "k"
    direction = "at_least"
    protects_nobody_at = 1
    observes = int
    source = "Stokes, Torra, PAIS 2012 (n-confusion)"
    threat = "An intruder who knows the original values of a person takes the released record that is most like them."
    formula = "min over original records of the released records at the least distance (+ within) >= k"
    choose = "As k of k_anonymity; within: the difference that a method of linkage cannot rely on, 0 for ties alone."

    k: Annotated[LeastNumber, Doc("fewest candidates that are required")] = None
    metric: Annotated[
        Literal["euclidean", "gower"] | None,
        Stricter("equal"),
        Doc("euclidean or gower; left out: euclidean for numbers, else gower"),
    ] = None
    standardise: Annotated[
        Standardise,
        Stricter("equal"),
        Doc("own: each table by its own mean and deviation; original: both by the original's"),
    ] = "own"
    within: Annotated[
        float, Ge(0), Stricter("smaller"), Doc("how much further than the nearest a candidate may be")
    ] = 0.0

    quasi_identifiers: Annotated[KeyColumns, Doc("columns the intruder knows; left out: all of the policy")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.within < math.inf:  # also refuses NaN
            raise UsageError(f"KConfusion: within must be a number >= 0, got {self.within!r}")

    def judge_tables(self, pair: DistinctPair) -> Verdict:
        files = pair.unpaired()
        if files is None or files.counts is None:
            return self.not_judged(NEEDS_ORIGINAL)
        pairs = len(files) * files.released.num_rows
        if not pairs:
            return self.not_judged("one of the tables has no records")
        if pairs > LARGEST:
            return self.not_judged(
                f"{len(files):,} combinations of the original times {files.released.num_rows:,} of the release are "
                f"more than the {LARGEST:,} distances that are computed"
            )
        if rounded := [name for name in pair.keys if _rounded(files, name)]:
            return self.not_judged(
                f"column {rounded[0]!r} holds different numbers that are one as 64-bit floats, by which distances are "
                "computed; code them first, or leave the column out of quasi_identifiers"
            )
        try:
            compared = least(each for name in pair.keys for each in _compared(files, name))
            found = linkable(files, pair.keys, self.metric, self.standardise)
        except HierarchyError as error:
            return self.not_judged(f"a hierarchy does not fit the original: {error}")
        if found is None:
            return self.not_judged("no column distinguishes records")
        candidates = _candidates(found, files.counts[1], self.within)
        fewest = int(candidates.min())
        failing = None if self.k is None else int(files.counts[0][candidates < self.k].sum())
        return self.judged(
            fewest,
            fewest,
            reason=(
                f"observed {short(fewest)}{self.asked}, over {files.records:,} original records and "
                f"{files.released_records:,} released ones by {found.metric} distance."
            ),
            failing_records=failing,
            failing_share=None if failing is None else failing / files.records,
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(k=2),
            cls(k=5, metric="gower", within=0.05),
            cls(k=1000, standardise="original", within=0.5),
        ]


def _rounded(files: FilePair, name: str) -> bool:
    """Whether different numbers of a column are the same as floats: they would seem to be ties."""
    import pyarrow as pa
    import pyarrow.compute as pc

    exact: set[Any] = set()
    floats: set[float] = set()
    for side in SIDES:
        column = (files.original if side == "original" else files.released).column(name)
        numbers = files.numbers(side, name)
        if numbers is None:
            return False
        if not pa.types.is_floating(column.type):
            exact.update(pc.unique(column.drop_null()).to_pylist())
            floats.update(np.unique(numbers[~np.isnan(numbers)]).tolist())
    return len(exact) > len(floats)


def _compared(files: FilePair, name: str) -> tuple[Comparison, ...]:
    """Released records that have a value in a column, and those whose label covers a value of the original."""
    assert files.counts is not None
    numbers = files.numbers("original", name), files.numbers("released", name)
    remedy = "leave columns without values out of quasi_identifiers"
    if numbers[0] is not None and numbers[1] is not None:
        before, after = (
            int(c[~np.isnan(v)].sum()) for v, c in zip(numbers, files.counts, strict=True) if v is not None
        )
        of = min(before, files.released_records)
        return (Comparison(min(after, of), of, f"released records have a number in {name!r}", remedy),)
    found = compared_labels(files, name)
    own, covers = np.unique(found.value_of), np.zeros(len(found.labels), dtype=np.bool_)
    if found.apart is None:
        covers[own] = True
    else:
        covers |= ~found.apart[own].all(axis=0)
    texts = ((found.values, found.value_of), (found.labels, found.label_of))
    known = [np.array([text is not None for text in every], dtype=np.bool_)[places] for every, places in texts]
    before, after = (int(c[some].sum()) for some, c in zip(known, files.counts, strict=True))
    of, explained = min(before, files.released_records), int(files.counts[1][covers[found.label_of] & known[1]].sum())
    return (
        Comparison(min(after, of), of, f"released records have a label in {name!r}", remedy),
        Comparison(explained, after, f"released records have a label of {name!r} that is explained", EXPLAIN),
    )


def _candidates(found: Linkable, rows: Ints, within: float) -> Ints:
    """Released records nearest to each row of the original, or at most `within` further."""
    from privpipe.kernels.linkage.distance import pair_distances

    n = len(found.original)
    counted = np.zeros(n, dtype=np.int64)
    step = max(1, CHUNK // len(found.released))
    for start in range(0, n, step):
        some = np.arange(start, min(n, start + step))
        distances: Floats = pair_distances(found.original.take(some), found.released, squared=found.squared)
        reach = distances.min(axis=1, keepdims=True) + within
        counted[some] = (distances - reach <= 1e-12 * (1.0 + distances)) @ rows
    return counted

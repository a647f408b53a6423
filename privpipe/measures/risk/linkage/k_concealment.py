"""k-concealment and its relatives: how many released records an original one can be, and conversely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import FilePair, Verdict
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LeastNumber, Stricter
from privpipe.blocks.verdict import Comparison
from privpipe.errors import HierarchyError
from privpipe.kernels.linkage.distance import LARGEST_TOTAL, assignable
from privpipe.measures.risk.linkage.linkable_files import NEEDS_ORIGINAL, ComparedLabels, compared_labels

__all__ = ["KConcealment"]

Kind = Literal["concealment", "k_k", "one_k", "k_one"]
LARGEST_COMPARED = 2_000_000_000
"""Pairs of classes whose consistency is looked at."""
LARGEST_CONSISTENT = 10_000_000
"""Consistent pairs of classes that a flow goes over."""
LARGEST_LABELS = 100_000_000
"""Values times labels of a column."""
CHUNK = 4_000_000


class _Graph(NamedTuple):
    """Merged classes of both sides, and which are consistent."""

    records: Ints
    rows: Ints
    originals: Ints
    released: Ints


@dataclass(frozen=True, kw_only=True, repr=False)
class KConcealment(DistinctPairMeasure):
    """Fewest released records that a record of the original can be, over all assignments of the whole release.

    A released record is consistent with an original one where each of its labels covers the value.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the figures are reported.
    kind : {"concealment", "k_k", "one_k", "k_one"}
        concealment: released records that an original one is assigned in some assignment of all released records to
        different originals. one_k: released records consistent with an original one. k_one: original records
        consistent with a released one. k_k: the smaller of these two.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Every k-anonymous generalization has k-concealment; local recoding and suppression of cells reach it with less
    loss. Exact over classes, by one maximum flow and the strongly connected components of its residual graph. Labels
    are read by the declared hierarchies, as ranges and as sets; the suppression mark covers any value, and a missing
    value does so under `nulls: wildcard`. Original records that no assignment reaches were removed from the release
    and are left out. Where the released records cannot all be assigned to different originals the release is no
    generalization of the original (noise, rounding, synthetic rows, labels that nothing explains), and the outcome is
    an error, as it is without the original: judge it by `k_confusion`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x = pa.table({"town": ["Bonn", "Graz", "Jena"], "__count": [1, 1, 2]})
    >>> y = pa.table({"town": ["{Bonn, Graz}", "{Bonn, Jena}", "{Graz, Jena}", "Jena"], "__count": [1, 1, 1, 1]})
    >>> verdict = KConcealment(k=2).judge_tables(DistinctPair(keys=("town",), released=y, original=x))
    >>> verdict.outcome, verdict.observed["concealment"], verdict.observed["k_one"]
    ('pass', 2, 2)
    """

    threshold_field = "k"
    direction = "at_least"
    protects_nobody_at = 1
    observes = dict[str, int]
    source = "Gionis, Mazza, Tassa, ICDE 2008; Tassa, Mazza, Gionis, Transactions on Data Privacy 5(1), 2012"
    threat = (
        "An intruder with the quasi-identifiers of everyone in the table looks for the released record of a person, "
        "and rules out those that others must have."
    )
    formula = "min over original records of released records paired with it in some assignment >= k"
    choose = "As k of k_anonymity: 5 for data under contract, 11 or more in public."

    k: Annotated[LeastNumber, Doc("fewest records that are required")] = None
    kind: Annotated[
        Kind,
        Stricter("equal"),
        Doc("concealment (over assignments of the whole release), k_k, one_k or k_one (only consistent pairs)"),
    ] = "concealment"

    quasi_identifiers: Annotated[KeyColumns, Doc("columns compared; left out: all of the policy")] = None

    def judge_tables(self, pair: DistinctPair) -> Verdict:
        files = pair.unpaired()
        if files is None or files.counts is None:
            return self.not_judged(NEEDS_ORIGINAL)
        if not len(files):
            return self.not_judged("the original has no records")
        if max(files.records, files.released_records) > LARGEST_TOTAL:
            return self.not_judged(f"a table has more than {LARGEST_TOTAL:,} records")
        found = _graph(files, pair.keys, pair.blanks)
        if isinstance(found, str):
            return self.not_judged(found)
        chosen = assignable(found.originals, found.released, found.records, found.rows)
        if chosen.assigned < files.released_records:
            return self.not_judged(
                f"{files.released_records - chosen.assigned:,} of {files.released_records:,} released records are left "
                "over when as many as possible are assigned to different original records: the release is no "
                "generalization of this original; where missing values are suppressed cells set nulls: wildcard, and "
                "judge perturbed values by k_confusion"
            )
        return self._verdict(files, found, chosen.pairs)

    def _verdict(self, files: FilePair, found: _Graph, pairs: Bools) -> Verdict:
        originals, released, n = found.originals, found.released, len(found.records)
        matched = _summed(originals[pairs], found.rows[released[pairs]], n)
        fits = _summed(originals, found.rows[released], n)
        fitted = _summed(released, found.records[originals], len(found.rows))
        # Records that no released one can be were removed from the release.
        observed = {
            "concealment": int(matched[matched > 0].min()),
            "one_k": int(fits[fits > 0].min()),
            "k_one": int(fitted.min()),
        }
        observed["k_k"] = min(observed["one_k"], observed["k_one"])
        reached = matched if self.kind == "concealment" else fits
        kept = int(found.records[reached > 0].sum())
        failing = None if self.k is None else self._failing(found, reached, fitted, self.k)
        gone = f"; {files.records - kept:,} original records can be no released one" if kept < files.records else ""
        return self.judged(
            observed[self.kind],
            observed,
            reason=(
                f"observed {short(observed[self.kind])}{self.asked}; an original record is consistent with "
                f"{short(observed['one_k'])} released records at least, a released one with "
                f"{short(observed['k_one'])} original ones{gone}."
            ),
            failing_records=failing,
            compared=(Comparison(kept, files.records, "original records can be a released one"),),
        )

    def _failing(self, found: _Graph, reached: Ints, fitted: Ints, k: int) -> int:
        """Records of the sides that the kind is about with fewer than k."""
        failing = 0
        if self.kind != "k_one":
            failing += int(found.records[(reached > 0) & (reached < k)].sum())
        if self.kind in ("k_one", "k_k"):
            failing += int(found.rows[fitted < k].sum())
        return failing

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=2), cls(k=5, kind="k_k"), cls(k=1000, kind="k_one"), cls(k=2, kind="one_k")]


def _summed(places: Ints, records: Ints, size: int) -> Ints:
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, places, records)
    return total


def _graph(files: FilePair, keys: Sequence[str], blanks: Sequence[str | None]) -> _Graph | str:
    """The consistency graph over classes that no column distinguishes, or why there is none."""
    assert files.counts is not None
    columns, released = [], np.asarray(files.counts[1])
    for name in keys:
        try:
            found = compared_labels(files, name)
        except HierarchyError as error:
            return f"column {name!r}: its hierarchy does not fit the original: {error}"
        column = _Column.of(found, blanks)
        if column is None:
            return (
                f"column {name!r}: {len(found.values):,} values times {len(found.labels):,} labels are more than the "
                f"{LARGEST_LABELS:,} that are compared"
            )
        lost = int(released[~column.covers_some()[column.label_of]].sum())
        if lost:
            return (
                f"{lost:,} of {files.released_records:,} released records have a label of {name!r} that covers no "
                "value of the original; declare the hierarchy that the labels come from, set nulls: wildcard where "
                "missing values are suppressed cells, or judge perturbed values by k_confusion"
            )
        columns.append(column)
    before, records = _merged([column.value_of for column in columns], files.counts[0])
    after, rows = _merged([column.label_of for column in columns], released)
    if len(records) * len(rows) > LARGEST_COMPARED:
        return (
            f"{len(records):,} times {len(rows):,} classes are more than the {LARGEST_COMPARED:,} pairs that are "
            "compared"
        )
    return _consistent(columns, before, after, records, rows)


class _Column(NamedTuple):
    """A column with values merged that the same labels cover, and labels that cover the same values."""

    value_of: Ints
    label_of: Ints
    apart: Bools | None
    free: Bools
    values: Ints

    @classmethod
    def of(cls, found: ComparedLabels, blanks: Sequence[str | None]) -> _Column | None:
        own = {found.values[code] for code in np.unique(found.value_of).tolist()}
        # A text that is a value of the original represents only that value.
        free = np.array([text in blanks and (text is None or text not in own) for text in found.labels], dtype=np.bool_)
        values = np.unique(found.value_of)
        if found.apart is None:
            return cls(found.value_of, found.label_of, None, free, values)
        if found.apart.size > LARGEST_LABELS:
            return None
        apart = found.apart & ~free
        labels, label_of = _alike(apart.T)
        texts, value_of = _alike(apart)
        merged = value_of[found.value_of], label_of[found.label_of]
        return cls(*merged, apart[np.ix_(texts, labels)], np.zeros(len(labels), dtype=np.bool_), np.unique(merged[0]))

    def covers_some(self) -> Bools:
        """Of each label whether it covers a value of the original."""
        if self.apart is not None:
            return np.asarray(~self.apart[self.values].all(axis=0))
        known = self.free.copy()
        known[self.values] = True
        return known

    def fits(self, values: Ints, labels: Ints) -> Bools:
        """Shape (len(values), len(labels))."""
        if self.apart is not None:
            return np.asarray(~self.apart[np.ix_(values, labels)])
        return np.asarray((values[:, None] == labels[None, :]) | self.free[labels][None, :])


def _alike(rows: Bools) -> tuple[Ints, Ints]:
    """The first of each set of equal rows, and the number of the set of each row."""
    packed = np.packbits(rows, axis=1)
    _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), place.reshape(-1).astype(np.int64)


def _merged(codes: Sequence[Ints], counts: Ints) -> tuple[Ints, Ints]:
    """Distinct rows of codes, shape (classes, columns), and their records."""
    distinct, place = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    return distinct.astype(np.int64), _summed(place.reshape(-1), counts, len(distinct))


def _consistent(columns: Sequence[_Column], before: Ints, after: Ints, records: Ints, rows: Ints) -> _Graph | str:
    parts: list[tuple[Any, Any]] = []
    total, step = 0, max(1, CHUNK // len(rows))
    for start in range(0, len(before), step):
        block = before[start : start + step]
        fits = np.ones((len(block), len(rows)), dtype=np.bool_)
        for at, column in enumerate(columns):
            fits &= column.fits(block[:, at], after[:, at])
        originals, released = np.nonzero(fits)
        total += len(originals)
        if total > LARGEST_CONSISTENT:
            return f"more than {LARGEST_CONSISTENT:,} pairs of classes are consistent"
        parts.append((originals + start, released))
    originals, released = (np.concatenate([part[side] for part in parts]).astype(np.int64) for side in (0, 1))
    return _Graph(records, rows, originals, released)

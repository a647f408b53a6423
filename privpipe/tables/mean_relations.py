"""Published means as relations between hidden sums and counts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Integers, matrix_of

__all__ = ["with_means"]

Mean = tuple[int, int, Fraction, Fraction]
"""Variable of the count, variable of the sum, least and greatest mean that the published figure allows."""


def with_means(counts: AuditProblem, sums: AuditProblem, means: Sequence[Mean]) -> AuditProblem:
    """What a reader knows of counts, and of sums in whole units, in addition to means of some cells.

    Variables are those of `counts`, then those of `sums`, then one more for each end of a rounded mean. Levels and
    insiders are those of `counts`.

    Examples
    --------
    A count of 7 to 11 with an exact mean of 45/4 is 8: only then is the sum a whole number.

    >>> from privpipe.tables.exact_audit import intervals
    >>> none = matrix_of(*(np.empty(0, dtype=np.int64) for _ in range(3)), (0, 1))
    >>> counts = AuditProblem(none, np.array([7]), np.array([11]), True)
    >>> sums = AuditProblem(none, np.array([0]), np.array([UNBOUNDED]), True)
    >>> mean = Fraction(45, 4)
    >>> [str(end[0]) for end in intervals(with_means(counts, sums, [(0, 0, mean, mean)])).closest]
    ['8', '8']
    """
    size = len(counts.low), len(sums.low)
    ends = [
        (count, size[0] + total, end, sign)
        for count, total, least, greatest in means
        for sign, end in ([(0, least)] if least == greatest else [(1, least), (-1, greatest)])
    ]
    rows, columns, values = [], [], []
    slack = sum(size)
    for row, (count, total, end, sign) in enumerate(ends):
        # denominator * sum - numerator * count is 0, or at least (at most) 0
        entries = [(total, end.denominator), (count, -end.numerator)]
        if sign:
            entries.append((slack, -sign))
            slack += 1
        for column, value in entries:
            rows.append(row)
            columns.append(column)
            values.append(value)
    blocks = [(counts.relations.tocoo(), 0, 0), (sums.relations.tocoo(), counts.relations.shape[0], size[0])]
    above = counts.relations.shape[0] + sums.relations.shape[0]
    relations = matrix_of(
        np.concatenate([*(block.data for block, _, _ in blocks), np.array(values, dtype=np.int64)]),
        np.concatenate([*(block.row + row for block, row, _ in blocks), np.array(rows, dtype=np.int64) + above]),
        np.concatenate([*(block.col + column for block, _, column in blocks), np.array(columns, dtype=np.int64)]),
        (above + len(ends), slack),
    )
    slacks = slack - sum(size)
    true = None
    if counts.true is not None and sums.true is not None:
        figures = np.concatenate([counts.true, sums.true]).tolist()
        distances = [
            sign * (figures[total] * end.denominator - figures[count] * end.numerator)
            for count, total, end, sign in ends
            if sign
        ]
        true = np.array([*figures, *distances], dtype=np.int64)
    return AuditProblem(
        relations,
        _joined(counts.low, sums.low, np.zeros(slacks, dtype=np.int64)),
        _joined(counts.high, sums.high, np.full(slacks, UNBOUNDED)),
        True,
        true,
        counts.levels,
        counts.knowing,
        counts.implied,
        counts.at_least,
        counts.insider_levels,
    )


def _joined(*parts: Integers) -> Integers:
    return np.concatenate(parts).astype(np.int64)

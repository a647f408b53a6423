"""The audit: whether what is published lets a reader work out a sensitive cell too closely, with proofs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError
from privpipe.tables.audit_problem import AuditProblem
from privpipe.tables.exact_programmes import extreme
from privpipe.tables.integer_matrices import Integers
from privpipe.tables.shrinking import Shrunk, shrink

__all__ = ["Intervals", "intervals"]

Ends = NDArray[np.object_]
"""Of `Fraction`, or None for no bound."""


@dataclass(frozen=True)
class Intervals:
    """What a reader can say of each open variable: the exact least and greatest value.

    Parameters
    ----------
    variables : ndarray of int64
        Variables that are not published, in ascending order.
    low, high : ndarray of Fraction or None
        Without whole numbers; None where there is no bound.
    whole_low, whole_high : ndarray of Fraction or None, or None
        Among whole numbers, if the problem is whole.
    """

    variables: Integers
    low: Ends
    high: Ends
    whole_low: Ends | None
    whole_high: Ends | None

    def __iter__(self) -> Iterator[Ends]:
        return iter((self.low, self.high))


def intervals(problem: AuditProblem, *, time_limit: float = 600.0) -> Intervals:
    """The exact interval of every variable that is not published.

    Raises
    ------
    DataError
        If published figures do not add up, no table agrees with them, or an interval was not proved in time.
    """
    deadline = time.monotonic() + time_limit
    variables = np.flatnonzero(~problem.published)
    linear = AuditProblem(problem.relations, problem.low, problem.high, False, problem.true)
    low, high = _ends(shrink(linear), variables, deadline)
    if not problem.whole:
        return Intervals(variables, low, high, None, None)
    return Intervals(variables, low, high, *_ends(shrink(problem), variables, deadline))


def _ends(shrunk: Shrunk, variables: Integers, deadline: float) -> tuple[Ends, Ends]:
    """The exact least and greatest value of each of some variables of a problem."""
    ends = {}
    for sign in (-1, 1):
        found = np.empty(len(variables), dtype=object)
        for at in np.flatnonzero(shrunk.place[variables] < 0):
            found[at] = Fraction(int(shrunk.constants[variables[at]]))
        ends[sign] = found
    rank = np.full(len(shrunk.place), -1)
    rank[variables] = np.arange(len(variables))
    unproved = 0
    for number in range(shrunk.components):
        columns = np.flatnonzero(shrunk.component == number)
        system = shrunk.system.part(columns)
        for sign in (-1, 1):
            limits = system.high if sign > 0 else -system.low
            reached: list[set[int]] = [set() for _ in columns]
            for column in range(len(columns)):
                if int(limits[column]) in reached[column]:
                    value: Fraction | None = Fraction(int(limits[column]))
                else:
                    found_end = extreme(system, column, sign, deadline)
                    unproved += not found_end.closed
                    value = None if found_end.unbounded else found_end.value
                    if found_end.point is not None and found_end.point.denominator == 1:
                        for other in np.flatnonzero(sign * found_end.point.numerators == limits):
                            reached[other].add(int(limits[other]))
                ends[sign][rank[shrunk.variables[columns[column]]]] = None if value is None else sign * value
    if unproved:
        raise DataError(f"{unproved} ends of intervals were not proved in time; set a longer time_limit")
    return ends[-1], ends[1]

"""Cuts of intervals as round numbers, none of which is the value of a few records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise

import numpy as np

from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.round_numbers import nearest_multiple, round_step

__all__ = ["LEAST_REPORTED", "RoundedCuts"]

LEAST_REPORTED = 5
"""Figures that rest on fewer records are withheld where a policy asks for no k."""


class RoundedCuts:
    """Round numbers near cuts that are values of the data.

    A cut becomes the nearest multiple of a step, between the cuts next to it, that is no value of fewer than
    `LEAST_REPORTED` records; where every multiple there is such a value, nothing is cut. One cut becomes one number at
    every level, so that levels nest after rounding as before.

    Parameters
    ----------
    line : NumberLine
        Of the distinct values.
    counts : sequence of int
        Records of each.
    cuts : sequence of int
        Of the finest level in rising order, in units of the line.
    step : int or None
        In units; None: the greatest of 1, 2, 5, 10, ... that is at most half of the least distance between two cuts,
        or between the only cut and the ends of the values.

    Examples
    --------
    >>> line = NumberLine(["103", "218", "297", "400", "471"], [])
    >>> RoundedCuts(line, [1, 1, 1, 7, 1], [218, 400], None).of([218, 400])
    [200, 400]
    >>> RoundedCuts(line, [1, 1, 1, 1, 1], [218, 400], None).of([218, 400])
    [200, 450]
    """

    def __init__(self, line: NumberLine, counts: Sequence[int], cuts: Sequence[int], step: int | None) -> None:
        finite = line.numeric & (line.infinite == 0)
        held = np.array([0 < int(count) < LEAST_REPORTED for count in counts], dtype=np.bool_)
        self._rare = {int(value) for value in line.values[finite & held].tolist()}
        low, high = (int(end(line.values[finite])) for end in (np.min, np.max)) if finite.any() else (0, 0)
        self._step = step or _step([low, *cuts, high])
        ends = [low, *cuts, high + 1]
        self._found = {cut: self._near(cut, ends[at], ends[at + 2]) for at, cut in enumerate(cuts)}

    @property
    def dropped(self) -> bool:
        """Whether nothing is cut where a cut was asked for."""
        return None in self._found.values()

    def of(self, cuts: Sequence[int]) -> list[int]:
        """What some of the cuts become, in rising order."""
        return sorted({found for cut in cuts if (found := self._found[cut]) is not None})

    def _near(self, cut: int, below: int, above: int) -> int | None:
        """The nearest round number that is nobody's; the greater one of two."""
        start, step = nearest_multiple(cut, self._step), self._step
        up = (start + each * step for each in count())
        down = (start - each * step for each in count(1))
        sides = (
            next(number for number in side if number not in self._rare or not below < number < above)
            for side in (up, down)
        )
        inside = [number for number in sides if below < number < above]
        return min(inside, key=lambda number: (abs(number - cut), -number), default=None)


def _step(ends: Sequence[int]) -> int:
    """Half of the least distance, as a round number."""
    inner = ends[1:-1] if len(ends) > 3 else ends
    return round_step(min((b - a for a, b in pairwise(inner) if b > a), default=2) // 2, at_most=True)

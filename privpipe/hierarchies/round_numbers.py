"""Round numbers: 1, 2, 5, 10, 20, 50, ... and cuts of intervals taken from them, none the value of a few records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise

import numpy as np

from privpipe.hierarchies.interval_levels import NumberLine

__all__ = ["LEAST_REPORTED", "RoundedCuts", "nearest_multiple", "round_step", "steps_of_range"]


SERIES = (1, 2, 5)
MOST_BANDS = 20
FEWEST_BANDS = 2


def round_step(least: int, *, at_most: bool = False) -> int:
    """The smallest number of the series that is at least `least`, or the greatest that is at most that.

    Examples
    --------
    >>> round_step(3), round_step(20), round_step(101), round_step(49, at_most=True)
    (5, 20, 200, 20)
    """
    power = int(10 ** (len(str(max(least, 1))) - 1))
    steps = [power * factor for factor in (*SERIES, 10)]
    if at_most:
        return max(step for step in steps if step <= max(least, 1))
    return min(step for step in steps if step >= least)


def steps_of_range(low: int, high: int) -> list[int]:
    """Steps in units, each a multiple of the one below, from some twenty bands of the range down to three.

    Examples
    --------
    >>> steps_of_range(17, 90), steps_of_range(0, 99_999), steps_of_range(40, 40)
    ([5, 10, 20], [5000, 10000, 20000], [2])
    """
    step = max(round_step(-(-(high - low) // MOST_BANDS)), 2)
    steps = [step]
    while True:
        step = next(found for found in _above(step) if found % steps[-1] == 0)
        if high // step - low // step + 1 <= FEWEST_BANDS:
            return steps
        steps.append(step)


def nearest_multiple(value: int, step: int) -> int:
    """The multiple of a step that is nearest, the greater one of two.

    Examples
    --------
    >>> nearest_multiple(12, 5), nearest_multiple(-5, 10), nearest_multiple(15, 10)
    (10, 0, 20)
    """
    return (2 * value + step) // (2 * step) * step


def _above(step: int) -> Sequence[int]:
    """The numbers of the series above one of its members, as far as a multiple of it is among them."""
    power = int(10 ** (len(str(step)) - 1))
    return [found for found in (power * factor for factor in (1, 2, 5, 10, 20)) if found > step]


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
        """The nearest round number that is no record's value; the greater one of two."""
        start, step = nearest_multiple(cut, self._step), self._step
        up = (start + each * step for each in count())
        down = (start - each * step for each in count(1))
        sides = (
            next(number for number in side if beyond(number) or (below < number < above and number not in self._rare))
            for side, beyond in ((up, above.__le__), (down, below.__ge__))
        )
        inside = [number for number in sides if below < number < above]
        return min(inside, key=lambda number: (abs(number - cut), -number), default=None)


def _step(ends: Sequence[int]) -> int:
    """Half of the least distance, as a round number."""
    inner = ends[1:-1] if len(ends) > 3 else ends
    return round_step(min((b - a for a, b in pairwise(inner) if b > a), default=2) // 2, at_most=True)

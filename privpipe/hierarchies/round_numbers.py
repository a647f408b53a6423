"""Round numbers: the series 1, 2, 5, 10, 20, 50, ... and what it makes of a range."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["nearest_multiple", "round_step", "steps_of_range"]

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
    """The numbers of the series above one of its own, as far as a multiple of it is among them."""
    power = int(10 ** (len(str(step)) - 1))
    return [found for found in (power * factor for factor in (1, 2, 5, 10, 20)) if found > step]

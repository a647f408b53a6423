"""How much worse a step of the search may leave the groups: less and less, and nothing at the end.

Source: Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science 220, 1983. Draws and cooling are sums,
products and halvings, no library functions, which round differently from machine to machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privpipe.compiled import njit
from privpipe.draws.siphash import high_product, word_of_2

__all__ = ["FEWEST_STEPS", "Cooling", "allowed_rise", "cooling_of"]

U = np.uint64
FRACTION = 1 << 40
HALVINGS, WARM = 9, 0.95
"""How often heat halves on the way, and the share of the steps after which nothing is allowed."""

FEWEST_STEPS = 20
"""Steps a record from which on it is worth to begin warm; with fewer, every step must gain."""


class Cooling(NamedTuple):
    """Steps of a search, and how warm they are.

    Parameters
    ----------
    iterations : int
    heat : float
        Of the first step: what a step may add to the SSE, on average.
    stretch : int
        Steps in which heat halves; 0: it is none.
    """

    iterations: int
    heat: float
    stretch: int


def cooling_of(iterations: int, records: int, group_loss: float) -> Cooling:
    """Begin with the mean loss of a group, halve it so often; few steps begin cold.

    Examples
    --------
    >>> cooling_of(9_000, 100, 0.5), cooling_of(900, 100, 0.5)
    (Cooling(iterations=9000, heat=0.5, stretch=950), Cooling(iterations=900, heat=0.0, stretch=0))
    """
    if iterations < FEWEST_STEPS * records or not group_loss > 0.0:
        return Cooling(iterations, 0.0, 0)
    return Cooling(iterations, group_loss, max(int(WARM * iterations) // HALVINGS, 1))


@njit(nogil=True, cache=True)
def allowed_rise(key: tuple[U, U], step: int, cooling: Cooling) -> float:
    """What this step may add to the SSE: heat times a draw, near exponential, of word 3 of the step.

    Parameters
    ----------
    key : tuple of uint64
    step : int
    cooling : Cooling

    Examples
    --------
    >>> allowed_rise((np.uint64(1), np.uint64(2)), 99, Cooling(100, 1.0, 10))
    0.0
    """
    if cooling.stretch == 0 or step >= HALVINGS * cooling.stretch:
        return 0.0
    drawn = float(high_product(word_of_2(key[0], key[1], U(step), U(3)), U(FRACTION)))
    share, rise = (drawn + 1.0) / FRACTION, 0.0
    while share < 0.5:
        share *= 2.0
        rise += 1.0
    heat = cooling.heat
    for _ in range(step // cooling.stretch):
        heat *= 0.5
    # Straight within a halving, in place of steps.
    heat *= 1.0 - 0.5 * (step % cooling.stretch) / cooling.stretch
    allowed: float = 0.6931471805599453 * heat * (rise + 2.0 * (1.0 - share))
    return allowed

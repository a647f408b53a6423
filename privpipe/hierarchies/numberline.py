"""`NumberLine`: numbers as whole multiples of the last decimal place that any of them uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privpipe.hierarchies.literals import exact_number, plain_decimal

__all__ = ["NumberLine"]

LARGEST: Final = 2**62
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


class NumberLine:
    """Values and bounds in one unit, so that comparing and dividing them is exact.

    Parameters
    ----------
    texts : sequence of str
        Canonical numbers; ``inf`` and ``-inf`` are allowed, and what is no number is marked.
    bounds : iterable of Decimal
        Finite; they share the unit.

    Attributes
    ----------
    values : ndarray of int64, or of object when they do not fit, shape (n,)
        In units; 0 for what is infinite or no number.
    infinite : ndarray of int8, shape (n,)
        -1, 0 or 1.
    numeric : ndarray of bool, shape (n,)
        Whether the text is a number, infinite ones included.

    Examples
    --------
    >>> line = NumberLine(["0.3", "-1", "inf"], [Decimal("0.25")])
    >>> line.values.tolist(), line.infinite.tolist(), line.units(Decimal("0.25")), line.text(-125)
    ([30, -100, 0], [0, 0, 1], 25, '-1.25')
    """

    def __init__(self, texts: Sequence[str], bounds: Iterable[Decimal]) -> None:
        limits = [plain_decimal(bound) for bound in bounds]
        plain = [text if _PLAIN.fullmatch(text) else _finite(text) for text in texts]
        self.infinite = np.array(
            [0 if known else _sign(text) for text, known in zip(texts, plain, strict=True)], np.int8
        )
        self.numeric = np.array([bool(known) for known in plain], dtype=bool) | (self.infinite != 0)
        self.scale = max((_decimals(text) for text in (*plain, *limits) if text), default=0)
        whole = [self._whole(text) if text else 0 for text in plain]
        reach = max((abs(each) for each in (*whole, *map(self._whole, limits))), default=0)
        self.values: NDArray[Any] = np.array(whole, dtype=np.int64 if reach < LARGEST else object)

    def units(self, bound: Decimal) -> int:
        """A bound in units."""
        return self._whole(plain_decimal(bound))

    def text(self, units: int) -> str:
        """The canonical text of a number of units."""
        digits = str(abs(units)).zfill(self.scale + 1)
        cut = len(digits) - self.scale
        part = digits[cut:].rstrip("0")
        return ("-" if units < 0 else "") + digits[:cut] + (f".{part}" if part else "")

    def below(self, bound: Decimal) -> NDArray[np.bool_]:
        """Which values are smaller than a bound, minus infinity included."""
        smaller = np.asarray(self.values < self.units(bound), dtype=bool)
        found: NDArray[np.bool_] = self.numeric & np.where(self.infinite == 0, smaller, self.infinite < 0)
        return found

    def _whole(self, text: str) -> int:
        whole, _, part = text.partition(".")
        return int(whole + part.ljust(self.scale, "0"))


def _finite(text: str) -> str:
    """Canonical text of a finite number written in another way; empty for anything else."""
    try:
        exact = exact_number(text)
    except ValueError:
        return ""
    return plain_decimal(exact) if exact.is_finite() else ""


def _sign(text: str) -> int:
    return {"inf": 1, "-inf": -1}.get(text, 0)


def _decimals(text: str) -> int:
    point = text.find(".")
    return 0 if point < 0 else len(text) - point - 1

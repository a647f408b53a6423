"""`redact`: one character per level replaced by `*`, from the right or the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import HierarchyError
from privpipe.hierarchies.levels import Draft, Levels, factorize
from privpipe.hierarchies.options import ROOT, Builder, whose

__all__ = ["Redact"]

MASK = "*"
MOST_CHARACTERS = 1 << 31
"""Of all labels of all values together; each of them is held as text."""


@dataclass(frozen=True, kw_only=True)
class Redact(Builder):
    """Texts of at most w characters into w + 1 levels: raw, then one more ``*`` a level, last the single ``*``.

    Shorter texts are padded on the redacted side, and the padding reads ``*`` from level 1 on.

    Examples
    --------
    >>> Redact().draft(["4711", "47"], None, "text", "zip").levels.labels[1:]
    (('47**', '471*'), ('47**',), ('4***',), ('*',))
    """

    example: ClassVar[str] = "{keep: left, alphabet: 10, length: 5}"
    example_values: ClassVar[tuple[str, ...]] = ("02138", "02141", "53715", "537")
    example_type: ClassVar[str] = "text"

    keep: Annotated[Literal["left", "right"], Doc("the side that stays visible longest")] = "left"
    alphabet: Annotated[
        Annotated[int, Ge(2)] | None,
        Doc("characters in use: the domain is then all texts of the length; left out: the values seen"),
    ] = None
    length: Annotated[
        Annotated[int, Ge(1)] | None,
        Doc("of a text; left out: that of the longest value, and labels of shorter ones then depend on the data"),
    ] = None

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in order of their text."""
        longest = max(map(len, values), default=0)
        width = self.length or max(longest, 1)
        inside = sorted(value for value in values if len(value) <= width)
        if len(inside) * width * width > MOST_CHARACTERS:
            raise HierarchyError(
                f"{whose(column, 'redact')}: a level for each of {width:,} characters of {len(inside):,} values is "
                f"more than {MOST_CHARACTERS:,} characters of labels; shorten the values, or give a smaller `length`",
                kind="length",
            )
        return Draft(
            levels=self._levels(inside, width),
            source="redact",
            shares=self._shares(inside, width, column),
            domain_size=_power(self.alphabet, width) if self.alphabet is not None else None,
            level_names=("raw", *(f"{level} redacted" for level in range(1, width)), ROOT),
            data_dependent=self.length is None and any(len(value) < longest for value in values),
            outside=tuple(place for place, value in enumerate(values) if len(value) > width),
            outside_why=f"they are longer than `length: {width}`",
        )

    def _levels(self, values: Sequence[str], width: int) -> Levels:
        """A label is that of the level below with one more character redacted: each is made once, not once a value."""
        codes, labels = factorize(values)
        levels, rows = [labels], [codes]
        for level in range(1, width):
            steps, labels = factorize(self._label(label, width, level) for label in labels)
            levels.append(labels)
            rows.append(steps[rows[-1]])
        return Levels((*levels, (ROOT,) * bool(values)), np.stack([*rows, np.zeros_like(codes)]))

    def _label(self, value: str, width: int, level: int) -> str:
        shown = width - level
        if self.keep == "left":
            return value[:shown].ljust(width, MASK)
        return value[max(0, len(value) - shown) :].rjust(width, MASK)

    def _shares(self, values: Sequence[str], width: int, column: str) -> NDArray[np.float64] | None:
        if self.alphabet is None:
            return None
        in_use = len({character for value in values for character in value})
        if in_use > self.alphabet:
            raise HierarchyError(
                f"{whose(column, 'redact')}: alphabet: the values use {in_use:,} different characters, more than "
                f"`alphabet: {self.alphabet}`",
                kind="alphabet",
            )
        shares = np.array([1 / _power(self.alphabet, width - level) for level in range(width + 1)])
        return np.repeat(shares[:, None], len(values), axis=1)


def _power(base: int, exponent: int) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return float("inf")

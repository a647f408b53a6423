"""How much of what an entry should compare it did compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ALIGN", "EXPLAIN", "Comparison", "least"]

EXPLAIN = "declare the hierarchy that the labels come from, or leave the column out of the columns compared"
ALIGN = "compare the release with the table that it was made from, by the same record ids"


@dataclass(frozen=True)
class Comparison:
    """Records or pairs that were compared, of those that should have been.

    Parameters
    ----------
    compared : int
    of : int
        Those that should have been. 0: there was nothing to compare.
    what : str
        What is counted, as the rest of a sentence that begins with the two numbers.
    remedy : str
        What to do where too few were compared.

    Examples
    --------
    >>> few = Comparison(3, 8, "released records have a label of 'age' that is explained", EXPLAIN)
    >>> str(few), few.enough
    ("3 of 8 released records have a label of 'age' that is explained", False)
    >>> Comparison(0, 0, "released records").enough, Comparison(4, 8, "released records").enough
    (False, True)
    """

    compared: int
    of: int
    what: str
    remedy: str = ""

    @property
    def share(self) -> float:
        """The share that was compared; 0 of nothing."""
        return self.compared / self.of if self.of else 0.0

    @property
    def enough(self) -> bool:
        """Whether it is at least half, so that a figure over it can be judged."""
        return self.of > 0 and 2 * self.compared >= self.of

    def __str__(self) -> str:
        return f"{self.compared:,} of {self.of:,} {self.what}"

    def to_dict(self) -> dict[str, int | str]:
        """The row of a verdict document."""
        return {"compared": self.compared, "of": self.of, "what": self.what}


def least(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """The one of which the smallest share was compared, the first of equal ones; none of none.

    Examples
    --------
    >>> least([Comparison(8, 8, "rows"), Comparison(2, 8, "rows"), Comparison(1, 4, "rows")])
    (Comparison(compared=2, of=8, what='rows', remedy=''),)
    """
    found = list(comparisons)
    return (min(found, key=lambda each: each.share),) if found else ()

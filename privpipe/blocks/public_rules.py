"""What the public edition of a document may contain, and what replaces the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpipe.errors import UsageError
from privpipe.hierarchies.rounded_cuts import LEAST_REPORTED

__all__ = ["LEAST_REPORTED", "PublicRules"]


@dataclass(frozen=True, kw_only=True)
class PublicRules:
    """Who reads the public edition knows the policy and the released cells, and may learn nothing else.

    Parameters
    ----------
    columns : frozenset of str
        The released columns.
    person : str, optional
        Column by which persons are distinguished, where they are counted.
    household : str, optional
        The same of households.
    least : int
        Counts below it, and shares of fewer records, are withheld.
    counts : bool
        Whether the numbers of input and suppressed records may be public; a model of the process forbids them.
    """

    columns: frozenset[str]
    person: str | None = None
    household: str | None = None
    least: int = LEAST_REPORTED
    counts: bool = True

    def __post_init__(self) -> None:
        if self.least < 1:
            raise UsageError(f"the least number of records that is reported must be at least 1, got {self.least}")

    def unit(self, over: str | None) -> str | None:
        """The column by which those are distinguished who are counted; None: records are."""
        return {None: self.person, "persons": self.person, "households": self.household}.get(over)

    def reported(self, figure: Any, records: int, *, shares: bool = True) -> Any:
        """A figure of a table of so many records; None in place of what rests on fewer than `least` of them.

        Whole numbers count records or classes; numbers between 0 and 1 are shares of records where `shares` says so.

        Examples
        --------
        >>> PublicRules(columns=frozenset()).reported({"records": 3, "share": 0.01, "highest": 0.2}, 100)
        {'records': None, 'share': None, 'highest': 0.2}
        """
        if isinstance(figure, dict):
            return {name: self.reported(each, records, shares=shares) for name, each in figure.items()}
        if isinstance(figure, list):
            return [self.reported(each, records, shares=shares) for each in figure]
        if isinstance(figure, bool) or not isinstance(figure, int | float):
            return figure
        if isinstance(figure, int):
            return None if 0 < figure < self.least else figure
        return None if shares and 0 < figure < 1 and figure * records < self.least - 1e-9 else figure

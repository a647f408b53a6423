"""What was seen of a column, and what is guessed of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privpipe.roles import ColumnType, Role

if TYPE_CHECKING:
    from privpipe.reporting.safe_harbor import Finding

__all__ = ["NUMBERS", "Guess", "Profile"]

NUMBERS = ("integer", "number", "decimal")


@dataclass(frozen=True)
class Profile:
    """What was seen of a column; of its values only ends of numbers, words of known scales, and declared categories.

    Parameters
    ----------
    name : str
    type : ColumnType
    records, missing, distinct : int
        Records, those without a value, and distinct values.
    null_values : tuple of str
        Texts of a fixed list that represent a missing value here.
    spread : float
        Largest less least value, of numbers; 0 elsewhere.
    code_length : int
        Length of the values when all are codes of one length, else 0.
    separation : float
        Share of record pairs that differ in the column.
    counts : tuple of int
        Records of each value, a missing one too; empty for more values than a class could show.
    words : float
        Mean number of words of distinct texts; 0 elsewhere.
    bottom, top : float
        Least and greatest number; 0 elsewhere.
    tail : float
        The number that few records exceed, where it is far below the greatest; 0 where there is no such tail.
    skewed : bool
        Whether numbers from 0 reach much farther above the middle than below it.
    whole : bool
        Whether all numbers are whole.
    fractions : bool
        Whether most numbers have more than two decimals, as no amount or rate that is written down has.
    even : bool
        Whether numbers are spread as evenly as those that are given out in turn, or drawn.
    scale : tuple of str
        The texts in the order of a known scale that has them all; ordered categories as they are declared.
    by_text : bool
        Whether the order of the texts is that of codes that they begin with.
    findings : tuple of Finding
        Kinds of identifiers that HIPAA Safe Harbor would have removed.
    """

    name: str
    type: ColumnType
    records: int
    missing: int
    distinct: int
    null_values: tuple[str, ...] = ()
    spread: float = 0.0
    code_length: int = 0
    separation: float = 0.0
    counts: tuple[int, ...] = ()
    words: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    tail: float = 0.0
    skewed: bool = False
    whole: bool = True
    fractions: bool = False
    even: bool = False
    scale: tuple[str, ...] = ()
    by_text: bool = False
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Guess:
    """A role and why.

    Parameters
    ----------
    role : Role
    reason : str
    unknown : bool
        Nothing suggests a role, and the cautious one was taken.
    level_of : str
        The column whose hierarchy this one is a level of.
    person : bool
        Whether it identifies persons.
    """

    role: Role
    reason: str
    unknown: bool = False
    level_of: str = ""
    person: bool = False
    household: bool = False

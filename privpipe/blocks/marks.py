"""What the value of a field represents, declared in its annotation: the name of a field means nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

__all__ = [
    "BaseDistribution",
    "ColumnName",
    "ColumnNames",
    "Columns",
    "Confidence",
    "FilePath",
    "Household",
    "Items",
    "KeyColumns",
    "LargestShare",
    "LeastNumber",
    "Levels",
    "Mark",
    "OneSensitive",
    "OptionalNumber",
    "OwnColumns",
    "PositiveNumber",
    "PositiveShare",
    "SensitiveColumn",
    "Stricter",
    "Weight",
]


class Mark:
    """What the value of a field means to code other than the entry itself."""


class ColumnName(Mark):
    """A column by its name, or several; anything but a name is refused."""


class SensitiveColumn(ColumnName):
    """The sensitive column, or columns, whose values a guarantee counts."""


class ColumnNames(Mark):
    """Columns of the table: a list, a list of lists, or the keys of a mapping."""


class Columns(ColumnNames):
    """The columns an entry is about, if it names them itself."""


class Weight(ColumnName):
    """The column with the sampling weight of a record."""


class Household(ColumnName):
    """The column that distinguishes households."""


class Levels(ColumnNames):
    """The columns with the level that each is recoded to."""


class Items(ColumnName, ColumnNames):
    """The set-valued column whose combinations of items a guarantee counts."""


class BaseDistribution(Mark):
    """The distribution that classes are compared with."""


@dataclass(frozen=True)
class FilePath(Mark):
    """Paths, which a policy writes as seen from its own folder; `words` are values that are none."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stricter(Mark):
    """Which values of a guarantee's parameter are stricter than another; a parameter without it: `equal`.

    `larger` and `smaller` are of numbers (and left out asks for nothing), `names` of lists of columns, `fail` of the
    severity; of two values that are `equal` or not neither asks for more.
    """

    direction: Literal["larger", "smaller", "names", "fail", "equal"]


LargestShare = Annotated[float | None, Ge(0), Le(1), Stricter("smaller")]
"""A threshold on a share; left out, the share is reported."""
LeastNumber = Annotated[int | None, Ge(1), Stricter("larger")]
"""A threshold such as k; left out, the number is reported."""
OneSensitive = Annotated[str, SensitiveColumn(), Stricter("equal")]
OwnColumns = Annotated[tuple[str, ...] | None, Columns(), Stricter("equal")]
"""The columns that an entry compares records by; left out: all quasi-identifiers."""
KeyColumns = Annotated[tuple[str, ...] | None, Stricter("names")]
OptionalNumber = Annotated[int | None, Ge(1), Stricter("equal")]
"""Of a sample, None takes all records; else what None means is up to the entry."""
Confidence = Annotated[float, Gt(0), Lt(1), Stricter("larger")]
PositiveShare = Annotated[float, Gt(0), Le(1), Stricter("equal")]
PositiveNumber = Annotated[int, Ge(1), Stricter("equal")]

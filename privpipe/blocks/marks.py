"""What the value of a field represents, declared in its annotation: the name of a field means nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "BaseDistribution",
    "ColumnName",
    "ColumnNames",
    "Columns",
    "FilePath",
    "Household",
    "Items",
    "Levels",
    "Mark",
    "SensitiveColumn",
    "Stricter",
    "Weight",
]


class Mark:
    """What the value of a field stands for, wherever something but the entry itself asks."""


class ColumnName(Mark):
    """A column by its name, or several; the checker refuses what is not a name."""


class SensitiveColumn(ColumnName):
    """The sensitive column, or columns, whose values a guarantee counts."""


class ColumnNames(Mark):
    """Columns of the table: a list, a list of lists, or the keys of a mapping."""


class Columns(ColumnNames):
    """The columns an entry is about, where it names them itself."""


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
    """Which values of a guarantee's parameter ask for more than another does; a parameter without it: `equal`.

    `larger` and `smaller` are of numbers (and left out asks for nothing), `names` of lists of columns, `fail` of the
    severity; of two values that are `equal` or not neither asks for more.
    """

    direction: Literal["larger", "smaller", "names", "fail", "equal"]

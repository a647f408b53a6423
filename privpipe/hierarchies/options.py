"""Options that every hierarchy has, whatever builder makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypedDict

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.errors import UsageError, did_you_mean

__all__ = ["ROOT", "Choices", "OptionArgs", "Options", "whose"]

ROOT: Final = "*"
UNKNOWN_RULES: Final = ("refuse", "root", "suppress")
ROOT_RULES: Final = ("required", "optional")


class Choices(NamedTuple):
    """The words that an option may be."""

    words: tuple[str, ...]


class OptionArgs(TypedDict, total=False):
    """The keyword arguments that `Hierarchy.read_csv`, `from_rows` and `from_tree` share; see `Options`."""

    column: str
    unknown: str
    root: str
    add_root: bool
    min_level: int
    max_level: int | None
    level_names: tuple[str, ...]
    null_label: str | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of one hierarchy.

    Parameters
    ----------
    column : str
        Named in errors and reports.

    Examples
    --------
    >>> Options(column="age", min_level=1).unknown
    'refuse'
    """

    column: str = ""
    unknown: Annotated[
        str,
        Choices(UNKNOWN_RULES),
        Doc(
            "what a value outside becomes: an error (refuse), the root at every level (root), or a record that is "
            "suppressed before all others (suppress)"
        ),
    ] = "refuse"
    root: Annotated[
        str, Choices(ROOT_RULES), Doc("optional: several labels at the last level; a search may then find no solution")
    ] = "required"
    add_root: Annotated[bool, Doc("append a level of *; it counts in the height, hence in Precision")] = False
    min_level: Annotated[int, Ge(0), Doc("the lowest level that a search may use")] = 0
    max_level: Annotated[int | None, Ge(0), Doc("the highest level that a search may use; left out: all")] = None
    level_names: Annotated[tuple[str, ...], Doc("one a level, for reports; left out: the builder's")] = ()
    null_label: Annotated[
        str | None,
        Doc("label of missing values between the raw level and the root; left out: they stay missing there"),
    ] = None

    def __post_init__(self) -> None:
        for name, rules in (("unknown", UNKNOWN_RULES), ("root", ROOT_RULES)):
            given = getattr(self, name)
            if given not in rules:
                wanted = " | ".join(rules)
                raise UsageError(f"{name}: must be {wanted}, got {given!r}{did_you_mean(str(given), rules)}")
        if not isinstance(self.add_root, bool):
            raise UsageError(f"add_root: must be true or false, got {self.add_root!r}")
        for name in ("min_level", "max_level"):
            given = getattr(self, name)
            whole = isinstance(given, int) and not isinstance(given, bool) and given >= 0
            if not whole and not (given is None and name == "max_level"):
                raise UsageError(f"{name}: must be an integer >= 0, got {given!r}")
        if self.max_level is not None and self.max_level < self.min_level:
            raise UsageError(f"max_level: {self.max_level} is below min_level {self.min_level}")
        if self.null_label is not None and not (isinstance(self.null_label, str) and self.null_label):
            raise UsageError("null_label: must be a text, and not an empty one")
        object.__setattr__(self, "level_names", self._names(self.level_names))

    @staticmethod
    def _names(names: object) -> tuple[str, ...]:
        if not isinstance(names, list | tuple) or any(not isinstance(name, str) for name in names):
            raise UsageError("level_names: must be a list of texts, one a level")
        if len(set(names)) != len(names):
            raise UsageError("level_names: two levels have the same name")
        return tuple(names)


def whose(column: str, source: str) -> str:
    """The start of an error message: which hierarchy it is about.

    Examples
    --------
    >>> whose("age", "age.csv"), whose("", "rows")
    ("hierarchy of column 'age' (age.csv)", 'hierarchy (rows)')
    """
    return f"hierarchy of column {column!r} ({source})" if column else f"hierarchy ({source})"

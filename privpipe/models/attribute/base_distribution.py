"""Which distribution a class is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from privpipe.errors import UsageError

__all__ = ["Base", "BaseFile", "as_base"]


@dataclass(frozen=True, kw_only=True)
class BaseFile:
    """A base distribution that lies in a file.

    Parameters
    ----------
    file : str
        Path; a relative one starts at the policy file. A table: the values under the column's name or ``value``,
        beside them ``count`` or ``share``, one line a value; without either, one line a record. The delimiter of a
        CSV file is told by its first line.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # an unknown key is an error

    file: str


Base = Literal["original", "released"] | BaseFile


def as_base(owner: str, base: Any) -> Base:
    """The parameter `base` of a model; Python callers may write the policy's mapping ``{"file": path}``.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> as_base("TCloseness", {"file": "census.csv"})
    BaseFile(file='census.csv')
    """
    if isinstance(base, Mapping) and list(base) == ["file"] and isinstance(base["file"], str):
        return BaseFile(file=base["file"])
    if isinstance(base, BaseFile) or base in ("original", "released"):
        return base  # type: ignore[no-any-return]
    raise UsageError(f"{owner}: base must be original, released or {{file: path}}, got {type(base).__name__}")

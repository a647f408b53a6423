"""The base distribution that classes are compared with, and the largest gain of each class over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from privpipe.blocks import Cells, ClassBlock, Facts
from privpipe.blocks.arrays import Floats
from privpipe.blocks.table_name import TableName
from privpipe.errors import UsageError
from privpipe.tolerance import slack

__all__ = ["Base", "BaseDatabase", "BaseFile", "BaseNamed", "BaseTable", "GivenBase", "as_base", "largest_gains"]


@dataclass(frozen=True, kw_only=True)
class BaseFile:
    """A base distribution in a file.

    Parameters
    ----------
    file : str
        Path; a relative one starts at the policy file. A table: the values under the column's name or ``value``,
        next to them ``count`` or ``share``, one line per value; without either, one line per record. The delimiter of a
        CSV file is recognised by its first line.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # an unknown key is an error

    file: str


@dataclass(frozen=True, kw_only=True)
class BaseDatabase:
    """A base distribution that is a table of a DuckDB or SQLite file, with the columns of a `BaseFile`.

    Parameters
    ----------
    file : str
        Path; a relative one starts at the policy file.
    table : str
        As in ``main.census``.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    file: str
    table: str

    def __post_init__(self) -> None:
        TableName.parse(self.table)


@dataclass(frozen=True, kw_only=True)
class BaseNamed:
    """A base distribution that is a table of a catalogue, with the columns of a `BaseFile`.

    Parameters
    ----------
    table : str
        A table or view of the Spark session, as in ``db.census``.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    table: str

    def __post_init__(self) -> None:
        TableName.parse(self.table)


class BaseTable:
    """A base distribution handed over in Python: a frame with the columns of a `BaseFile`, or ``{value: count}``.

    It equals only itself, shows none of its values, and stays behind when its model travels to a worker.

    Parameters
    ----------
    data : frame or mapping of value to number
        Whole numbers are counts, others shares.

    Examples
    --------
    >>> BaseTable({"flu": 3, "cold": 1})
    BaseTable(...)
    """

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __repr__(self) -> str:
        return "BaseTable(...)"

    def __reduce__(self) -> tuple[Any, ...]:
        return BaseTable, (None,)

    def tolist(self) -> str:
        """What a verdict document shows of it."""
        return "given in Python"

    def frame(self) -> Any:
        """The data as a frame."""
        if not isinstance(self.data, Mapping):
            return self.data
        import pyarrow as pa

        weights = list(self.data.values())
        whole = all(isinstance(weight, int) for weight in weights)
        return pa.table({"value": pa.array(list(self.data)), "count" if whole else "share": pa.array(weights)})


Base = Literal["original", "released"] | BaseFile | BaseDatabase | BaseNamed
GivenBase = BaseFile | BaseDatabase | BaseNamed | BaseTable


def as_base(owner: str, base: Any) -> Base:
    """The parameter `base` of a model; Python callers may write the policy's mapping, ``{"file": path}`` or
    ``{"table": name}``, or give the distribution itself as a frame or ``{value: count}``.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> as_base("TCloseness", {"file": "census.csv"})
    BaseFile(file='census.csv')
    """
    texts = isinstance(base, Mapping) and all(isinstance(text, str) for text in base.values())
    if texts and set(base) == {"file"}:
        return BaseFile(**base)
    if texts and set(base) == {"file", "table"}:
        return BaseDatabase(**base)
    if isinstance(base, Mapping) and list(base) == ["table"] and isinstance(base["table"], str):
        return BaseNamed(table=base["table"])
    if isinstance(base, BaseFile | BaseDatabase | BaseNamed | BaseTable) or (
        isinstance(base, str) and base in ("original", "released")
    ):
        return base  # type: ignore[return-value]
    numbers = isinstance(base, Mapping) and all(
        isinstance(weight, int | float) and not isinstance(weight, bool) for weight in base.values()
    )
    if (numbers and base) or hasattr(base, "__arrow_c_stream__") or type(base).__module__.startswith("pandas."):
        return BaseTable(base)  # type: ignore[return-value]
    raise UsageError(
        f"{owner}: base must be original, released, {{file: path}}, {{file: path, table: name}} of a database, "
        f"{{table: name}}, or in Python a frame or {{value: count}}, got {type(base).__name__}"
    )


def largest_gains(block: ClassBlock, facts: Facts, column: str) -> tuple[Floats, Floats]:
    """Largest gain of each class; the same, infinite where a value exceeds its cap of -ln p; once a block."""

    def compute(them: Cells) -> tuple[Floats, Floats]:
        from privpipe.kernels.classes.information import capped_gain_by_class, nats

        p = facts.base(column)
        caps = nats(p)
        return capped_gain_by_class(them.offsets, them.codes, them.counts, block.sizes, p, caps + slack(caps))

    return block.cells[column].once("gains", compute)

"""Hostile tables: plain rows, roles, and the data frame a user would pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privpipe.errors import PrivpipeError
from privpipe.roles import Roles

__all__ = [
    "HostileTable",
    "arrow_table",
    "categorical_frame",
    "many_values",
    "object_frame",
    "relabelled_frame",
    "repeated_column",
    "repeated_dictionary",
]

SENSITIVE = ("illness", "income")


@dataclass(frozen=True, kw_only=True)
class HostileTable:
    """A table with its roles, as plain Python values and as a frame.

    Parameters
    ----------
    name : str
    why : str
        What goes wrong with it.
    rows : mapping of column to sequence
        Plain values; None, NaN and the like are one missing value. The sensitive columns are ``illness`` (text)
        and ``income`` (number); all others are quasi-identifiers.
    types : mapping of column to str
        Arrow types by name, where they do not follow from the values.
    make : callable, optional
        Builds the frame from the rows, where it is not the plain Arrow table.
    base : mapping of column to sequence
        Values of all records of the original, where they are not those of the rows.
    refused : type of error, optional
        Raised by any engine that reads or judges the table.
    """

    name: str
    why: str
    rows: Mapping[str, Sequence[Any]] = field(repr=False)
    types: Mapping[str, str] = field(default_factory=dict, repr=False)
    make: Callable[[HostileTable], Any] | None = field(default=None, repr=False)
    base: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False)
    refused: type[PrivpipeError] | None = None

    def __len__(self) -> int:
        return len(self.rows["illness"])

    def __str__(self) -> str:
        return self.name

    @property
    def roles(self) -> Roles:
        """Quasi-identifiers and sensitive columns; a name that differs from another by case alone has no role."""
        first: dict[str, str] = {}
        for name in self.rows:
            first.setdefault(name.casefold(), name)
        keys = [name for name in first.values() if name not in SENSITIVE]
        return Roles(quasi_identifiers=keys, sensitive=SENSITIVE)

    @property
    def population(self) -> HostileTable:
        """Population of which the table is a sample: its records, half of them again, some with keys it may lack."""
        keys = self.roles.quasi_identifiers
        half = (len(self) + 1) // 2
        rows = {}
        for place, (name, values) in enumerate(self.rows.items()):
            shift = place % max(1, len(self)) if name in keys else 0
            rows[name] = [*values, *list(values)[:half], *list(values)[shift:], *list(values)[:shift]]
        return replace(self, rows=rows, make=None)

    def frame(self) -> Any:
        """The table as a user would hand it over: an Arrow table, or the frame that is the point of it."""
        return arrow_table(self) if self.make is None else self.make(self)


def arrow_table(table: HostileTable) -> Any:
    """The rows as an Arrow table."""
    import pyarrow as pa

    arrays = {}
    for name, values in table.rows.items():
        kind = pa.type_for_alias(table.types[name]) if name in table.types else None
        arrays[name] = pa.array(list(values), type=kind)
    return pa.table(arrays)


def object_frame(table: HostileTable) -> Any:
    """The rows as a pandas frame of Python objects: None stays None and NaN stays NaN, side by side."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in table.rows.items()})


def categorical_frame(table: HostileTable) -> Any:
    """Text columns as pandas categories, with levels that no record has."""
    import pandas as pd

    frame = arrow_table(table).to_pandas()
    for name in ("zip", "illness"):
        levels = ["unused first", *sorted(set(table.rows[name]), reverse=True), "unused last"]
        frame[name] = pd.Categorical(frame[name], categories=levels)
    return frame


def relabelled_frame(table: HostileTable) -> Any:
    """A pandas frame whose index labels repeat and point to other rows."""
    frame = arrow_table(table).to_pandas()
    frame.index = [3, 3, 0, 1, 0, 2][: len(frame)]
    return frame


def repeated_dictionary(table: HostileTable) -> Any:
    """Arrow dictionaries in which one value has two codes."""
    import pyarrow as pa

    plain = arrow_table(table)
    codes = pa.array([0, 1, 0, 1], type=pa.int32())
    same = pa.DictionaryArray.from_arrays(codes, pa.array(["4711", "4711"]))
    return plain.set_column(plain.schema.get_field_index("zip"), "zip", same)


def repeated_column(table: HostileTable) -> Any:
    """Two columns of one name."""
    plain = arrow_table(table)
    return plain.append_column("zip", plain.column("zip"))


def many_values(values: int = 100_000) -> HostileTable:
    """So many distinct sensitive values in four classes, and one class of a single value.

    Too large for every model on every engine, so not among the hostile tables: time and memory must follow the cells,
    not classes times values.
    """
    return HostileTable(
        name="many_values",
        why="classes times values do not fit; codes outgrow a byte, and a character",
        rows={
            "zip": [f"{at % 4}" for at in range(values)] + ["one value"] * 3,
            "illness": [f"illness {at:06d}" for at in range(values)] + ["illness 000007"] * 3,
            "income": [*range(values), 7, 7, 7],
        },
    )

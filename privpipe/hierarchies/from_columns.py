"""`from_columns`: other columns of the table are the levels, as the region of each town."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar, Self

from typing_extensions import Doc

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.levels import Draft, Levels
from privpipe.hierarchies.options import ROOT, known_keys, texts, whose

__all__ = ["FromColumns", "ReadColumns"]

MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class FromColumns:
    """Levels given by other columns of the source: each value of the column goes with one value of each of them.

    The run reads which, so that a policy names no value; the plan shows that the hierarchy depends on the data. The
    other columns may have any role: where they are not released, their values still are, as labels. Where a value goes
    with none, its label is `missing`.

    Examples
    --------
    >>> spec = FromColumns.from_parameters({"columns": ["region"]})
    >>> read = spec.read({"Turin": [("Piedmont",)], "Asti": [("Piedmont",)], "Rome": [("Lazio",)]}, "town")
    >>> read.draft(["Asti", "Rome", "Turin"], None, "text", "town").levels.labels[1]
    ('Piedmont', 'Lazio')
    """

    example: ClassVar[str] = "{columns: [region, country]}"
    example_values: ClassVar[tuple[str, ...]] = ("Asti", "Rome", "Turin")
    example_type: ClassVar[str] = "text"
    example_rows: ClassVar[Mapping[str, Sequence[tuple[str | None, ...]]]] = {
        "Asti": [("Piedmont", "Italy")],
        "Rome": [("Lazio", "Italy")],
        "Turin": [("Piedmont", "Italy")],
    }

    columns: Annotated[tuple[str, ...], Doc("the columns whose values are the levels, finest first")]

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `from_columns:`."""
        mapping = known_keys(given, cls, cls.example)
        return cls(columns=texts(mapping.get("columns"), "columns"))

    def __post_init__(self) -> None:
        if not isinstance(self.columns, list | tuple) or not all(isinstance(name, str) for name in self.columns):
            raise UsageError("columns: must be a list of columns of the source")
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise UsageError(f"columns: name at least one, as in {self.example}")
        if len(set(self.columns)) != len(self.columns):
            raise UsageError("columns: a column is named twice")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Nothing but an error where values are given: what they go with is in the table alone."""
        if column in self.columns:
            raise UsageError(f"from_columns: {column!r} cannot be a level of its own hierarchy")
        if values:
            raise UsageError(
                f"{whose(column, 'from_columns')}: needs the source, whose {', '.join(map(repr, self.columns))} it "
                "reads; give the table that the policy is for"
            )
        return self._draft({}, [])

    def read(self, found: Mapping[str, Sequence[tuple[str | None, ...]]], column: str) -> ReadColumns:
        """The builder with what the source says.

        Parameters
        ----------
        found : mapping of str to sequence of tuple of (str or None)
            For each value all that it goes with.
        column : str

        Raises
        ------
        HierarchyError
            ``not_functional``: a value goes with several values of a column.
        """
        rows: dict[str, tuple[str, ...]] = {}
        several = [0] * len(self.columns)
        for value, beside in found.items():
            labels = []
            for at in range(len(self.columns)):
                told = sorted({row[at] for row in beside if row[at] is not None})  # type: ignore[type-var]
                several[at] += len(told) > 1
                labels.append(str(told[0]) if told else MISSING)
            rows[value] = tuple(labels)
        for name, count in zip(self.columns, several, strict=True):
            if count:
                raise HierarchyError(
                    f"{whose(column, 'from_columns')}: not functional: {count:,} values go with several values of "
                    f"{name!r}; take another column, or draw the hierarchy otherwise",
                    kind="not_functional",
                )
        return ReadColumns(columns=self.columns, rows=rows)

    def _draft(self, rows: Mapping[str, tuple[str, ...]], values: Sequence[str]) -> Draft:
        held = [value for value in values if value in rows]
        levels = [[rows[value][at] for value in held] for at in range(len(self.columns))]
        return Draft(
            levels=Levels.from_columns([held, *levels, [ROOT] * len(held)]),
            source="from_columns",
            level_names=("raw", *self.columns, ROOT),
            data_dependent=True,
            outside=tuple(at for at, value in enumerate(values) if value not in rows),
            outside_why="the source does not have them",
        )


@dataclass(frozen=True, kw_only=True)
class ReadColumns(FromColumns):
    """`from_columns` with what the source says; made by a run, never by a policy."""

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, hash=False)

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in their order."""
        return self._draft(self.rows, values)

    def unread(self) -> FromColumns:
        """The builder as it was declared."""
        return FromColumns(**{each.name: getattr(self, each.name) for each in fields(FromColumns)})

"""The builders that bring their own rows: a delimited file, a tree, a hierarchy made in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from typing_extensions import Doc

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.csvfile import check_delimiter, read_records
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.options import whose
from privpipe.hierarchies.rows import draft_from_rows
from privpipe.hierarchies.table import LabelTable
from privpipe.hierarchies.tree import read_tree, tree_rows

__all__ = ["File", "Prepared", "Tree"]


@dataclass(frozen=True, kw_only=True)
class File:
    """`file`: one line a raw value, then its labels from finest to coarsest.

    Parameters
    ----------
    path : Path
        Where it is.
    shown : str
        How the policy names it; errors do too.
    """

    example: ClassVar[str] = "ages.csv"
    example_file: ClassVar[str] = "19;10-19;*\n20;20-29;*\n24;20-29;*\n"
    example_values: ClassVar[tuple[str, ...]] = ("19", "20", "24")
    example_type: ClassVar[str] = "integer"

    path: Path
    shown: str
    delimiter: Annotated[str, Doc("one character, between the fields of the file")] = ";"
    header: Annotated[bool, Doc("the first line of the file names the levels")] = False

    @classmethod
    def from_parameters(cls, given: object, base_dir: Path, *, delimiter: Any = ";", header: Any = False) -> Self:
        """From the path under `file:` and the keys beside it."""
        if not isinstance(given, str | PathLike) or not str(given):
            raise UsageError("must be the path of a hierarchy file")
        return cls(path=base_dir / given, shown=str(given), delimiter=delimiter, header=header)

    def __post_init__(self) -> None:
        check_delimiter(self.delimiter)
        if not isinstance(self.header, bool):
            raise UsageError(f"header: must be true or false, got {self.header!r}")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the file's rows, in its order; the data's values do not matter."""
        name = whose(column, self.shown)
        rows, lines = read_records(self.path, self.delimiter, name)
        names: tuple[str, ...] = ()
        if self.header and rows:
            names, rows, lines = tuple(rows[0]), rows[1:], lines[1:]
            if rows and len(names) != len(rows[0]):
                raise HierarchyError(
                    f"{name}: ragged: the header has {len(names)} fields, line {lines[0]} has {len(rows[0])}",
                    kind="ragged",
                )
        draft = draft_from_rows(rows, lines=lines, kind=kind, column=column, source=self.shown)
        return replace(draft, level_names=names)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """`tree`: nested mappings, in place or in a YAML or JSON file.

    Parameters
    ----------
    path : Path or None
        Where the file is; None: in place.
    shown : str
        How errors name it.
    nodes : mapping
        The tree in place.
    """

    example: ClassVar[str] = "{Europe: {France: [Paris, Lyon]}, Asia: {Japan: [Tokyo]}}"
    example_values: ClassVar[tuple[str, ...]] = ("Paris", "Tokyo")
    example_type: ClassVar[str] = "text"

    path: Path | None
    shown: str
    nodes: Mapping[Any, Any] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def from_parameters(cls, given: object, base_dir: Path) -> Self:
        """From what stands under `tree:`; a mapping of the single key `file` to a text is a path."""
        if not isinstance(given, Mapping) or not given:
            raise UsageError("must be {file: PATH} or nested mappings from labels to raw values")
        if list(given) == ["file"] and isinstance(given["file"], str):
            return cls(path=base_dir / given["file"], shown=given["file"])
        return cls(path=None, shown="tree", nodes=given)

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the tree's leaves, in its order; the data's values do not matter."""
        name = whose(column, self.shown)
        rows, lines = tree_rows(self.nodes if self.path is None else read_tree(self.path, name), name)
        draft = draft_from_rows(rows, lines=lines, kind=kind, column=column, source=self.shown)
        return replace(draft, written_out=self.path is None)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A hierarchy made in Python, given in place of a mapping.

    Parameters
    ----------
    table : LabelTable
        Its content, without leaves of nulls and unknown values.
    shown : str
        How errors name it.
    level_names : tuple of str
        One a level.
    data_dependent : bool
        As the hierarchy says.
    """

    table: LabelTable
    shown: str
    level_names: tuple[str, ...]
    data_dependent: bool

    def __post_init__(self) -> None:
        if (self.table.leaf_order < 0).any():
            raise UsageError("a hierarchy already fitted to data by `cover` is no declaration; give the one before it")

    def rows(self) -> list[tuple[str, ...]]:
        """A row a raw value: the value, then its labels."""
        columns = [self.table.texts(level) for level in range(self.table.height + 1)]
        return list(zip(*columns, strict=True))

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Its own levels, raw values read anew under the column's type."""
        draft = draft_from_rows(self.rows(), kind=kind, column=column, source=self.shown)
        kept = self.table.declared_shares
        return replace(
            draft,
            shares=kept if kept is not None and kept.shape[1] == draft.levels.size else None,
            domain_size=self.table.domain_size if kept is not None else None,
            level_names=self.level_names,
            data_dependent=self.data_dependent,
        )

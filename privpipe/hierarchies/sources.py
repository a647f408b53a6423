"""The builders that bring their own rows: a delimited file, a tree, rows in the policy or in columns, one made
in Python.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from typing_extensions import Doc

from privpipe.errors import HierarchyError, UsageError
from privpipe.hierarchies.canonical import scalar_text
from privpipe.hierarchies.label_table import LabelTable
from privpipe.hierarchies.levels import Draft, Levels, draft_from_rows
from privpipe.hierarchies.options import ROOT, known_keys, texts, whose

__all__ = [
    "File",
    "FromColumns",
    "Prepared",
    "ReadColumns",
    "Rows",
    "Tree",
    "check_delimiter",
    "read_records",
    "read_tree",
    "tree_rows",
    "write_records",
]


DELIMITERS = ",;\t|"
"""Those that are tried where the one that was declared parts no line."""


def check_delimiter(delimiter: object) -> str:
    """The delimiter, when it is a single character that cannot be part of a quote or line end.

    Examples
    --------
    >>> check_delimiter(";")
    ';'
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\ufeff':
        raise UsageError(f"delimiter: must be one character other than a quote or line end, got {delimiter!r}")
    return delimiter


def read_records(path: str | PathLike[str], delimiter: str, name: str) -> tuple[list[list[str]], list[int]]:
    """Records of a UTF-8 file (RFC 4180 quotes, LF or CRLF, BOM stripped, blank lines left out) and their lines.

    Parameters
    ----------
    path : str or PathLike
        A local file.
    delimiter : str
        One character.
    name : str
        The start of error messages.

    Raises
    ------
    HierarchyError
        ``unreadable`` when the file is missing, not UTF-8 or wrongly quoted; ``delimiter`` when lines have one field
        and all come apart under another delimiter; with the line.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise HierarchyError(
            f"{name}: the file cannot be read ({error.strerror}); relative paths start at the policy file",
            kind="unreadable",
        ) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise HierarchyError(f"{name}: line {line} is not UTF-8; save the file as UTF-8", kind="unreadable") from None
    try:
        records, lines = _records(text, delimiter)
    except _NotQuoted as error:
        if other := _other_delimiter(text, delimiter):
            raise HierarchyError(f"{name}: line {error.line} {other}", kind="delimiter") from None
        message = f"{name}: the record at line {error.line} is not well quoted ({error})"
        raise HierarchyError(message, kind="unreadable") from None
    single = next((line for record, line in zip(records, lines, strict=True) if len(record) == 1), None)
    if single is not None and (other := _other_delimiter(text, delimiter)):
        raise HierarchyError(f"{name}: line {single} {other}", kind="delimiter")
    return records, lines


class _NotQuoted(Exception):
    """A record that no quote ends, or that goes on behind one."""

    def __init__(self, message: str, line: int) -> None:
        self.line = line
        super().__init__(message)


def _records(text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    records, lines = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for record in reader:
            if record:
                records.append(record)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise _NotQuoted(str(error), start) from None
    return _without_blank_lines(records, lines)


def _other_delimiter(text: str, delimiter: str) -> str:
    """What to say where every record of a file has the same number of fields, two or more, under another delimiter."""
    for sign in DELIMITERS.replace(delimiter, ""):
        try:
            widths = {len(record) for record in _records(text, sign)[0]}
        except _NotQuoted:
            continue
        if len(widths) == 1 and (fields := widths.pop()) > 1:
            return (
                f"does not come apart under the delimiter {delimiter!r}, and every line has {fields} fields under "
                f"{sign!r}: write `delimiter: {json.dumps(sign)}` next to `file:` (`--delimiter` of commands), or put "
                "quotes around values that hold this character"
            )
    return ""


def write_records(path: str | PathLike[str], records: Iterable[Sequence[str]], delimiter: str) -> None:
    """Write records as UTF-8 with LF line ends, quoted where needed."""
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        plain = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        # The csv module does not quote a carriage return when lines end in LF, and would read it as a line end.
        quoted = csv.writer(stream, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for at, record in enumerate(records):
            # A byte order mark at the very start would be taken for the file's own.
            marked = at == 0 and record[0].startswith("\ufeff")
            (quoted if marked or any("\r" in text for text in record) else plain).writerow(record)


def _without_blank_lines(records: list[list[str]], lines: list[int]) -> tuple[list[list[str]], list[int]]:
    # A line of blanks is a blank line, unless the whole file has a single field a line.
    if max(map(len, records), default=1) == 1:
        return records, lines
    kept = [(record, line) for record, line in zip(records, lines, strict=True) if len(record) > 1 or record[0].strip()]
    return [record for record, _ in kept], [line for _, line in kept]


def read_tree(path: str | PathLike[str], name: str) -> Mapping[Any, Any]:
    """The mapping of a YAML 1.2 or JSON file, with line numbers where the reader knows them.

    Raises
    ------
    HierarchyError
        ``unreadable`` when the file is missing, is not YAML or holds no mapping.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise HierarchyError(f"{name}: the file cannot be read ({why})", kind="unreadable") from None
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}" if mark is not None else "the file"
        raise HierarchyError(
            f"{name}: {where} is not well-formed YAML or names a key twice", kind="unreadable"
        ) from None
    except YAMLError:
        raise HierarchyError(f"{name}: the file is not well-formed YAML", kind="unreadable") from None
    if not isinstance(tree, Mapping):
        raise HierarchyError(f"{name}: the file must hold a mapping of labels to their children", kind="unreadable")
    return tree


def tree_rows(tree: Mapping[Any, Any], name: str) -> tuple[list[list[str]], list[int]]:
    """Rows from raw value to root, leaves of less depth padded by repeating the value upwards; and their lines.

    Parameters
    ----------
    tree : mapping
        Label to children: a mapping, a list of raw values, one raw value, or nothing (the key is a raw value).
        A single outermost key is the root; several get a ``*`` above them.
    name : str
        The start of error messages.

    Returns
    -------
    tuple of (list of rows, list of int)
        Lines are empty when the tree does not come from a file.

    Examples
    --------
    >>> tree_rows({"*": {"Europe": {"France": ["Paris"]}, "Asia": ["Tokyo"]}}, "hierarchy")[0]
    [['Paris', 'France', 'Europe', '*'], ['Tokyo', 'Tokyo', 'Asia', '*']]
    """
    single = len(tree) == 1 and next(iter(tree.values())) is not None
    paths = list(_leaves(tree, () if single else (ROOT,), 0, name))
    depth = max((len(path) for path, _ in paths), default=0)
    rows = [[path[-1]] * (depth - len(path)) + list(reversed(path)) for path, _ in paths]
    lines = [line for _, line in paths]
    return rows, lines if all(lines) else []


def _leaves(node: Any, path: tuple[str, ...], line: int, name: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each leaf's path from the root, and the line it stands on (0: not known)."""
    places = getattr(node, "lc", None)
    if isinstance(node, Mapping):
        for key, child in node.items():
            at = places.key(key)[0] + 1 if places is not None else line
            below = (*path, _text(key, name))
            if child is None or (isinstance(child, Mapping | list | tuple) and not child):
                yield below, at
            else:
                yield from _leaves(child, below, at, name)
    elif isinstance(node, list | tuple):
        for index, item in enumerate(node):
            at = places.item(index)[0] + 1 if places is not None else line
            yield from _leaves(item, path, at, name)
    else:
        yield (*path, _text(node, name)), line


def _text(scalar: Any, name: str) -> str:
    try:
        return scalar_text(scalar)
    except ValueError:
        raise HierarchyError(
            f"{name}: a tree's labels and values must be texts, numbers, booleans or dates", kind="type"
        ) from None


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
        """From the path under `file:` and the keys next to it."""
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
    """A hierarchy made in Python, given instead of a mapping.

    Parameters
    ----------
    table : LabelTable
        Its content, without leaves of nulls and unknown values.
    shown : str
        How errors name it.
    level_names : tuple of str
        One per level.
    data_dependent : bool
        As the hierarchy declares.
    """

    table: LabelTable
    shown: str
    level_names: tuple[str, ...]
    data_dependent: bool

    def __post_init__(self) -> None:
        if (self.table.leaf_order < 0).any():
            raise UsageError("a hierarchy already fitted to data by `cover` is not a declaration; give the original")

    def rows(self) -> list[tuple[str, ...]]:
        """A row a raw value: the value, then its labels."""
        columns = [self.table.texts(level) for level in range(self.table.height + 1)]
        return list(zip(*columns, strict=True))

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Its own levels, raw values read again under the column's type."""
        draft = draft_from_rows(self.rows(), kind=kind, column=column, source=self.shown)
        kept = self.table.declared_shares
        return replace(
            draft,
            shares=kept if kept is not None and kept.shape[1] == draft.levels.size else None,
            domain_size=self.table.domain_size if kept is not None else None,
            level_names=self.level_names,
            data_dependent=self.data_dependent,
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """`rows`: a list a raw value, then its labels from finest to coarsest.

    Parameters
    ----------
    rows : tuple of tuple of str

    Examples
    --------
    >>> rows = Rows.from_parameters([["flu", "common", "*"], ["gout", "rare", "*"]])
    >>> rows.draft((), None, None, "illness").levels.labels[1]
    ('common', 'rare')
    """

    example: ClassVar[str] = "[[flu, common, '*'], [gout, rare, '*']]"
    example_values: ClassVar[tuple[str, ...]] = ("flu", "gout")
    example_type: ClassVar[str] = "text"

    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the lists under `rows:`."""
        if not isinstance(given, list | tuple) or not given:
            raise UsageError("must be a list of rows, each a raw value and its labels")
        for at, row in enumerate(given):
            if not isinstance(row, list | tuple) or not row or not all(isinstance(cell, str) for cell in row):
                raise UsageError(f"row {at + 1} must be a list of texts: a raw value and its labels")
        return cls(rows=tuple(tuple(row) for row in given))

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the rows, in their order; the data's values do not matter."""
        draft = draft_from_rows(self.rows, kind=kind, column=column, source="rows")
        return replace(draft, written_out=True)


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
        """The builder with the values of the source.

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
    """`from_columns` with the values of the source; made by a run, never by a policy."""

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, hash=False)

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in their order."""
        return self._draft(self.rows, values)

    def unread(self) -> FromColumns:
        """The builder as it was declared."""
        return FromColumns(**{each.name: getattr(self, each.name) for each in fields(FromColumns)})

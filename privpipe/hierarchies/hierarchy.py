"""`Hierarchy`: a column's raw values and, level by level, what each is generalized to; and the tables that show one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from privpipe.border import bordered
from privpipe.errors import HierarchyError, UsageError, did_you_mean
from privpipe.hierarchies.label_table import Extras, LabelTable, absent, extended, refuse_unknown
from privpipe.hierarchies.levels import Draft, check_levels_in_range, checked, draft_from_rows, level_warnings
from privpipe.hierarchies.options import OptionArgs, Options, whose
from privpipe.hierarchies.sources import File, Tree, check_delimiter, write_records
from privpipe.html_tables import Table, html_tables, short_list

__all__ = ["Hierarchy", "hierarchy_page"]


DIGEST_SIGNS = 12
FEW = 8


def hierarchy_page(described: Mapping[str, Any], told: Sequence[Sequence[str]]) -> str:
    """The page.

    Parameters
    ----------
    described : mapping
        Of `Hierarchy.describe`.
    told : sequence of sequence of str
        Labels of each level that may be shown.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> page = Hierarchy.from_tree({"Europe": ["Paris"], "Asia": ["Tokyo"]})._repr_html_()
    >>> "Europe" in page, "Paris" in page
    (True, False)
    """
    rows = [
        (level["level"], level["name"], level["labels"], short_list(labels, FEW))
        for level, labels in zip(described["levels"], told, strict=True)
    ]
    column = described["column"]
    about = [
        ("made of", described["source"]),
        ("levels in use", f"{described['min_level']} to {described['max_level']}"),
        ("size of the domain", described["domain_size"]),
        ("values outside", described["unknown"]),
        ("values outside, found", described["unknown_values"] or None),
        ("leaf of nulls", "yes" if described["nulls"] else "no"),
        ("depends on the data", "yes" if described["data_dependent"] else "no"),
        ("digest", described["digest"][:DIGEST_SIGNS]),
    ]
    return html_tables(
        f"Hierarchy of {column}" if column else "Hierarchy",
        Table(head=("level", "name", "labels", "such as"), rows=rows),
        Table(rows=[row for row in about if row[1] is not None]),
        notes=[f"warning: {each}" for each in described["warnings"]],
    )


UNUSED = -1
MOST_LEVELS = 32_767
"""Searches hold vectors of levels in 16 bits."""


@bordered
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Hierarchy(LabelTable):
    """A checked value generalization hierarchy, the same whatever builder made it; see `LabelTable` for its content.

    Parameters
    ----------
    options : Options
        Column, rules and level limits.
    level_names : tuple of str
        One per level.
    min_level, max_level : int
        Levels a search may use, both included.
    unknown_values, unknown_records, unused : int
        Filled by `cover`: distinct values and records outside the hierarchy; values never seen (-1: not known).
    label_collisions : int
        Labels that name different nodes at different levels; cell generalization refuses any.
    data_dependent : bool
        Labels depend on the data at hand; the plan states it.
    source : str
        File name or builder.
    warnings : tuple of str
        What is legal but seldom meant.
    written_out : bool
        Made of rows or of a tree in place, not of values or a file.

    Examples
    --------
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["30", "adult", "*"], ["8", "child", "*"]], type="integer")
    >>> ages.values, ages.height, ages.labels(1)
    (('7', '8', '30'), 2, ('child', 'adult'))
    >>> ages.codes(1).tolist(), ages.shares(1).round(2).tolist()
    ([0, 0, 1], [0.67, 0.67, 0.33])
    >>> ages.common_level([0, 0], [1, 2]).tolist()
    [1, 2]
    """

    options: Options
    level_names: tuple[str, ...]
    min_level: int
    max_level: int
    source: str
    unknown_values: int = 0
    unknown_records: int = 0
    unused: int = UNUSED
    label_collisions: int = 0
    data_dependent: bool = False
    warnings: tuple[str, ...] = ()
    written_out: bool = False

    @classmethod
    def read_csv(
        cls,
        path: str | PathLike[str],
        *,
        delimiter: str = ";",
        header: bool = False,
        type: str | None = None,
        shown: str | None = None,
        **options: Unpack[OptionArgs],
    ) -> Self:
        """Read a file with one line a raw value: field 0 the value, field l its label at level l.

        Parameters
        ----------
        path : str or PathLike
            UTF-8, quotes as in RFC 4180, LF or CRLF; blank lines are ignored.
        delimiter : str
            One character.
        header : bool
            The first line names the levels.
        type : str or None
            The column's type, under which raw values are compared (`canonical_text`); None: text.
        shown : str or None
            How errors name the file; None: its last part.
        **options
            See `Options`.

        Raises
        ------
        HierarchyError
            When the file breaks a condition; names column, file, line, level and count, never a value.
        """
        settings = Options(**options)
        file = File(path=Path(path), shown=shown or Path(path).name, delimiter=delimiter, header=header)
        return cls.from_draft(file.draft((), None, type, settings.column), settings)

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Sequence[str]],
        *,
        type: str | None = None,
        source: str = "rows",
        **options: Unpack[OptionArgs],
    ) -> Self:
        """From rows of text, as a file has them."""
        settings = Options(**options)
        draft = draft_from_rows(rows, kind=type, column=settings.column, source=source)
        return cls.from_draft(replace(draft, written_out=True), settings)

    @classmethod
    def from_tree(
        cls,
        tree: Mapping[Any, Any],
        *,
        type: str | None = None,
        source: str = "tree",
        **options: Unpack[OptionArgs],
    ) -> Self:
        """From nested mappings whose lists (or keys without children) are raw values.

        A single outermost key is the root; several get a ``*`` above them. Leaves of less depth repeat their
        value upwards.

        Examples
        --------
        >>> Hierarchy.from_tree({"Europe": {"France": ["Paris"]}, "Asia": ["Tokyo"]}).labels(1)
        ('France', 'Tokyo')
        """
        settings = Options(**options)
        draft = Tree(path=None, shown=source, nodes=tree).draft((), None, type, settings.column)
        return cls.from_draft(draft, settings)

    @classmethod
    def from_draft(cls, draft: Draft, options: Options) -> Self:
        """From what a builder proposes, once it meets the formal conditions."""
        draft = checked(draft, options)
        if draft.levels.height > MOST_LEVELS:
            raise HierarchyError(
                f"{whose(options.column, draft.source)}: {draft.levels.height:,} levels, {MOST_LEVELS:,} are served",
                kind="levels",
            )
        least, most = check_levels_in_range(options, draft.levels.height, draft.source)
        levels, order = draft.levels.in_leaf_order()
        collisions = len(levels.collisions())
        count = levels.height + 1
        return cls(
            levels=levels,
            leaf_order=order,
            domain_size=float(levels.size) if draft.domain_size is None else draft.domain_size,
            declared_shares=None if draft.shares is None else draft.shares[:, order],
            null_label=options.null_label,
            options=options,
            level_names=options.level_names or draft.level_names or tuple(f"level {at}" for at in range(count)),
            min_level=least,
            max_level=most,
            source=draft.source,
            label_collisions=collisions,
            data_dependent=draft.data_dependent,
            warnings=level_warnings(draft, collisions),
            written_out=draft.written_out,
        )

    @property
    def column(self) -> str:
        """The column it belongs to, or an empty text."""
        return self.options.column

    @property
    def unknown(self) -> str:
        """The rule for data values outside the hierarchy: refuse, root or suppress."""
        return self.options.unknown

    def level_of(self, level: int | str) -> int:
        """The number of a level given by number or name.

        Raises
        ------
        UsageError
            When there is no such level.
        """
        if isinstance(level, str):
            if level in self.level_names:
                return self.level_names.index(level)
            raise UsageError(f"{self._name}: no level {level!r}{did_you_mean(level, self.level_names)}")
        if isinstance(level, bool) or not 0 <= level <= self.height:
            raise UsageError(f"{self._name}: no level {level!r}; levels are 0 to {self.height}")
        return level

    def encode(self, values: Any) -> NDArray[np.int32]:
        """The code of each canonical text; nulls have their own, values outside follow the `unknown` rule.

        Parameters
        ----------
        values : sequence of str or None, or pyarrow array of string
            Canonical text of the column's type.

        Returns
        -------
        ndarray of int32, shape (n,)
            -1 under ``unknown: suppress`` for a value outside the hierarchy: its record is to be suppressed.

        Raises
        ------
        HierarchyError
            ``unknown``, with the number of values, or ``null`` when the hierarchy has no leaf for nulls.
        """
        texts = values.to_pylist() if hasattr(values, "to_pylist") else values
        if self.null_code is None and any(text is None for text in texts):
            message = f"{self._name}: null: the values hold nulls and it was built without them; `cover` all values"
            raise HierarchyError(message, kind="null")
        null, unknown = (-1 if code is None else code for code in (self.null_code, self.unknown_code))
        found = (null if text is None else self._index.get(text, unknown) for text in texts)
        codes = np.fromiter(found, dtype=np.int32, count=len(texts))
        outside = np.flatnonzero(codes == -1)
        if outside.size and self.unknown != "suppress":
            refuse_unknown(self._name, len({texts[place] for place in outside}), int(outside.size))
        return codes

    def cover(self, values: Sequence[str | None], counts: Sequence[int] | None = None) -> Self:
        """The same hierarchy, made to hold the distinct values seen in the data.

        Adds a leaf for nulls (see `released`) when there are any, applies the `unknown` rule, counts what is never
        seen.

        Parameters
        ----------
        values : sequence of str or None
            Distinct canonical texts; None is null.
        counts : sequence of int or None
            Records of each; None: not known, one each.

        Raises
        ------
        HierarchyError
            ``unknown`` under ``unknown: refuse``; ``label_collision`` when a label of another node reads as the
            new leaf does.
        """
        outside = absent(self._index, values, counts)
        if outside.values and self.unknown == "refuse":
            refuse_unknown(self._name, outside.values, outside.records)
        extra = extended(
            Extras(self.levels, self.leaf_order, self.declared_shares, self.domain_size),
            self._name,
            null=self.null_code is None and any(value is None for value in values),
            null_label=self.null_label,
            unknown=self.unknown_code is None and self.unknown == "root" and outside.values > 0,
        )
        return replace(
            self,
            levels=extra.levels,
            leaf_order=extra.order,
            declared_shares=extra.shares,
            domain_size=extra.size,
            unknown_values=outside.values,
            unknown_records=outside.records,
            unused=len(self._index) - outside.found,
        )

    def to_csv(self, path: str | PathLike[str], *, delimiter: str = ";", header: bool = False) -> None:
        """Write one line a raw value, in leaf order, for `read_csv`; leaves of nulls and unknown values left out.

        Declared shares and options are not part of a file. The raw values of a builder that takes its domain from
        the data are: treat the file as data.
        """
        columns = [self.texts(level) for level in range(self.height + 1)]
        rows = [list(row) for row, place in zip(zip(*columns, strict=True), self.leaf_order, strict=True) if place >= 0]
        write_records(path, [list(self.level_names), *rows] if header else rows, check_delimiter(delimiter))

    def describe(self) -> dict[str, Any]:
        """What may be shown of it: names, counts, rules, digest; no raw value."""
        levels = [
            {"level": level, "name": name, "labels": len(self.labels(level))}
            for level, name in enumerate(self.level_names)
        ]
        return {
            "column": self.column,
            "source": self.source,
            "height": self.height,
            "levels": levels,
            "domain_size": self.domain_size,
            "min_level": self.min_level,
            "max_level": self.max_level,
            "unknown": self.unknown,
            "unknown_values": self.unknown_values,
            "unknown_records": self.unknown_records,
            "unused": None if self.unused == UNUSED else self.unused,
            "nulls": self.null_code is not None,
            "data_dependent": self.data_dependent,
            "warnings": list(self.warnings),
            "digest": self.digest(),
        }

    def __repr__(self) -> str:
        return f"Hierarchy({self._name!r}, values={len(self.values)}, height={self.height})"

    def _repr_html_(self) -> str:
        return hierarchy_page(self.describe(), self._told_labels())

    def _told_labels(self) -> list[tuple[str, ...]]:
        """Labels of each level that a page may show: those that someone wrote out, and no raw value among them."""
        raw = set(self.values)
        return [
            tuple(label for label in self.labels(level) if self.written_out and level and label not in raw)
            for level in range(self.height + 1)
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        mine, theirs = ((it.options, it.level_names, it.min_level, it.max_level, it.digest()) for it in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash(self.digest())

    @property
    def _name(self) -> str:
        return whose(self.column, self.source)

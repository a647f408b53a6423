"""What a prediction needs to know of a source, and what of a policy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Facts
from privpipe.engines import Engine, Source
from privpipe.engines.base.files import list_files
from privpipe.errors import PrivpipeError
from privpipe.judging.grouping import groups_of
from privpipe.running.cost.sketch import Sketch, TableSketch
from privpipe.running.rules import judging_rules
from privpipe.transforms.recoding.generalize import Generalize

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["LookedAt", "Work", "looked_at", "work_of"]

KEYS, CELLS = "quasi-identifiers", "quasi-identifiers and sensitive columns"
ID_BYTES = 16
PACKED_NUMBER = 0.65
"""What is left of eight bytes of a number once a Parquet file has packed it: .58 of amounts in cents, .9 of noise."""
GROWING = 0.5
"""From this share of the rows on, distinct values are taken to grow with them."""


@dataclass(frozen=True, kw_only=True)
class LookedAt:
    """The source in figures.

    Parameters
    ----------
    rows : int
    source_bytes : float
        As it is stored.
    row_bytes : float
        Of a row in memory, its record id included.
    packed_bytes : mapping of column to float
        Of a cell in a Parquet file.
    text_bytes : mapping of column to float
        Of a cell in a text file.
    distinct : mapping of column to int
    combinations : int
        Distinct combinations of quasi-identifiers.
    cells : int
        The same with the sensitive columns.
    """

    rows: int
    source_bytes: float
    row_bytes: float
    packed_bytes: Mapping[str, float] = field(default_factory=dict)
    text_bytes: Mapping[str, float] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    combinations: int = 0
    cells: int = 0

    @property
    def columns(self) -> int:
        """Columns of the source."""
        return len(self.packed_bytes)

    def of_rows(self, rows: int, combinations: int | None = None) -> LookedAt:
        """The same table with another number of rows.

        Distinct values that are at least half as many as the rows are taken to grow with them, others to stay.
        """
        grown = rows / max(self.rows, 1)

        def scaled(number: int) -> int:
            return round(number * grown) if number >= GROWING * self.rows else min(number, rows)

        known = None if combinations is None else min(combinations, rows)
        return replace(
            self,
            rows=rows,
            source_bytes=self.source_bytes * grown,
            distinct={name: scaled(number) for name, number in self.distinct.items()},
            combinations=scaled(self.combinations) if known is None else known,
            cells=scaled(self.cells) if known is None else max(known, min(self.cells, rows)),
        )


@dataclass(frozen=True, kw_only=True)
class Work:
    """The policy in figures.

    Parameters
    ----------
    quasi_identifiers, counts, entries : int
        Columns; counts of classes that entries share; guarantees and measures.
    laid : int
        Stages that write every record anew.
    searches : tuple of str
        Stages that search, by their place in the policy.
    unmeasured : tuple of str
        Stages and entries of which nobody measured what they cost.
    released : tuple of str
        Columns that leave.
    with_hierarchy : tuple of str
    text : bool
        Whether the release is written as text.
    """

    quasi_identifiers: int
    counts: int
    entries: int
    laid: int
    searches: tuple[str, ...]
    unmeasured: tuple[str, ...]
    released: tuple[str, ...]
    with_hierarchy: tuple[str, ...]
    text: bool


def looked_at(engine: Engine, table: Any, source: Source, policy: Policy) -> LookedAt:
    """One pass over the rows, in which columns are hashed and nothing is kept but the smallest hashes."""
    names = tuple(table.schema.names)
    keys = tuple(name for name in policy.roles.quasi_identifiers if name in names)
    cells = (*keys, *(name for name in policy.roles.sensitive if name in names and name not in keys))
    wanted = TableSketch({KEYS: keys, CELLS: cells})
    found: Sketch | None = engine.reduce_rows(table, list(names), wanted, Facts())
    if found is None or not found.rows:
        return LookedAt(rows=0, source_bytes=0.0, row_bytes=0.0)
    distinct = {name: found.distinct(name) for name in names}
    packed = {name: _packed(distinct[name], found.held_bytes[name] / found.rows, found.rows) for name in names}
    return LookedAt(
        rows=found.rows,
        source_bytes=_stored(source) or sum(packed.values()) * found.rows,
        row_bytes=sum(found.held_bytes.values()) / found.rows + ID_BYTES,
        packed_bytes=packed,
        text_bytes={name: size / found.rows for name, size in found.text_bytes.items()},
        distinct=distinct,
        combinations=found.distinct(KEYS) if keys else 1,
        cells=found.distinct(CELLS) if cells else 1,
    )


def _packed(distinct: int, width: float, rows: int) -> float:
    """Bytes of a cell in a Parquet file: its place in a dictionary while that pays, else nearly its width.

    Examples
    --------
    >>> round(_packed(2, 8.0, 1000), 3), _packed(1000, 8.0, 1000)
    (0.141, 5.2)
    """
    plain = PACKED_NUMBER * width
    coded = (max(distinct - 1, 1).bit_length() / 8) + distinct * width / rows
    return min(plain, coded)


def _stored(source: Source) -> int:
    """Bytes of the files of a source; 0 where that cannot be told."""
    if not source.is_path:
        return 0
    try:
        if source.resolved_format == "delta":
            return sum(path.stat().st_size for path in Path(os.fspath(source.data)).rglob("*.parquet"))
        return sum(Path(name).stat().st_size for name in list_files(source))
    except (PrivpipeError, OSError):
        return 0


def work_of(policy: Policy) -> Work:
    """What a policy asks for, as far as costs go."""
    laid, searches, unmeasured = 0, [], []
    for at, stage in enumerate(policy.transform):
        place = policy.place_of(at)
        if isinstance(stage, Generalize):  # labels are looked up where rows are read; nothing is laid down
            searches += [place] if stage.is_search else []
            continue
        laid += 1
        if stage.searches:
            searches.append(place)
        if stage.name() not in BY_ROW:
            unmeasured.append(place)
    for entry in policy.entries:
        if not entry.way.over_classes:
            unmeasured.append(entry.name())
    rules = judging_rules(policy)
    return Work(
        quasi_identifiers=len(policy.roles.quasi_identifiers),
        counts=len(groups_of(policy.entries, policy.roles, rules)),
        entries=len(policy.entries),
        laid=laid,
        searches=tuple(searches),
        unmeasured=tuple(dict.fromkeys(unmeasured)),
        released=tuple(
            name
            for name in policy.columns
            if name not in {*policy.roles.identifiers, *policy.roles.dropped} or name in policy.pseudonyms
        ),
        with_hierarchy=tuple(policy.hierarchies),
        text=policy.sink is not None and policy.sink.file_format in ("csv", "json"),
    )


BY_ROW = ("add_noise", "pram", "round", "top_code", "bottom_code", "pseudonymise", "sample", "shift_dates")
"""Stages that are a function of the row."""

"""What a prediction needs to know of a policy and of its source: distinct values and combinations, widths of cells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks import Facts, RowBlock
from privpipe.blocks.arrays import Words
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.readers.files import list_files
from privpipe.errors import PrivpipeError
from privpipe.judging.rules import groups_of
from privpipe.kernels.ids.record_ids import content_hash
from privpipe.running.run_context import judging_rules
from privpipe.transforms.recoding.generalize import Generalize

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["KEPT", "LookedAt", "Sketch", "TableSketch", "Work", "looked_at", "work_of"]


KEPT = 1024
"""Smallest hashes that are kept: the estimate has a standard error of 3 %, and with fewer values it is exact."""
SAMPLED = 1000
"""Rows of a block whose cells are written out to learn how long they are as text."""
FIXED_BYTES = 8
_FIRST, _SECOND, _ODD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Sketch:
    """What one look at the rows leaves behind; no value can be recovered from it, only how many there are.

    Parameters
    ----------
    rows : int
    smallest : mapping of str to ndarray of uint64
        The smallest distinct hashes of each column, and of each set of columns.
    held_bytes : mapping of column to float
        Bytes of its cells in memory.
    text_bytes : mapping of column to float
        Bytes of its cells written out.
    """

    rows: int
    smallest: Mapping[str, Words] = field(repr=False)
    held_bytes: Mapping[str, float] = field(default_factory=dict)
    text_bytes: Mapping[str, float] = field(default_factory=dict)

    def distinct(self, name: str) -> int:
        """Distinct values of a column, or combinations of a set.

        Examples
        --------
        >>> Sketch(3, {"age": np.array([5, 9], dtype=np.uint64)}).distinct("age")
        2
        """
        seen = self.smallest[name]
        if len(seen) < KEPT:
            return len(seen)
        # The k-th smallest of d uniform numbers is at k / (d + 1) on average.
        return min(self.rows, round((KEPT - 1) / (float(seen[-1]) / 2.0**64)))


@dataclass(frozen=True)
class TableSketch:
    """A reduction that gathers a sketch. Source: Bar-Yossef et al., RANDOM 2002 (the k smallest hashes).

    Parameters
    ----------
    sets : mapping of str to tuple of str
        Columns whose combinations are counted, by the name of the set.
    """

    sets: Mapping[str, tuple[str, ...]]

    def measure(self, block: RowBlock, facts: Facts) -> Sketch:
        """The sketch of a block."""
        hashes: dict[str, Words] = {}
        held, text = {}, {}
        for name in block.schema.names:
            column = block.batch.column(name)
            hashes[name] = _hashed(column)
            held[name], text[name] = _widths(column)
        smallest = {name: _smallest(each) for name, each in hashes.items()}
        for name, columns in self.sets.items():
            smallest[name] = _smallest(_mixed([hashes[column] for column in columns], len(block)))
        return Sketch(len(block), smallest, held, text)

    def merge(self, left: Sketch, right: Sketch) -> Sketch:
        """The smallest hashes of both; bytes add up."""
        return Sketch(
            left.rows + right.rows,
            {name: _smallest(np.concatenate([each, right.smallest[name]])) for name, each in left.smallest.items()},
            {name: each + right.held_bytes[name] for name, each in left.held_bytes.items()},
            {name: each + right.text_bytes[name] for name, each in left.text_bytes.items()},
        )


def _hashed(column: pa.Array) -> Words:
    """A hash of each cell; equal values have equal hashes whatever block they are in."""
    coded = pc.dictionary_encode(column, null_encoding="encode")
    # Nothing secret is hashed for others to see, so the key may be known; a fixed one gives the same estimate again.
    words = content_hash(pa.table({"value": coded.dictionary}), Seed.insecure(0))[:, 0].view(np.uint64)
    hashes: Words = words[coded.indices.to_numpy(zero_copy_only=False)]
    return hashes


def _mixed(hashes: list[Words], rows: int) -> Words:
    """A hash of each row over several columns."""
    mixed = np.full(rows, _ODD, dtype=np.uint64)
    for each in hashes:
        mixed = (mixed ^ each) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _SECOND
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _smallest(hashes: Words) -> Words:
    if len(hashes) > 8 * KEPT:
        some = hashes[hashes <= np.partition(hashes, 4 * KEPT)[4 * KEPT]]
        found = np.unique(some)
        if len(found) >= KEPT:
            return found[:KEPT]
    return np.unique(hashes)[:KEPT]


def _widths(column: pa.Array) -> tuple[float, float]:
    """Bytes of a column's cells in memory, and written out."""
    rows = len(column)
    if pt.is_string(column.type) or pt.is_large_string(column.type) or pt.is_binary(column.type):
        size = float(pc.sum(pc.binary_length(column)).as_py() or 0)
        return size + 4.0 * rows, size
    some = column[:SAMPLED]
    try:
        size = float(pc.sum(pc.binary_length(some.cast(pa.string()))).as_py() or 0)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        size = float(FIXED_BYTES * len(some))
    return float(FIXED_BYTES * rows), size * rows / max(len(some), 1)


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
        Bytes per row in memory, including its record id.
    packed_bytes : mapping of column to float
        Bytes per cell in a Parquet file.
    text_bytes : mapping of column to float
        Bytes per cell in a text file.
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
        Stages that write every record again.
    searches : tuple of str
        Stages that search, by their place in the policy.
    unmeasured : tuple of str
        Stages and entries whose cost was not measured.
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
    """Bytes of the files of a source; 0 where that is unknown."""
    if not source.is_path:
        return 0
    try:
        if source.resolved_format == "delta":
            return sum(path.stat().st_size for path in Path(os.fspath(source.data)).rglob("*.parquet"))
        return sum(Path(name).stat().st_size for name in list_files(source))
    except (PrivpipeError, OSError):
        return 0


def work_of(policy: Policy) -> Work:
    """The work that a policy requires, as far as it costs."""
    laid, searches, unmeasured = 0, [], []
    for at, stage in enumerate(policy.transform):
        place = policy.place_of(at)
        if isinstance(stage, Generalize):  # labels are looked up where rows are read; nothing is written again
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

"""Orthogonal noise on an engine: the block of a record, and the released values of a block.

Blocks follow the keyed order, so they are cut without looking at a value. A record that misses a value shares blocks
with those that miss the same ones: their sums and covariances stay too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import NoSolutionError
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.exact_quantiles import OrderCuts, order_cuts
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    from privpipe.draws import Stream

__all__ = ["Finished", "NullPatterns", "Rotated", "rotated", "strengths"]

LEAST = 3
"""Fewer records have no rotation that keeps their sums but the identity and an exchange."""

BLOCKS_TOGETHER = 64
"""Blocks that travel as one group, so that small ones do not each make a call."""


@dataclass(frozen=True)
class NullPatterns:
    """Groups of records of one stratum that miss the same columns.

    Parameters
    ----------
    codes : tuple of int
        ``stratum << columns | bits``, ascending; bit j shows that column j is missing. A record without any value is
        in no group.
    records : tuple of int
        For each group.
    """

    strata: Strata
    columns: tuple[str, ...]
    codes: tuple[int, ...] = ()
    records: tuple[int, ...] = ()

    @classmethod
    def learn(
        cls, engine: Primitives, table: Any, strata: Strata, columns: tuple[str, ...], context: StageContext
    ) -> Self:
        """Count the groups.

        Raises
        ------
        NoSolutionError
            A group is too small to be masked.
        """
        empty = cls(strata, columns)
        found = engine.reduce_rows(table, (*strata.by, *columns), _Counted(empty), Facts()) or {}
        found.pop(-1, None)
        few = [count for count in found.values() if count < LEAST]
        if few and sum(found.values()) > 1:
            raise NoSolutionError(
                f"{context.place}: {sum(few):,} records miss values of {', '.join(map(repr, columns))} in a way that "
                f"fewer than {LEAST} records share, too few to mask by orthogonal noise; suppress them first, or mask "
                "fewer columns in one stage"
            )
        codes = tuple(sorted(found))
        return cls(strata, columns, codes, tuple(found[code] for code in codes))

    def missing(self, number: int) -> list[str]:
        """Columns that a group has no value in."""
        return [name for j, name in enumerate(self.columns) if self.codes[number] >> j & 1]

    def stratum(self, number: int) -> int:
        """Stratum of a group."""
        return self.codes[number] >> len(self.columns)

    def code_of(self, rows: RowBlock) -> Ints:
        """Code of each record; -1 for one without any value, or of a suppressed stratum."""
        bits = np.zeros(len(rows), np.int64)
        for j, column in enumerate(self.columns):
            bits |= np.isnan(rows[column]).astype(np.int64) << j
        strata = self.strata.of(rows)
        nothing = (bits == (1 << len(self.columns)) - 1) | (strata < 0)
        return np.where(nothing, -1, (strata << len(self.columns)) | bits)

    def __call__(self, rows: RowBlock) -> Ints:
        """Number of each record's group, -1 for none."""
        codes = self.code_of(rows)
        return np.where(codes < 0, -1, np.searchsorted(np.array(self.codes, np.int64), codes))

    def to_list(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [{"code": code, "records": count} for code, count in zip(self.codes, self.records, strict=True)]

    @classmethod
    def from_list(cls, strata: Strata, columns: tuple[str, ...], data: list[Mapping[str, Any]]) -> Self:
        """From the JSON of a plan."""
        return cls(strata, columns, tuple(each["code"] for each in data), tuple(each["records"] for each in data))


@dataclass(frozen=True)
class _Counted:
    patterns: NullPatterns

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, int]:
        codes, counts = np.unique(self.patterns.code_of(block), return_counts=True)
        return dict(zip(codes.tolist(), counts.tolist(), strict=True))

    def merge(self, left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
        return {code: left.get(code, 0) + right.get(code, 0) for code in left | right}


def strengths(patterns: NullPatterns, block: int, ratio: float) -> dict[str, float]:
    """By size of block, the factor that moves its records by `ratio` variances of a column on average.

    Records of a group are dealt to blocks at random, so that blocks of b of its n records are expected to hold
    (b - 1) / b of the variance that divides by n - 1.
    """
    from privpipe.kernels.noise.orthogonal import block_borders, strength

    whole: dict[int, int] = {}
    for n in patterns.records:
        for size in {int(each) for each in block_borders(n, block)[1:] - block_borders(n, block)[:-1]}:
            whole[size] = max(whole.get(size, 0), n)
    return {
        str(size): strength(size, ratio * size * (n - 1) / ((size - 1) * n))
        for size, n in sorted(whole.items())
        if size >= LEAST
    }


def rotated(engine: Primitives, table: Any, made: Rotated, schema: Any) -> Any:
    """The table with every block rotated."""
    from privpipe.kernels.noise.orthogonal import block_borders

    patterns = made.patterns
    ranks = [block_borders(n, made.block)[BLOCKS_TOGETHER:-1:BLOCKS_TOGETHER] - 1 for n in patterns.records]
    read = (*patterns.strata.by, *patterns.columns)
    cuts = order_cuts(engine, table, read, made.stream, patterns, [each.tolist() for each in ranks])
    return engine.map_groups(table, _BlockKey(patterns, made.stream, cuts), made, schema)


@dataclass(frozen=True)
class _BlockKey:
    """Group and run of blocks of each record; those in no group are dealt out."""

    patterns: NullPatterns
    stream: Stream = field(repr=False)
    cuts: OrderCuts

    def __call__(self, rows: RowBlock) -> Ints:
        numbers, ids = self.patterns(rows), rows.record_ids
        keys = -1 - ids[:, 1] % 64
        here = np.flatnonzero(numbers >= 0)
        runs = self.cuts.of(self.stream.order(ids[here]), ids[here], numbers[here])
        keys[here] = (numbers[here] << 32) + runs
        return keys


@dataclass(frozen=True)
class Finished:
    """The last step of a stage with its plan, as a function that pickles."""

    stage: Any
    plan: StagePlan

    def __call__(self, rows: RowBlock, masked: Mapping[str, Floats]) -> RowBlock:
        return self.stage.finished(rows, masked, self.plan)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Rotated:
    """A function of a run of blocks: each rotated by itself.

    Parameters
    ----------
    patterns : NullPatterns
    strengths : mapping of text to float
        By size of block; see `strengths`.
    block : int
        Records of a block.
    varying : tuple of frozensets of str
        Columns of each stratum that are not constant.
    finish : callable
        From the rows and the masked values by column to the released rows.
    stream : Stream
        Of the stage.
    """

    patterns: NullPatterns
    strengths: Mapping[str, float]
    block: int
    varying: tuple[frozenset[str], ...]
    finish: Any
    stream: Stream = field(repr=False)

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        values = {column: rows[column] for column in self.patterns.columns}
        if key < 0:
            kept = np.flatnonzero(self.patterns.strata.of(rows) >= 0)
            rows = rows.take(kept)
            return self.finish(rows, {name: x[kept] for name, x in values.items()})  # type: ignore[no-any-return]
        number, run = key >> 32, key & 0xFFFFFFFF
        varying = self.varying[self.patterns.stratum(number)] - set(self.patterns.missing(number))
        names = [name for name in self.patterns.columns if name in varying]
        if names:
            points = np.stack([values[name] for name in names], axis=1)
            turned = self._turned(points, self.stream.arrange(rows.record_ids), number, run)
            values |= {name: turned[:, at] for at, name in enumerate(names)}
        return self.finish(rows, values)  # type: ignore[no-any-return]

    def _turned(self, points: Floats, order: Ints, number: int, run: int) -> Floats:
        from privpipe.kernels.noise.orthogonal import block_borders, rotate_block

        first = run * BLOCKS_TOGETHER
        borders = block_borders(self.patterns.records[number], self.block)[first : first + BLOCKS_TOGETHER + 1]
        made = np.empty_like(points)
        for at, (start, stop) in enumerate(zip(borders[:-1] - borders[0], borders[1:] - borders[0], strict=True)):
            here = order[start:stop]
            strength = self.strengths.get(str(len(here)), 0.0)
            made[here] = rotate_block(points[here], strength, self.stream.child(f"{number}/{first + at}"))
        return made

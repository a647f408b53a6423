"""The minimality attack: what follows from the fact that a search did not stop earlier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, FilePair, FilePairMeasure, Histogram, Verdict
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LargestShare, OneSensitive, OwnColumns, Stricter
from privpipe.kernels.classes.posterior import Table, class_tables, drawn_tables, ways
from privpipe.measures.risk.algorithm.downcoding import Finer, finer_labels, texts_of
from privpipe.roles import Roles

__all__ = ["MinimalityAttack", "unsplit_share"]


def unsplit_share(files: FilePair, columns: Sequence[Finer], column: str) -> float:
    """Share of records in classes that fail a model on `column` when split one level finer in one other column.

    Parameters
    ----------
    files : FilePair
        Uses those of its `models` that judge class by class.
    columns : sequence of Finer
        The quasi-identifiers.
    """
    import pyarrow as pa

    models = [model for model in files.models if isinstance(model, ClassModel) and column in model.sensitive_columns()]
    if not models or not columns:
        return 0.0
    texts = texts_of(files.original, column)
    seen: dict[str | None, int] = {}
    codes = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int64)
    counts = np.bincount(codes, minlength=len(seen)).astype(np.int64)
    facts = Facts(records=len(codes), histograms={column: Histogram(pa.array(list(seen), pa.string()), counts)})
    rows = np.column_stack([each.label_of for each in columns])
    classes = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    failing = np.zeros(len(codes), dtype=np.bool_)
    for each in columns:
        child = np.full(len(codes), -1, dtype=np.int64)
        for label, own in enumerate(each.children):
            if own is not None:
                here = each.label_of == label
                child[here] = own[each.value_of[here]]
        split = child >= 0
        if split.any():
            failing[split] |= _fail(classes[split], child[split], codes[split], column, models, facts)
    return float(failing.mean())


def _fail(classes: Ints, child: Ints, codes: Ints, column: str, models: Sequence[ClassModel], facts: Facts) -> Bools:
    """Which records are in a class that has a failing part."""
    parts = np.unique(np.column_stack([classes, child]), axis=0, return_inverse=True)[1].reshape(-1)
    number = int(parts.max()) + 1
    values = int(codes.max()) + 1
    cells, counts = np.unique(parts * values + codes, return_counts=True)
    offsets = np.searchsorted(cells // values, np.arange(number + 1)).astype(np.int64)
    block = ClassBlock(
        np.bincount(parts, minlength=number).astype(np.int64),
        {column: Cells(offsets, (cells % values).astype(np.int64), counts.astype(np.int64))},
    )
    wrong = np.zeros(number, dtype=np.bool_)
    for model in models:
        wrong |= ~model.passing(block, facts)
    bad = np.unique(classes[wrong[parts]])
    return np.asarray(np.isin(classes, bad), dtype=np.bool_)


LEAST = 200
"""Consistent worlds below which nothing is said."""
LARGEST = 5_000
"""Records for which a search is run again and again."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MinimalityAttack(FilePairMeasure):
    """Largest certainty about a person's value for an intruder who knows that the search generalizes minimally.

    Experimental. For small tables: each world that is looked at runs the stages of the release again.

    Parameters
    ----------
    column : str
        A sensitive column.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the certainty is reported.
    columns : tuple of str, optional
        Not used.
    worlds : int
        Assignments of each class's values to its members: all of them if there are no more, else this number is drawn.

    Notes
    -----
    A world is consistent if the stages, run on it, give exactly the release. The intruder knows everyone's original
    quasi-identifiers. Fewer than 200 consistent worlds are an error, as is a finished table: it cannot be run again.
    `unsplit` needs no worlds: the share of records whose class would fail a guarantee on the column if it were split
    one level finer in some column; at 0 minimality discloses nothing about the values.

    Examples
    --------
    >>> MinimalityAttack(column="illness", at_most=0.5).worlds
    20000
    """

    observes = dict[str, Any]
    source = "Wong, Fu, Wang, Pei, VLDB 2007"
    threat = "An intruder reasons: had these persons other values, the table would be published finer."
    formula = "max over persons and values of the share of consistent worlds <= at_most"
    choose = "1 / l of the required l-diversity; a search that is not minimal helps."

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    at_most: Annotated[LargestShare, Doc("largest certainty about a value that is tolerated")] = None
    worlds: Annotated[
        int, Ge(LEAST), Stricter("equal"), Doc("assignments examined: all if there are no more, else this number drawn")
    ] = 20_000

    columns: Annotated[OwnColumns, Doc("not used: the quasi-identifiers are attacked")] = None

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        return (*super().columns_read(roles), self.column)

    def judge_files(self, files: FilePair) -> Verdict:
        names = [name for name in files.original.schema.names if name != self.column]
        unsplit = unsplit_share(files, [finer_labels(files, name) for name in names], self.column)
        if files.rerun is None:
            return self._error("the stages cannot be run again on a finished table: not judged", unsplit)
        if len(files) > LARGEST:
            return self._error(f"the stages are run again for {LARGEST:,} records at most: not judged", unsplit)
        attacked = _Attacked.of(files, names, self.column)
        truth = files.rerun(files, self.column, attacked.truth)
        runs: dict[tuple[Table, ...], bool] = {}
        total, counts = 0, [np.zeros((len(groups), len(attacked.values))) for groups in attacked.members]
        for world, weight in attacked.worlds(self.worlds, files):
            if world not in runs:
                runs[world] = files.rerun(files, self.column, attacked.assigned(world)) == truth
            if runs[world]:
                total += weight
                for at, table in enumerate(world):
                    counts[at] += weight * np.array(table, dtype=np.float64)
        if total < LEAST:
            return self._error(f"{total:,} worlds are consistent, fewer than {LEAST}: not judged", unsplit)
        sizes = [np.array([len(group) for group in groups]) for groups in attacked.members]
        worst = max(float((each / size[:, None]).max()) / total for each, size in zip(counts, sizes, strict=True))
        return self._verdict({"certainty": worst, "unsplit": unsplit, "worlds": total, "runs": len(runs)})

    def _verdict(self, observed: dict[str, Any]) -> Verdict:
        figure = observed["certainty"]
        return self.judged(
            figure,
            observed,
            reason=(
                f"at least one value is known with certainty {short(figure)}{self.asked}, over {observed['worlds']:,} "
                f"consistent worlds; {short(observed['unsplit'])} of the records in classes that cannot be split for "
                "their values (experimental)."
            ),
        )

    def _error(self, reason: str, unsplit: float) -> Verdict:
        seen = f"{reason}; {short(unsplit)} of the records are in classes that cannot be split for their values."
        return Verdict(self, {"certainty": None, "unsplit": unsplit}, "error", self.demanded(), reason=seen)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="illness"), cls(column="illness", at_most=0.5), cls(column="illness", worlds=500)]


@dataclass(frozen=True)
class _Attacked:
    """Members of each class, grouped by their original quasi-identifiers, and the class's values."""

    members: list[list[Ints]] = field(repr=False)
    held: list[tuple[int, ...]] = field(repr=False)
    values: list[Any] = field(repr=False)
    truth: list[Any] = field(repr=False)

    @classmethod
    def of(cls, files: FilePair, names: list[str], column: str) -> _Attacked:
        truth = files.original.column(column).to_pylist()
        codes = {value: number for number, value in enumerate(dict.fromkeys(truth))}
        released = list(zip(*(texts_of(files.released, name) for name in names), strict=True))
        before = list(zip(*(texts_of(files.original, name) for name in names), strict=True))
        classes: dict[Any, dict[Any, list[int]]] = {}
        for row, (label, own) in enumerate(zip(released, before, strict=True)):
            classes.setdefault(label, {}).setdefault(own, []).append(row)
        members = [[np.array(rows, dtype=np.int64) for rows in groups.values()] for groups in classes.values()]
        own_codes = np.array([codes[value] for value in truth], dtype=np.int64)
        held = [
            tuple(np.bincount(own_codes[np.concatenate(groups)], minlength=len(codes)).tolist()) for groups in members
        ]
        return cls(members, held, list(codes), truth)

    def worlds(self, most: int, files: FilePair) -> Iterator[tuple[tuple[Table, ...], int]]:
        """Worlds and how many assignments each represents: all of them, or `most` drawn by the keyed order."""
        groups = [[len(group) for group in each] for each in self.members]
        number = math.prod(ways(each, held) for each, held in zip(groups, self.held, strict=True))
        if number <= most:
            tables = [list(class_tables(each, held)) for each, held in zip(groups, self.held, strict=True)]
            for chosen in product(*tables):
                yield tuple(table for table, _ in chosen), math.prod(count for _, count in chosen)
            return
        key = bytes(16) if files.order is None else files.order.child("worlds").key
        generator = np.random.default_rng(int.from_bytes(key, "little"))
        drawn = [drawn_tables(each, held, most, generator) for each, held in zip(groups, self.held, strict=True)]
        for world in zip(*drawn, strict=True):
            yield world, 1

    def assigned(self, world: tuple[Table, ...]) -> list[Any]:
        """A value for each record, as the world has it."""
        found = list(self.truth)
        for groups, table in zip(self.members, world, strict=True):
            for rows, counts in zip(groups, table, strict=True):
                own = [value for value, count in zip(self.values, counts, strict=True) for _ in range(count)]
                for row, value in zip(rows.tolist(), own, strict=True):
                    found[row] = value
        return found

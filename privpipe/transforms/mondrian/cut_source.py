"""The codes a tree of cuts is grown from: distinct combinations, or single records where it cuts through them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassModel, Facts, Histogram, RowBlock
from privpipe.transforms.base import StageContext
from privpipe.transforms.mondrian.cut_columns import CutColumn, order_of_values, value_codes
from privpipe.transforms.mondrian.cut_search import CutProblem
from privpipe.transforms.mondrian.cut_tree import order_keys
from privpipe.transforms.suppression.budget import sensitive_codes
from privpipe.transforms.suppression.combinations import apart_by_person
from privpipe.transforms.suppression.counted_table import person_numbers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["by_combination", "by_record", "histograms_of", "with_persons", "with_population"]

Ints = NDArray[np.int64]
MOST_OF_ONE = (1 << 31) - 1
"""Of a population that one row of codes stands for."""


def by_combination(
    distinct: pa.Table,
    columns: tuple[CutColumn, ...],
    cut: int,
    models: tuple[ClassModel, ...],
    sensitive: tuple[str, ...],
    context: StageContext,
    *,
    by_loss: bool = False,
    person: str | None = None,
) -> CutProblem:
    """The problem over distinct combinations, as an engine counts them.

    Parameters
    ----------
    person : str, optional
        Column by which persons are counted, the last one that combinations were counted by.
    """
    counts = distinct["__count"].to_numpy().astype(np.int64)
    codes, places = _coded(distinct, columns, sensitive, context)
    persons = 0
    if person is not None:
        fresh = np.ones(len(codes), dtype=np.int64)
        fresh[1:] = (codes[1:] != codes[:-1]).any(axis=1)
        kept, counts, who = apart_by_person(np.cumsum(fresh), person_numbers(distinct[person], person), counts)
        codes, persons = with_persons(codes[kept], who.numbers, who.counts)
    return CutProblem(
        columns=columns,
        cut=cut,
        codes=codes,
        counts=counts,
        keys=np.empty(0, np.int64),
        sensitive=places,
        models=models,
        facts=context.base,
        by_loss=by_loss,
        persons=persons,
    )


def with_population(problem: CutProblem, beside: pa.Table) -> CutProblem:
    """The problem with the distinct combinations of a population among its rows."""
    codes, counts, columns = problem.codes, problem.counts, problem.columns
    many = beside["__count"].to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(many)), -(-many // MOST_OF_ONE))
    first = np.r_[True, rows[1:] != rows[:-1]][: len(rows)]
    own = np.where(first, many[rows] - (-(-many[rows] // MOST_OF_ONE) - 1) * MOST_OF_ONE, MOST_OF_ONE)
    none = np.zeros(len(rows), dtype=np.int64)
    theirs = [value_codes(column, beside[column.name])[rows] for column in columns]
    theirs += [none] * (codes.shape[1] - len(columns))
    joined = [np.concatenate([mine, other]) for mine, other in zip(codes.T, theirs, strict=True)]
    rows_of_both = _matrix([*joined, np.concatenate([np.zeros_like(counts), own])])
    return replace(problem, codes=rows_of_both, counts=np.concatenate([counts, none]), beside=True)


def with_persons(codes: NDArray[Any], who: Ints, many: Ints) -> tuple[NDArray[Any], int]:
    """Codes with two more columns, the number of each row's person and how many it stands for; how many are told apart.

    No fewer than 1, which tells persons from records.
    """
    known, numbers = np.unique(who, return_inverse=True)
    return _matrix([*codes.T, numbers.reshape(-1), many]), max(1, len(known))


def histograms_of(distinct: pa.Table, columns: Iterable[str]) -> dict[str, Histogram]:
    """Histograms of some columns of distinct combinations, as an engine would count them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": ["y", "x", None, "y"], "__count": [1, 2, 3, 4]})
    >>> own = histograms_of(table, ["a"])["a"]
    >>> own.values.to_pylist(), own.counts.tolist()
    (['x', 'y', None], [2, 5, 3])
    """
    import pyarrow as pa

    counts = distinct["__count"].to_numpy()
    found = {}
    for name in columns:
        encoded = distinct[name].combine_chunks().dictionary_encode(null_encoding="encode")
        values = encoded.dictionary
        order = order_of_values(values)
        totals = np.bincount(encoded.indices.to_numpy(), weights=counts, minlength=len(values))
        found[name] = Histogram(values.take(pa.array(order)), totals[order].astype(np.int64))
    return found


def by_record(
    engine: Any,
    table: Any,
    columns: tuple[CutColumn, ...],
    cut: int,
    models: tuple[ClassModel, ...],
    sensitive: tuple[str, ...],
    context: StageContext,
    *,
    person: str | None = None,
) -> CutProblem:
    """The problem over single records, in the order of their keys: the same on every engine, however it lies there.

    What a key orders is coded where it lies, so that the driver holds some bytes a record.
    """
    import pyarrow as pa

    beside = tuple(dict.fromkeys([*sensitive, *([] if person is None else [person])]))
    names = list(dict.fromkeys([*(column.name for column in columns), *beside]))
    found = engine.reduce_rows(table, names, _Gathered(columns, beside), Facts())
    blocks = found.blocks if found is not None else ()
    keys = np.concatenate([np.empty(0, np.int64), *(block.keys for block in blocks)])
    order = np.argsort(keys, kind="stable")
    coded = np.concatenate([np.empty((0, len(columns)), _width(columns)), *(block.codes for block in blocks)])[order]
    values: list[NDArray[Any]] = []
    persons = 0
    if beside and blocks:
        rows = pa.Table.from_batches([block.beside for block in blocks]).take(order)
        values = [sensitive_codes(rows[name], name, context.base) for name in sensitive]
    codes, places = _beside(list(coded.T), sensitive, values)
    if person is not None and blocks:
        who = person_numbers(rows[person], person)
        codes, persons = with_persons(codes, who, np.ones_like(who))
    return CutProblem(
        columns=columns,
        cut=cut,
        codes=codes,
        counts=np.ones(len(keys), dtype=np.int64),
        keys=keys[order],
        sensitive=places,
        models=models,
        facts=context.base,
        persons=persons,
    )


@dataclass(frozen=True)
class _Block:
    """Records of one block: codes of the columns, what orders them, their sensitive values and their persons."""

    codes: NDArray[Any] = field(repr=False)
    keys: Ints = field(repr=False)
    beside: pa.RecordBatch = field(repr=False)


@dataclass(frozen=True)
class _Held:
    blocks: tuple[_Block, ...] = field(repr=False)


@dataclass(frozen=True)
class _Gathered:
    """A reduction that brings all records together, coded."""

    columns: tuple[CutColumn, ...]
    beside: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> _Held:
        codes = np.empty((len(block.record_ids), len(self.columns)), dtype=_width(self.columns))
        for at, column in enumerate(self.columns):
            codes[:, at] = value_codes(column, block.column(column.name))
        return _Held((_Block(codes, order_keys(block.record_ids), block.batch.select(list(self.beside))),))

    def merge(self, left: _Held, right: _Held) -> _Held:
        return _Held((*left.blocks, *right.blocks))


def _width(columns: tuple[CutColumn, ...]) -> type[np.uint16] | type[np.int32]:
    """The least integers that hold the codes of every column."""
    return np.uint16 if max((column.size for column in columns), default=0) < 1 << 16 else np.int32


def _coded(
    rows: pa.Table, columns: tuple[CutColumn, ...], sensitive: tuple[str, ...], context: StageContext
) -> tuple[NDArray[Any], dict[str, tuple[int, int]]]:
    """Codes of the columns, then of the sensitive ones; place and number of values of each of these."""
    coded = [value_codes(column, rows[column.name]) for column in columns]
    return _beside(coded, sensitive, [sensitive_codes(rows[name], name, context.base) for name in sensitive])


def _beside(
    coded: list[NDArray[Any]], sensitive: tuple[str, ...], values: list[NDArray[Any]]
) -> tuple[NDArray[Any], dict[str, tuple[int, int]]]:
    """One matrix of the columns' codes and of the sensitive ones; place and number of values of each of these."""
    places = {
        name: (len(coded) + at, int(codes.max(initial=0)) + 1)
        for at, (name, codes) in enumerate(zip(sensitive, values, strict=False))
    }
    return _matrix([*coded, *values]), places


def _matrix(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Columns of codes beside one another, in the least integers that hold them."""
    largest = max((int(codes.max(initial=0)) for codes in columns), default=0)
    rows = len(columns[0]) if columns else 0
    matrix = np.empty((rows, len(columns)), dtype=np.uint16 if largest < 1 << 16 else np.int32)
    for at, codes in enumerate(columns):
        matrix[:, at] = codes
    return matrix

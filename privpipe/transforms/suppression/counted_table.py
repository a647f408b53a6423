"""The distinct combinations of a table as it is, with all that decides which of its classes must go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Guarantee, Primitives, RowBlock, prepared
from privpipe.blocks.label_information import INFORMATION
from privpipe.errors import DataError
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.combinations import Classes, Combinations, apart_by_person
from privpipe.transforms.suppression.judged_sets import JudgedSets, Keys

__all__ = ["CountedTable", "count_combinations", "person_numbers", "sensitive_codes", "text_ranks"]


@dataclass(frozen=True)
class CountedTable:
    """Combinations of a table, its classes over every judged set, and the facts to judge them by.

    Parameters
    ----------
    keys : pyarrow.Table
        Quasi-identifiers of each combination.
    codes : mapping of column to ndarray of int32
        Rank of each of their texts, null last.
    rows : Combinations
    classes : mapping of keys to Classes
    facts : Facts
    """

    keys: Any = field(repr=False)
    codes: Mapping[str, NDArray[np.int32]] = field(repr=False)
    rows: Combinations = field(repr=False)
    classes: Mapping[Keys, Classes] = field(repr=False)
    facts: Facts = field(repr=False)


def count_combinations(engine: Primitives, table: Any, sets: JudgedSets, context: StageContext) -> CountedTable | None:
    """Count a table, and the population where one is compared with, in one group-by each; None without records.

    Raises
    ------
    DataError
        A record without a person, a value that the base distribution lacks.
    """
    from privpipe.kernels.lattice.tuple_classes import class_numbers, class_totals

    columns = sets.columns or tuple(table.schema.names[:1])  # one class of all records has no key
    person = [] if sets.person is None else [sets.person]
    found = engine.distinct(table, list(dict.fromkeys([*columns, *sets.sensitive, *person])))
    if not found.num_rows:
        return None
    rows, found = _combinations(
        found,
        {column: sensitive_codes(found[column], column, context.base) for column in sets.sensitive},
        list(dict.fromkeys([*columns, *sets.sensitive])),
        sets.person,
    )
    keys = found.select(list(columns))
    population, theirs = _population(engine, sets, context)
    codes, lookups = {}, {}
    for place, column in enumerate(columns):
        beside = population[column] if column in population.schema.names else None
        codes[column], labels = _text_codes(keys[column], beside, column, len(theirs))
        lookups[column] = place, np.arange(labels), labels
    matrix = np.stack(list(codes.values()), axis=1)
    facts = _facts(engine, table, sets, context)
    classes = {}
    for names in sets.keys:
        compared = names in sets.compared
        joint, count = class_numbers(matrix if compared else matrix[: len(keys)], [lookups[name] for name in names])
        classes[names] = Classes(
            joint[: len(keys)],
            count,
            class_totals(joint[len(keys) :], count, theirs) if compared else None,
            _information(sets, names, keys, facts) if names in sets.labels else None,
        )
    return CountedTable(keys, {column: each[: len(keys)] for column, each in codes.items()}, rows, classes, facts)


def person_numbers(values: Any, column: str) -> NDArray[np.int64]:
    """A number for each person.

    Parameters
    ----------
    values : pyarrow.ChunkedArray

    Raises
    ------
    DataError
        A record without one.
    """
    encoded = values.combine_chunks().dictionary_encode()
    if encoded.null_count:
        raise DataError(f"person column {column!r} has missing values; a record needs a person to be counted by")
    found: NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def sensitive_codes(values: Any, column: str, facts: Facts) -> NDArray[np.int64]:
    """Codes of sensitive values: positions in the base distribution where there is one.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray

    Raises
    ------
    DataError
        A value that the base lacks.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if column not in facts.histograms:
        codes = array.dictionary_encode(null_encoding="encode").indices
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)
    found = pc.index_in(array, value_set=facts.histograms[column].values.cast(array.type))
    if found.null_count:
        raise DataError(f"the base distribution of {column!r} does not cover the values of the table")
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def text_ranks(texts: Sequence[str | None]) -> NDArray[np.int64]:
    """Rank of each text by code points, null last; equal texts share one.

    Examples
    --------
    >>> text_ranks(["b", None, "a", "b"]).tolist()
    [1, 2, 0, 1]
    """
    known = sorted({text for text in texts if text is not None})
    ranks = {text: rank for rank, text in enumerate(known)}
    return np.array([len(known) if text is None else ranks[text] for text in texts], dtype=np.int64)


def _combinations(
    found: Any, sensitive: Mapping[str, NDArray[np.int64]], columns: list[str], person: str | None
) -> tuple[Combinations, Any]:
    """The combinations, apart by person as far as they must be, and the rows of the count that stand for them."""
    counts = found["__count"].to_numpy().astype(np.int64)
    if person is None:
        return Combinations(counts, sensitive), found
    # Sorted, the person last, so that equal combinations stand side by side.
    fresh = np.zeros(len(counts), dtype=np.int64)
    for column in columns:
        codes = found[column].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        fresh[1:] |= codes[1:] != codes[:-1]
    kept, counts, persons = apart_by_person(np.cumsum(fresh), person_numbers(found[person], person), counts)
    return Combinations(counts, {name: codes[kept] for name, codes in sensitive.items()}, persons), found.take(kept)


def _population(engine: Primitives, sets: JudgedSets, context: StageContext) -> tuple[Any, NDArray[np.int64]]:
    """Combinations of the population over the compared quasi-identifiers, and their records."""
    import pyarrow as pa

    compared = list(dict.fromkeys(key for keys in sets.compared for key in keys))
    if not sets.compared:
        return pa.table({}), np.zeros(0, dtype=np.int64)
    if not compared:
        return pa.table({}), np.array([engine.count(context.population)], dtype=np.int64)
    found = engine.distinct(context.population, compared)
    return found.select(compared), found["__count"].to_numpy().astype(np.int64)


def _text_codes(values: Any, beside: Any, column: str, more: int) -> tuple[NDArray[np.int32], int]:
    """Ranks of the table's texts, then codes of the population's (0 where it is not compared), and how many there are.

    The table's own come first, so that their order does not hang on the population.
    """
    from privpipe.hierarchies import canonical_text
    from privpipe.roles import column_type_of

    kind = column_type_of(values.type)
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    texts = canonical_text(encoded.dictionary, kind, column=column).to_pylist()
    ranks = text_ranks(texts)
    mine = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
    known = dict(zip(texts, ranks.tolist(), strict=True))
    labels = max(known.values(), default=-1) + 1
    if beside is None:
        return np.concatenate([mine, np.zeros(more, dtype=np.int64)]).astype(np.int32), labels
    encoded = beside.combine_chunks().dictionary_encode(null_encoding="encode")
    theirs = []
    for text in canonical_text(encoded.dictionary, kind, column=column).to_pylist():
        theirs.append(known.setdefault(text, labels))
        labels = max(labels, theirs[-1] + 1)
    codes = np.array(theirs, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return np.concatenate([mine, codes]).astype(np.int32), labels


def _facts(engine: Primitives, table: Any, sets: JudgedSets, context: StageContext) -> Facts:
    """The base, and what rules that look at labels learn from those of the table."""
    columns_used_by = tuple(dict.fromkeys(key for keys in sets.labels for key in keys))
    if not columns_used_by:
        return context.base
    seen = engine.facts(table, FactsRequest(histograms=columns_used_by)).histograms
    known = replace(context.base, histograms={**context.base.histograms, **seen}, hierarchies=dict(context.hierarchies))
    return prepared(known, _looking(sets, sets.labels))


def _looking(sets: JudgedSets, over: Iterable[Keys]) -> list[Guarantee]:
    return [model for keys in over for model in sets.class_models[keys] if model.counted_columns(keys)]


def _information(sets: JudgedSets, names: Keys, keys: Any, facts: Facts) -> NDArray[np.float64]:
    """What the labels of each combination lose, by the very function that the gate asks."""
    chosen = keys.select(list(names)).combine_chunks()
    made = next(model.row_column(facts) for model in _looking(sets, [names]))  # type: ignore[attr-defined]
    lost = made(RowBlock(chosen.to_batches()[0], None)).batch.column(INFORMATION)
    found: NDArray[np.float64] = lost.to_numpy(zero_copy_only=False)
    return found

"""The distinct table: each combination of quasi-identifiers and sensitive values as integer codes with its count, and
the quality model that a search over it minimises.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Codes, Floats, Ints
from privpipe.blocks.class_block import information_lost
from privpipe.errors import NoSolutionError, PrivpipeError, UnsupportedError
from privpipe.hierarchies import Hierarchy, canonical_text
from privpipe.kernels.columns.codes import PackedColumns
from privpipe.kernels.lattice.node_classes import class_numbers, class_totals
from privpipe.kernels.quality import QualityModel, quality_model
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.generalize_stage import GeneralizeStage, generalized_columns
from privpipe.transforms.recoding.population import PopulationRows, SeenColumn, encode_population
from privpipe.transforms.suppression.class_failures import Classes, Combinations
from privpipe.transforms.suppression.combinations import apart_by_person, person_numbers
from privpipe.transforms.suppression.judged_sets import judged_sets
from privpipe.transforms.suppression.record_suppression import budget_of, sensitive_codes, text_ranks

__all__ = ["EncodedTable", "beside_loading", "encode", "rows_by_person", "searched_quality", "sorted_values"]


R = TypeVar("R")
INITIALISED = "numba.np.arraymath"
"""What the first call of any compiled function imports, which takes most of the time."""


def beside_loading(work: Callable[[], R]) -> R:
    """Do work that leaves the interpreter free, loading compiled code meanwhile unless it is there.

    Examples
    --------
    >>> beside_loading(lambda: 7)
    7
    """
    if INITIALISED in sys.modules:
        return work()
    with ThreadPoolExecutor(1, thread_name_prefix="privpipe") as pool:
        loaded = pool.submit(_load)
        done = work()
    loaded.result()
    return done


def _load() -> None:
    import pyarrow as pa

    from privpipe.kernels.lattice.node_classes import compacted

    compacted(np.zeros(1, dtype=np.int64), 1)
    pa.array([0])  # the first conversion imports pandas where it is installed


LARGEST_LATTICE = 1 << 24


@dataclass(frozen=True)
class EncodedTable:
    """What a search reads; held in memory and never written.

    Parameters
    ----------
    columns : tuple of str
        Columns to generalize, m of them, in policy order.
    fixed : tuple of str
        Judged quasi-identifiers that stay unchanged.
    hierarchies : tuple of Hierarchy, one a generalized column
    codes : ndarray of int32, shape (t, m + fixed)
        Leaf codes of the generalized columns, then ranks of the fixed ones' values.
    rows : Combinations
        Records and sensitive codes of each combination.
    records : int
        N, those suppressed for an unknown value included.
    unknown : int
        Records suppressed before all others because a hierarchy lacks their value.
    population : PopulationRows, optional
        The population that some guarantees compare with.
    """

    columns: tuple[str, ...]
    fixed: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    codes: Codes = field(repr=False)
    rows: Combinations = field(repr=False)
    records: int
    unknown: int
    population: PopulationRows | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each column in `codes`."""
        return {column: place for place, column in enumerate((*self.columns, *self.fixed))}

    @cached_property
    def lookups(self) -> list[list[tuple[int, Ints, int]]]:
        """For each column and level: its place, the label's code of each leaf code, and the number of labels."""
        found = [
            [
                (place, hierarchy.codes(level).astype(np.int64), len(hierarchy.labels(level)))
                for level in range(hierarchy.height + 1)
            ]
            for place, hierarchy in enumerate(self.hierarchies)
        ]
        for place in range(len(self.columns), self.codes.shape[1]):
            values = int(self.codes[:, place].max(initial=-1)) + 1
            found.append([(place, np.arange(values), values)])
        return found

    @cached_property
    def packed(self) -> PackedColumns:
        """`codes`, packed."""
        return PackedColumns(self.codes, [len(own[0][1]) for own in self.lookups])

    def lookup(self, column: str, levels: Sequence[int]) -> tuple[int, Ints, int]:
        """The entry of `lookups` for a column at a vector of levels."""
        place = self.places[column]
        return self.lookups[place][levels[place] if place < len(self.columns) else 0]

    def classes(
        self, keys: Sequence[str], levels: Sequence[int], *, compared: bool = False, labels: bool = False
    ) -> Classes:
        """The classes over some keys at a vector of levels.

        Parameters
        ----------
        compared : bool
            Whether to count the population in them, and its classes without a combination too.
        labels : bool
            Whether to compute the loss of the labels of each combination.
        """
        information = self.information(keys, levels) if labels else None
        if not compared or self.population is None:
            numbers, count = class_numbers(self.codes, [self.lookup(key, levels) for key in keys])
            return Classes(numbers, count, information=information)
        beside = self.population
        chosen = [(self.places[key], levels[self.places[key]] if key in self.columns else 0) for key in keys]
        joint, count = class_numbers(self._with_population, [beside.lookups[place][level] for place, level in chosen])
        sizes = class_totals(joint[len(self) :], count, beside.counts)
        return Classes(joint[: len(self)], count, population=sizes, information=information)

    @property
    def population_counts(self) -> Callable[[Sequence[int]], Ints] | None:
        """For a vector of levels: records of the population with the labels of each combination.

        None where no population is counted over all the columns.
        """
        if self.population is None or not set(self.places) <= set(self.population.columns):
            return None

        def counts(levels: Sequence[int]) -> Ints:
            found = self.classes((*self.columns, *self.fixed), levels, compared=True)
            crowd: Ints = np.asarray(found.population)[found.numbers]
            return crowd

        return counts

    def information(self, keys: Sequence[str], levels: Sequence[int]) -> Floats:
        """What the labels of each combination over some keys lose, in [0, 1], shape (t,).

        A column without a hierarchy is raw: each of its values has the same share.
        """
        logs, domain = np.zeros(len(self), dtype=np.float64), 0.0
        for key in keys:
            place = self.places[key]
            if key in self.columns:
                hierarchy = self.hierarchies[place]
                size = max(hierarchy.domain_size, 1.0)
                of_code = np.array([math.log(share) for share in hierarchy.shares(levels[place]).tolist()])
                logs += of_code[self.codes[:, place]]
            else:
                size = float(len(np.unique(self.codes[:, place])))
                logs -= math.log(size)
            domain += math.log(size)
        return information_lost(logs, domain)

    @cached_property
    def _with_population(self) -> Codes:
        return self.codes if self.population is None else np.concatenate([self.codes, self.population.codes])

    def key_ranks(self, column: str, levels: Sequence[int], rows: Ints) -> Ints:
        """Ranks of some combinations' released texts in a column, the order of class keys, shape (n,)."""
        place = self.places[column]
        if place >= len(self.columns):
            fixed: Ints = self.codes[rows, place].astype(np.int64)
            return fixed
        texts = self.hierarchies[place].released(levels[place])
        ranks: Ints = text_ranks(texts)[self.codes[rows, place]]
        return ranks

    def nodes(self) -> NDArray[np.int16]:
        """Every vector of levels within the columns' limits, in lexicographic order, shape (M, m).

        Raises
        ------
        UnsupportedError
            More than 2^24 of them.
        """
        ranges = [range(hierarchy.min_level, hierarchy.max_level + 1) for hierarchy in self.hierarchies]
        size = int(np.prod([len(levels) for levels in ranges], dtype=np.float64))
        if size > LARGEST_LATTICE:
            raise UnsupportedError(
                f"the lattice has {size:,} vectors of levels, an exhaustive proof serves {LARGEST_LATTICE:,}; "
                "narrow it with min_level and max_level of the columns, or generalize fewer columns"
            )
        grids = np.meshgrid(*[np.array(levels, dtype=np.int16) for levels in ranges], indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)


def encode(engine: Any, table: Any, stage: GeneralizeStage, context: StageContext) -> EncodedTable:
    """Count the distinct combinations on the engine and encode them on the driver.

    The combinations come sorted, so nothing depends on the engine, its partitions or the order of the rows.

    Raises
    ------
    HierarchyError
        A value that a hierarchy lacks, by its rule.
    NoSolutionError
        No record is left.
    """
    columns = generalized_columns(stage, context)
    sets = judged_sets(context, serves=stage.serves)
    fixed = tuple(key for key in sets.columns if key not in columns)
    valued = _valued_columns(stage, (*columns, *fixed), sets.sensitive)
    person = sets.person if sets.keys else None
    counted = dict.fromkeys([*columns, *fixed, *valued, *([person] if person else [])])
    distinct = beside_loading(lambda: engine.distinct(table, list(counted)))
    counts = distinct["__count"].to_numpy().astype(np.int64)
    matrix, known, seen = _coded_columns(distinct, counts, columns, fixed, context)
    if not known.any():
        raise NoSolutionError(f"{context.place}: no record is left to generalize")
    sensitive = {column: sensitive_codes(distinct[column], column, context.base)[known] for column in valued}
    matrix, rows = matrix if known.all() else matrix[known], Combinations(counts[known], sensitive)
    if person:
        who = person_numbers(distinct[person], person)
        kept, rows = rows_by_person(matrix, rows, who[known])
        matrix = matrix[kept]
    return EncodedTable(
        columns=columns,
        fixed=fixed,
        hierarchies=tuple(hierarchy for own in seen.values() if (hierarchy := own.hierarchy) is not None),
        codes=np.ascontiguousarray(matrix),
        rows=rows,
        records=int(counts.sum()),
        unknown=int(counts[~known].sum()),
        population=_population(engine, sets.compared, seen, context),
    )


def _valued_columns(stage: GeneralizeStage, keys: Sequence[str], sensitive: Sequence[str]) -> tuple[str, ...]:
    """Columns whose values are counted: the sensitive ones, and the target of a classification."""
    response = stage.loss.response
    return tuple(sensitive) if response in (None, *keys, *sensitive) else (*sensitive, str(response))


def _coded_columns(
    distinct: Any, counts: Ints, columns: Sequence[str], fixed: Sequence[str], context: StageContext
) -> tuple[Codes, Bools, dict[str, SeenColumn]]:
    """The codes of each combination, whether all of them are known, and the contents of each column."""
    codes, seen = [], {}
    for place, column in enumerate((*columns, *fixed)):
        seen[column], leaves = _coded(
            distinct[column], counts, column, place, context, generalized=place < len(columns)
        )
        codes.append(leaves)
    return np.stack(codes, axis=1), np.logical_and.reduce([leaves >= 0 for leaves in codes]), seen


def _population(
    engine: Any, compared: Sequence[Sequence[str]], seen: Mapping[str, SeenColumn], context: StageContext
) -> PopulationRows | None:
    """Counted over all columns that a guarantee compares it by; None where none does."""
    if not compared:
        return None
    columns = tuple(dict.fromkeys(key for keys in compared for key in keys))
    return encode_population(engine, columns, seen, context)


def rows_by_person(matrix: Codes, rows: Combinations, who: Ints) -> tuple[NDArray[np.intp], Combinations]:
    """The combinations, distinguished by person as far as necessary, and which of them represent all."""
    words = np.column_stack([matrix, *rows.sensitive.values()])
    fresh = np.ones(len(words), dtype=np.int64)
    fresh[1:] = (words[1:] != words[:-1]).any(axis=1)  # sorted, the person last
    kept, counts, persons = apart_by_person(np.cumsum(fresh), who, rows.counts)
    return kept, Combinations(counts, {name: codes[kept] for name, codes in rows.sensitive.items()}, persons)


def _coded(
    values: Any,
    counts: Ints,
    column: str,
    place: int,
    context: StageContext,
    *,
    generalized: bool,
) -> tuple[SeenColumn, Codes]:
    """A column, and the code of each of its values: a leaf of its hierarchy, or a rank where it has none."""
    distinct, places = sorted_values(values)
    if not generalized:
        texts = canonical_text(distinct, None, column=column).to_pylist()
        ranks = text_ranks(texts)
        ordered = sorted(set(zip(ranks.tolist(), texts, strict=True)), key=lambda pair: pair[0])
        return SeenColumn(place, tuple(text for _, text in ordered), (), None), ranks.astype(np.int32)[places]
    kind = context.types.get(column) or column_type_of(distinct.type)
    texts = canonical_text(distinct, kind, column=column).to_pylist()
    totals = np.bincount(places, weights=counts, minlength=len(texts)).astype(np.int64).tolist()
    hierarchy = context.hierarchies[column].build(texts, totals, kind)
    own = SeenColumn(place, tuple(texts), tuple(totals), kind, hierarchy)
    return own, hierarchy.encode(texts).astype(np.int32)[places]


def sorted_values(values: Any) -> tuple[Any, Ints]:
    """Distinct values in the order of a histogram (nulls last), by which builders name leaves; and each row's place."""
    import pyarrow.compute as pc

    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    order = pc.sort_indices(encoded.dictionary).to_numpy()  # nulls last
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return encoded.dictionary.take(order), place[encoded.indices.to_numpy(zero_copy_only=False)]


def searched_quality(table: EncodedTable, stage: GeneralizeStage, context: StageContext) -> QualityModel:
    """The model that a stage names, over its encoded table.

    Bounds may rely on the requirements of a node: suppression within the limit, and the least size of a class that any
    guarantee over all columns sets.

    Raises
    ------
    UsageError, UnsupportedError
        Parameters that do not fit the table; the message begins with the stage's place in the policy.
    """
    budget = None if stage.limit is None else budget_of(stage.limit, table.records, context)
    everything = {*table.columns, *table.fixed}
    sizes = [
        model.least_size()
        for keys, models in judged_sets(context, serves=stage.serves).class_models.items()
        for model in models
        if everything <= set(keys) and not model.needs_population
    ]
    try:
        return quality_model(
            table, stage.loss, budget=budget if stage.is_search else None, least_class=max(sizes, default=1)
        )
    except PrivpipeError as error:
        raise type(error)(f"{context.place}: {error}") from None

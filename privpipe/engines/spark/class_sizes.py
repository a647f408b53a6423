"""Sizes of classes, counted by Spark alone and known of a table from then on, as its rows do not change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Reduction
from privpipe.engines.base.assembly import COUNT, may_be_marked, require_query_columns
from privpipe.engines.base.known_sizes import KnownSizes
from privpipe.engines.spark.counting import MARKED, WORDS, cells_of, class_words, new_salt
from privpipe.engines.spark.driver_room import fits_here
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import arrow_table

__all__ = ["Sized", "counts_records", "sized_blocks"]

CLASSES_HERE = 1 << 26
"""More classes are measured where they lie, by all workers at once."""
FLAG, NUMBER = "__privpipe_marked", "__privpipe_number"


def counts_records(query: ClassQuery) -> bool:
    """Whether sizes are numbers of records, of classes that keys distinguish."""
    return bool(query.keys) and query.person is None and query.weight is None


def sized_blocks(table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock] | None:
    """The classes of a query that asks for nothing but their sizes, from a few numbers; None where they are too many.

    A count over the same keys that came before is not done again.
    """
    require_query_columns(table.schema, query)
    if query.columns or not counts_records(query):
        return None
    found = table.counts.sizes.get(frozenset(query.keys))
    if found is None or not found.answers(query):
        found = _counted(table, query)
        table.counts.sizes[frozenset(query.keys)] = found
    return found.blocks(query) if sum(found.classes.values()) <= CLASSES_HERE else None


def _counted(table: SparkTable, query: ClassQuery) -> KnownSizes:
    return _counted_here(table, query) if fits_here(table, Facts()) else _counted_by_spark(table, query)


def _counted_here(table: SparkTable, query: ClassQuery) -> KnownSizes:
    """From the words of every record: a hash table of them here costs less than one in every part, and a shuffle."""
    from privpipe.kernels.grouping.word_groups import group_rows

    with reported("count the classes"):
        found = arrow_table(table.frame.select(*class_words(table, query, new_salt())))
    words = np.column_stack([found.column(name).to_numpy() for name in WORDS])
    groups, firsts = group_rows(words)
    sizes = np.bincount(groups, minlength=len(firsts))
    marked = (words[firsts] == np.array(MARKED)).all(axis=1) if may_be_marked(query) else None
    return KnownSizes.of(ClassBlock(sizes, marked=marked), query.mark if may_be_marked(query) else None)


def _counted_by_spark(table: SparkTable, query: ClassQuery) -> KnownSizes:
    from pyspark.sql import functions as sf

    marks = may_be_marked(query)
    flag = (sf.col(WORDS[0]) == MARKED[0]) & (sf.col(WORDS[1]) == MARKED[1]) if marks else sf.lit(False)
    sizes = cells_of(table, query, new_salt()).select(flag.alias(FLAG), COUNT).groupBy(FLAG, COUNT)
    with reported("count the classes"):
        found = arrow_table(sizes.agg(sf.count(sf.lit(1)).alias(NUMBER)))
    flags, numbers, classes = (found.column(name).to_pylist() for name in (FLAG, COUNT, NUMBER))
    return KnownSizes(query.mark if marks else None, dict(zip(zip(flags, numbers, strict=True), classes, strict=True)))


@dataclass(frozen=True)
class Sized:
    """A reduction beside the sizes of the classes that it sees."""

    inner: Reduction[ClassBlock, Any]
    mark: str | None

    def measure(self, block: ClassBlock, facts: Facts) -> tuple[Any, KnownSizes]:
        return self.inner.measure(block, facts), KnownSizes.of(block, self.mark)

    def merge(self, left: tuple[Any, KnownSizes], right: tuple[Any, KnownSizes]) -> tuple[Any, KnownSizes]:
        return self.inner.merge(left[0], right[0]), left[1].merged(right[1])

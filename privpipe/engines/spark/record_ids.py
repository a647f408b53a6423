"""Record ids: from a declared column, or from the content of records and their number among identical ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from privpipe.blocks import ClassQuery, RowBlock
from privpipe.draws import Seed
from privpipe.engines.distributed.class_parts import WORDS
from privpipe.engines.spark.class_cells import class_words, new_salt
from privpipe.engines.spark.facts import looker_of
from privpipe.engines.spark.row_functions import RunOrdinals
from privpipe.engines.spark.spark_table import Hashed, Layout, SparkTable
from privpipe.engines.spark.workers import map_batches, map_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["declared_ids", "numbered_ids"]


Batches = Iterator[pa.RecordBatch]
SEEN = "__privpipe_seen"


def numbered_ids(table: SparkTable, seed: Seed, keep: Callable[[DataFrame], DataFrame]) -> SparkTable:
    """The table with ids from the content of all columns and an ordinal among identical records.

    Identical records are brought together by a hash of Spark's, so that rows go to a worker and come back once. With
    the last batch of each partition comes what was seen of its columns, and the sum of its content hashes, which add
    up to the fingerprint of the table.

    Parameters
    ----------
    keep : callable
        Persists a frame, where it may be persisted.
    """
    from pyspark.sql.types import BinaryType, StructField, StructType

    from privpipe.kernels.ids.record_ids import content_hash, record_id, sum_of_hashes

    plain, out = Layout(table.schema), Layout(table.schema, has_ids=True)
    placed, looker = plain.with_extra(WORDS[0]), looker_of(table, seed)

    def add_ids(batches: Batches) -> Batches:
        numbers = RunOrdinals()
        waiting, seen = None, None
        for batch in batches:
            if not batch.num_rows:
                continue
            rows = placed.block(batch)
            words = content_hash(rows.batch, seed)
            ids = record_id(words, numbers.of(placed.hidden_column(batch, WORDS[0]), words), seed)
            seen = looker.look(rows.batch.columns, seen)
            seen = replace(seen, hashes=(seen.hashes + sum_of_hashes(words)) % (1 << 128))
            if waiting is not None:
                yield waiting.append_column(SEEN, pa.nulls(len(waiting), pa.binary()))
            waiting = out.batch(RowBlock(rows.batch, ids))
        if waiting is not None:
            told = pa.array([pickle.dumps(seen)] + [None] * (len(waiting) - 1), pa.binary())
            yield waiting.append_column(SEEN, told)

    word, _ = class_words(table, ClassQuery(keys=tuple(table.schema.names)), new_salt())
    visible = table.frame.select(*plain.arrow.names, word)
    together = visible.repartition(WORDS[0]).sortWithinPartitions(WORDS[0])
    summed = StructType([*out.struct.fields, StructField(SEEN, BinaryType())])
    made = keep(map_struct(together, add_ids, summed))
    return SparkTable(
        made.select(*out.arrow.names),
        out,
        dict(table.remembered),
        table.at_most,
        table.learned,
        hashed=Hashed(made, SEEN, seed),
    )


def declared_ids(table: SparkTable, column: str, seed: Seed) -> SparkTable:
    """The table with ids from a column known to be unique and complete."""
    from privpipe.kernels.ids.record_ids import declared_id

    plain, out = Layout(table.schema), Layout(table.schema, has_ids=True)

    def add_ids(batches: Batches) -> Batches:
        for batch in batches:
            rows = plain.block(batch)
            yield out.batch(RowBlock(rows.batch, declared_id(rows.column(column), seed)))

    visible = table.frame.select(*plain.arrow.names)
    return SparkTable(map_batches(visible, add_ids, out), out, dict(table.remembered), table.at_most, table.learned)

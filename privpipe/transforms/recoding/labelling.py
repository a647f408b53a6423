"""Labels of a table's columns: the hierarchies over the values at hand, and the records under their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.class_keys import KeysDropped

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy

__all__ = [
    "Labelled",
    "Labelling",
    "built_over",
    "hierarchies_of",
    "is_recoded",
    "labels_at",
    "texts_of",
    "type_of",
]


@dataclass(frozen=True)
class Labelling:
    """Which labels columns get.

    Parameters
    ----------
    hierarchies : mapping of column to Hierarchy
    values : mapping of column to pyarrow.Array
        Distinct values, null last where there are any.
    levels : mapping of column to int
    recoded : tuple of str
        Columns that are released as labels; the others stay raw.
    """

    hierarchies: Mapping[str, Hierarchy] = field(repr=False)
    values: Mapping[str, pa.Array] = field(repr=False)
    levels: Mapping[str, int]
    recoded: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """Records on their way through the stage.

    Parameters
    ----------
    labels : Labelling
    before, known, table : Table
        All that entered, those whose values are known, and these under their labels.
    unknown : tuple of KeysDropped
        Tells the others, column by column.
    """

    labels: Labelling
    before: Any = field(repr=False)
    known: Any = field(repr=False)
    table: Any = field(repr=False)
    unknown: tuple[KeysDropped, ...] = ()


def hierarchies_of(
    engine: Primitives, table: Any, columns: tuple[str, ...], context: StageContext
) -> tuple[dict[str, Hierarchy], dict[str, pa.Array]]:
    """Each column's hierarchy over the values at hand, and those values (null last where there are any)."""
    histograms = engine.facts(table, FactsRequest(histograms=columns)).histograms
    built = built_over({column: histograms[column] for column in columns}, context)
    return built, {column: histograms[column].values for column in columns}


def built_over(histograms: Mapping[str, Histogram], context: StageContext) -> dict[str, Hierarchy]:
    """Each column's hierarchy over the values of its histogram."""
    built = {}
    for column, found in histograms.items():
        texts = texts_of(found.values, context, column).to_pylist()
        built[column] = context.hierarchies[column].build(texts, found.counts.tolist(), type_of(context, column))
    return built


def is_recoded(hierarchy: Hierarchy, level: int) -> bool:
    """Whether a column is released as labels: above level 0, and at level 0 where unknown values become the root."""
    return level > 0 or hierarchy.unknown_code is not None


def type_of(context: StageContext, column: str) -> str:
    """The declared type of a column, else that of the source."""
    from privpipe.roles import column_type_of

    return context.types.get(column) or column_type_of(context.schema.field(column).type)


def texts_of(values: pa.Array, context: StageContext, column: str) -> Any:
    """Values as canonical text of the column's type, null where there is none."""
    from privpipe.hierarchies import canonical_text

    return canonical_text(values, type_of(context, column), column=column)


def labels_at(hierarchy: Hierarchy, level: int, codes: NDArray[np.int32]) -> pa.Array:
    """Labels of values; a missing value has none where it stays missing."""
    import pyarrow as pa

    texts = np.array(hierarchy.released(level), dtype=object)
    return pa.array(texts[codes], pa.string())

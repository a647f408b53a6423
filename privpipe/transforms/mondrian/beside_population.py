"""The population that a table is cut beside: whom its parts hold, and what they are called there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpipe.blocks import FactsRequest, Histogram
from privpipe.errors import DataError, UnsupportedError, did_you_mean
from privpipe.transforms.base import StageContext
from privpipe.transforms.mondrian.cut_passes import MOST_COMBINATIONS, combinations_exceed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["population_combinations", "population_histograms"]


def population_combinations(engine: Any, names: Sequence[str], context: StageContext) -> pa.Table | None:
    """Distinct combinations of the context's population over the columns of a tree; None where there is none.

    Raises
    ------
    DataError
        A column that the population lacks or holds in another type.
    UnsupportedError
        More combinations than the driver holds.
    """
    if context.population is None:
        return None
    _require_columns(names, context)
    if combinations_exceed(engine, context.population, names, MOST_COMBINATIONS):
        raise UnsupportedError(
            f"{context.place}: the population has more than {MOST_COMBINATIONS:,} distinct combinations of the columns "
            "that are cut and judged; generalize some of them before it"
        )
    found: pa.Table = engine.distinct(context.population, list(names))
    return found


def population_histograms(engine: Any, names: Sequence[str], context: StageContext) -> Mapping[str, Histogram] | None:
    """Values of the context's population; None where there is none."""
    if context.population is None:
        return None
    _require_columns(names, context)
    found: Mapping[str, Histogram] = engine.facts(context.population, FactsRequest(histograms=tuple(names))).histograms
    return found


def _require_columns(names: Sequence[str], context: StageContext) -> None:
    schema = context.population.schema
    for name in names:
        if name not in schema.names:
            raise DataError(
                f"{context.place}: column {name!r} is not in the population{did_you_mean(name, schema.names)}; the "
                "place of its persons in a tree of cuts follows from every column that is cut or judged"
            )
        mine, theirs = context.schema.field(name).type, schema.field(name).type
        if mine != theirs:
            raise DataError(
                f"{context.place}: column {name!r} is {mine} in the table and {theirs} in the population; declare its "
                "type"
            )

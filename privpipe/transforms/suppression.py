"""Record suppression: whole classes that fail go, within one budget over the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassModel, ClassQuery, Facts, Guarantee, Primitives, RowBlock, SizeModel
from privpipe.draws import Seed
from privpipe.errors import NoSolutionError
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext

__all__ = ["OwnLoss", "Passing", "judged_sets", "suppress_failing"]

OwnLoss = Callable[[Any], NDArray[np.float64]]
"""Own loss of each class, from a pyarrow Table of class keys (labels); breaks ties of size, ascending."""


@dataclass(frozen=True)
class Passing:
    """Which classes meet every one of some models; suppressed records are no class that could fail."""

    models: tuple[ClassModel, ...]
    facts: Facts = field(repr=False)

    def __call__(self, block: ClassBlock) -> NDArray[np.bool_]:
        passing = np.ones(len(block), dtype=np.bool_)
        for model in self.models:
            passing &= model.passing(block, self.facts)
        return passing if block.marked is None else passing | block.marked


def judged_sets(context: StageContext) -> dict[tuple[str, ...], tuple[list[ClassModel], list[SizeModel]]]:
    """Guarantees over classes by the quasi-identifiers they are judged on, in policy order."""
    sets: dict[tuple[str, ...], tuple[list[ClassModel], list[SizeModel]]] = {}
    for guarantee in context.guarantees:
        if isinstance(guarantee, ClassModel | SizeModel):
            keys = guarantee.quasi_identifiers
            keys = tuple(context.roles.quasi_identifiers) if keys is None else keys
            models = sets.setdefault(keys, ([], []))
            if isinstance(guarantee, ClassModel):
                models[0].append(guarantee)
            else:
                models[1].append(guarantee)
    return sets


def suppress_failing(
    engine: Primitives,
    table: Any,
    context: StageContext,
    limit: float,
    *,
    entering: int | None = None,
    own_loss: OwnLoss | None = None,
) -> Any:
    """Remove the classes that fail, in rounds until none does, then what sample-based models ask for.

    Parameters
    ----------
    limit : float
        Budget as a share of the records that enter the stage, over the whole table.
    entering : int, optional
        That number, when some have been removed already; default: the records of `table`.
    own_loss : callable, optional
        Ties among classes of one size go by it, then by class key; without it by class key.

    Raises
    ------
    NoSolutionError
        More records would have to go than the budget allows; the message says how many.
    """
    before = engine.count(table) if entering is None else entering
    budget = floor_share(limit, before)
    sets = judged_sets(context)
    several = len(sets) > 1
    left = -1
    while True:
        for keys, (models, _) in sets.items():
            if models:
                query = class_query(keys, models, context)
                table = engine.keep_classes(table, query, Passing(tuple(models), context.base))
        now = engine.count(table)
        _require_within(before - now, budget, before, context)
        if now == left or not several:
            break
        left = now
    for keys, (_, sample_models) in sets.items():
        for model in sample_models:
            table = _shorten(engine, table, keys, model, context, own_loss)
    gone = before - engine.count(table)
    _require_within(gone, budget, before, context)
    if gone == before:
        raise NoSolutionError(f"{context.place}: every record would have to be suppressed")
    return table


def class_query(keys: Sequence[str], models: Iterable[Guarantee], context: StageContext) -> ClassQuery:
    """The count these models need."""
    models = list(models)
    columns = dict.fromkeys(column for model in models for column in model.sensitive_columns())
    coded = {column for model in models if model.needs_base for column in model.sensitive_columns()}
    return ClassQuery(
        keys=tuple(keys),
        columns=tuple(columns),
        dictionaries={column: context.base.histograms[column] for column in columns if column in coded},
        mark=context.mark,
    )


def _require_within(gone: int, budget: int, records: int, context: StageContext) -> None:
    if gone > budget:
        raise NoSolutionError(
            f"{context.place}: the guarantees need {gone:,} of {records:,} records suppressed, the limit allows "
            f"{budget:,}; it would take suppress_at_most >= {np.ceil(1e6 * gone / records) / 1e6:g}, or more "
            "generalization before it"
        )


def _shorten(
    engine: Primitives,
    table: Any,
    keys: tuple[str, ...],
    model: SizeModel,
    context: StageContext,
    own_loss: OwnLoss | None,
) -> Any:
    """Drop the shortest prefix of classes, by ascending size, that fulfils a sample-based model."""
    classes = engine.distinct(table, keys)
    sizes = classes["__count"].to_numpy()
    classes = classes.drop_columns(["__count"])
    loss = own_loss(classes) if own_loss else np.zeros(len(sizes))
    order = np.lexsort((np.arange(len(sizes)), loss, sizes))
    prefix = shortest_prefix(sizes[order], model, context.base)
    if prefix is None:
        raise NoSolutionError(f"{context.place}: {model!r} cannot be met by suppressing classes")
    if prefix == 0:
        return table
    dropped = KeysDropped.of(keys, classes.take(order[:prefix]))
    return engine.map_rows(table, dropped, table.schema)


def shortest_prefix(sizes: NDArray[np.int64], model: SizeModel, facts: Facts) -> int | None:
    """How many of the classes, in ascending size, must go; None when even all but one do not suffice.

    By bisection, then verified: a prefix that does not hold is walked upward until one does, so a model that is
    not monotone in it is still met.
    """

    def met(prefix: int) -> bool:
        kept, counts = np.unique(sizes[prefix:], return_counts=True)
        return model.met_by(kept, counts, facts)

    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle + 1, high)
    return next((prefix for prefix in range(low, len(sizes)) if met(prefix)), None)


@dataclass(frozen=True)
class KeysDropped:
    """Removes the records of some classes, known by a 128-bit null-safe hash of their key."""

    keys: tuple[str, ...]
    hashes: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, keys: tuple[str, ...], classes: Any) -> KeysDropped:
        """From a pyarrow Table of class keys."""
        return cls(keys, _sorted_pairs(_hashes(keys, classes.combine_chunks().to_batches()[0])))

    def __call__(self, rows: RowBlock) -> RowBlock:
        found = np.isin(_as_pairs(_hashes(self.keys, rows.batch)), _as_pairs(self.hashes))
        return rows.take(np.flatnonzero(~found))


def _hashes(keys: tuple[str, ...], batch: Any) -> NDArray[np.int64]:
    from privpipe.kernels.record_ids import content_hash

    return np.asarray(content_hash(batch.select(list(keys)), Seed.of("privpipe/class keys")))


def _sorted_pairs(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    return hashes[np.lexsort((hashes[:, 1], hashes[:, 0]))]


def _as_pairs(hashes: NDArray[np.int64]) -> NDArray[Any]:
    return np.ascontiguousarray(hashes).view("V16").ravel()

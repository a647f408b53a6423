"""Which distinct combinations must go, for the search and the stages alike, and their classes by hashes of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock, SizeModel
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.row_reductions import Blanked
from privpipe.draws import Seed
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.combinations import Classes, Combinations, Counted, Persons
from privpipe.transforms.suppression.judged_sets import EVERY_WAY, JudgedSets, Keys, judged_sets

__all__ = [
    "Classes",
    "Combinations",
    "Failures",
    "KeysDropped",
    "Persons",
    "Ties",
    "failing_rows",
    "require_sample",
    "shortest_prefix",
    "with_marked",
    "with_unknown_marked",
]


Ties = Callable[[Keys, Ints], Sequence[Floats | Ints]]
"""What orders classes of one size over some keys: columns with an entry for each of the combinations at these
places, one per class; the first column decides first."""


@dataclass(frozen=True)
class Failures:
    """What must go.

    Parameters
    ----------
    rows : ndarray of bool, shape (t,)
        Combinations that go.
    hereditary : int
        Records of classes that fail in all their parts too, so at every finer vector of levels; more than there are
        where no suppression helps at any of these.
    met : bool
        Whether the rest meets everything; False: no suppression helps. `rows` are those of failing classes then,
        at least.
    """

    rows: Bools
    hereditary: int
    met: bool


def failing_rows(
    sets: JudgedSets, rows: Combinations, classes: Mapping[Keys, Classes], facts: Facts, ties: Ties
) -> Failures:
    """Suppress in rounds: all classes that fail over any set of keys go at once and the rest is counted again.

    Then each sample-based model, in policy order, has the shortest prefix of classes removed that fulfils it, by
    ascending size; and all of it again until nothing more goes. Classes of a population without a record at the
    start cannot be repaired; those that lose their last record are left out.

    Parameters
    ----------
    classes : mapping of keys to Classes
        Of every set of `sets`.
    """
    found = _failing_rows(sets, rows, classes, facts, ties)
    lost = _unsampled_classes_fail(sets, rows, classes, facts)
    if lost is None:
        return found
    return replace(found, met=False, hereditary=int(rows.counts.sum()) + 1 if lost else found.hereditary)


def require_sample(sets: JudgedSets, rows: Combinations, classes: Mapping[Keys, Classes]) -> None:
    """Refuse a table in which some class has more records than the population has.

    Raises
    ------
    DataError
    """
    for keys in sets.compared:
        population = classes[keys].population
        counted = Counted.of(rows, classes[keys], np.zeros(len(rows.counts), dtype=np.bool_))
        short = np.zeros(0, dtype=np.bool_) if population is None else counted.sizes > population
        if short.any():
            raise DataError(
                f"not a sample of this population: {int(short.sum()):,} of {int((counted.sizes > 0).sum()):,} classes "
                f"hold more records than the population does ({int(counted.sizes[short].sum()):,} records); every "
                "record must be of a person in the population, generalized alike"
            )


def _failing_rows(
    sets: JudgedSets, rows: Combinations, classes: Mapping[Keys, Classes], facts: Facts, ties: Ties
) -> Failures:
    gone = np.zeros(len(rows.counts), dtype=np.bool_)
    hereditary = 0
    first = True
    while True:
        more, inherited = _class_round(sets, rows, classes, facts, gone)
        if first:
            hereditary, first = inherited, False
        changed = bool((more & ~gone).any())
        gone |= more
        if gone.all():
            return Failures(gone, hereditary, met=True)
        if changed and len(sets.keys) > 1:
            continue
        changed = False
        for keys, model in sets.size_models:
            found = _prefix(rows, keys, classes[keys], gone, model, facts, ties)
            if found is None:
                return Failures(gone, hereditary, met=False)
            changed |= bool((found & ~gone).any())
            gone |= found
        if not changed or len(sets.keys) == len(sets.size_models) == 1:
            return Failures(gone, hereditary, met=True)


def shortest_prefix(sizes: Ints, model: SizeModel, facts: Facts) -> int | None:
    """How many of the classes, in ascending size, must go; None when even all but one do not suffice.

    By bisection, then verified: a prefix that does not hold is walked upward until one does, so a model that is
    not monotone in it is still met.

    Examples
    --------
    >>> from privpipe.models import AverageRisk
    >>> shortest_prefix(np.array([1, 4, 1, 6]), AverageRisk(at_most=0.25), Facts())
    2
    """
    distinct, classes = np.unique(sizes, return_counts=True)
    ends = np.cumsum(classes)

    def met(prefix: int) -> bool:
        at = int(np.searchsorted(ends, prefix, side="right"))
        left = classes[at:].copy()
        left[0] = ends[at] - prefix
        return model.met_by(distinct[at:], left, facts)

    if not len(sizes) or met(0):
        return 0  # also where more suppression would not do: a model need not be monotone in it
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle + 1, high)
    return next((prefix for prefix in range(low, len(sizes)) if met(prefix)), None)


def _class_round(
    sets: JudgedSets,
    rows: Combinations,
    classes: Mapping[Keys, Classes],
    facts: Facts,
    gone: Bools,
) -> tuple[Bools, int]:
    """Rows of the classes that fail among those left, and how many records fail hereditarily."""
    failing = np.zeros_like(gone)
    inherited = np.zeros_like(gone)
    for keys, models in sets.class_models.items():
        counted = Counted.of(rows, classes[keys], gone)
        present, block, known = counted.block(models, facts)
        bad, finer = np.zeros((2, classes[keys].count), dtype=np.bool_)
        for model in models:
            fails = ~model.passing(block, known)
            bad[present] |= fails
            if sets.hereditary(model):
                finer[present] |= fails
        alive = counted.left > 0
        failing |= alive & bad[classes[keys].numbers]
        inherited |= alive & finer[classes[keys].numbers]
    return failing, int(rows.counts[inherited].sum())


def _unsampled_classes_fail(
    sets: JudgedSets, rows: Combinations, classes: Mapping[Keys, Classes], facts: Facts
) -> bool | None:
    """Whether classes of the population without a record fail, at every finer vector of levels too; None: none does."""
    lost: bool | None = None
    for keys in sets.compared:
        block = Counted.of(rows, classes[keys], np.zeros(len(rows.counts), dtype=np.bool_)).strangers()
        for model in sets.class_models[keys]:
            # A model whose tally leaves such classes out does not mind them.
            if model.needs_population and model.measure(block, facts).failing_classes:
                lost = bool(lost) or sets.hereditary(model) or sets.convex(model)
    return lost


def _prefix(
    rows: Combinations,
    keys: Keys,
    classes: Classes,
    gone: Bools,
    model: SizeModel,
    facts: Facts,
    ties: Ties,
) -> Bools | None:
    """Rows that go once a sample-based model has had the smallest classes removed; None when that cannot help."""
    counted = Counted.of(rows, classes, gone)
    sizes, left = counted.sizes, counted.left
    present = np.flatnonzero(sizes)
    if not len(present):
        return np.zeros_like(gone)
    prefix = shortest_prefix(sizes[present], model, facts)
    if prefix is None:
        return None
    border = np.sort(sizes[present])[prefix - 1] if prefix else 0
    dropped = (sizes > 0) & (sizes < border)
    tied = np.flatnonzero((sizes == border) & (sizes > 0))
    wanted = prefix - int(dropped.sum())
    if 0 < wanted < len(tied):
        # Any combination represents its class: the order of classes is a function of their keys.
        speaker = np.zeros(classes.count, dtype=np.int64)
        speaker[classes.numbers] = np.arange(len(classes.numbers))
        tied = tied[np.lexsort(tuple(reversed(list(ties(keys, speaker[tied])))))]
    dropped[tied[:wanted]] = True
    return dropped[classes.numbers] & (left > 0)


@dataclass(frozen=True)
class KeysDropped:
    """Removes the records of some classes, known by a 128-bit null-safe hash of their key."""

    keys: tuple[str, ...]
    hashes: Any = field(repr=False)

    @classmethod
    def of(cls, keys: Sequence[str], classes: Any) -> KeysDropped:
        """From a pyarrow Table of at least one class key."""
        return cls(tuple(keys), _hashes(keys, classes.combine_chunks().to_batches()[0]))

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(~self.holds(rows.batch)))

    def holds(self, rows: Any) -> Bools:
        """Which rows of an Arrow batch, or of a table of at least one row, are of these classes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        batch = rows.combine_chunks().to_batches()[0] if isinstance(rows, pa.Table) else rows
        found = pc.is_in(_hashes(self.keys, batch), value_set=self.hashes)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _hashes(keys: Sequence[str], batch: Any) -> Any:
    import pyarrow as pa

    from privpipe.kernels.ids.record_ids import content_hash

    words = np.ascontiguousarray(content_hash(batch.select(list(keys)), Seed.public("privpipe/class keys")))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])


def with_marked(engine: Primitives, table: Any, kept: Any, context: StageContext) -> Any:
    """The table with every record that is not among those kept blanked: nothing of a person is left in it.

    Classes go as a whole, so the combinations of judged quasi-identifiers that are gone determine which records are.
    Text becomes the mark, anything else a missing value, also identifiers to be released as pseudonyms; those that the
    run itself needs and that are not released keep theirs.

    Raises
    ------
    UsageError
        A judged quasi-identifier that is not text: a mark could not be in it.
    """
    keys = judged_sets(context, serves=EVERY_WAY).columns
    if not keys:
        return kept
    every, left = engine.distinct(table, list(keys)), engine.distinct(kept, list(keys))
    gone = every.select(list(keys))
    if every.num_rows == left.num_rows:
        return table
    _require_text(gone.schema, context)
    if left.num_rows:
        stays = KeysDropped.of(keys, left.select(list(keys)))
        gone = gone.filter(~stays.holds(gone))
    blank = Blanked(table.schema, context.mark, context.unreleased)
    return engine.map_rows(table, _Marked((KeysDropped.of(keys, gone),), blank), table.schema)


def with_unknown_marked(
    engine: Primitives, table: Any, before: Any, unknown: tuple[KeysDropped, ...], context: StageContext
) -> Any:
    """A table with the records that left it for a value their hierarchy lacks, blanked as others that are suppressed.

    Parameters
    ----------
    table : Table
        Without them.
    before : Table
        As it was when their values were looked up.
    unknown : tuple of KeysDropped
        Reports them there, column by column.
    """
    blank = Blanked(table.schema, context.mark, context.unreleased)
    return engine.append(table, engine.map_rows(before, _Marked(unknown, blank, alone=True), table.schema))


@dataclass(frozen=True)
class _Marked:
    """Blanks the records of some classes; leaves the others out where only those are requested."""

    keys: tuple[KeysDropped, ...]
    blank: Blanked
    alone: bool = False

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = np.zeros(len(rows), dtype=np.bool_)
        for keys in self.keys:
            found |= keys.holds(rows.batch)
        if self.alone:
            return self.blank(rows.take(np.flatnonzero(found)))
        if not found.any():
            return rows
        blank, chosen = self.blank(rows), pa.array(found)
        columns = [pc.if_else(chosen, blank.column(name), rows.column(name)) for name in rows.schema.names]
        return rows.with_batch(pa.record_batch(columns, names=rows.schema.names))


def _require_text(schema: Any, context: StageContext) -> None:
    import pyarrow as pa

    other = [field.name for field in schema if not pa.types.is_string(field.type)]
    if other:
        raise UsageError(
            f"{context.place}: mark cannot be in {other[0]!r}, which is not text; give it a hierarchy or leave mark out"
        )

"""Check one vector of levels: which records fail, and how many go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, SizeModel
from privpipe.kernels.lattice.cells import cells_of, tallied_cells
from privpipe.kernels.lattice.tuple_classes import class_cells
from privpipe.models import KAnonymity
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.encoded import EncodedTable
from privpipe.transforms.recoding.formed_classes import FormedClasses
from privpipe.transforms.recoding.mandatory import forced_records
from privpipe.transforms.recoding.packed import PackedTable
from privpipe.transforms.recoding.quality import Forced, QualityModel
from privpipe.transforms.suppression.class_failures import EVERY_WAY, Classes, failing_rows, judged_sets

__all__ = ["CheckedNode", "NodeCheck", "Round"]

Keys = tuple[str, ...]
FEW_CELLS = 4
MANY_CELLS = 8
SPARE = 1 << 16
MOST_PARTIAL = 16
"""Classes whose forced suppression sharpens bounds one by one; those that force most, the rest adds little."""


@dataclass(frozen=True)
class Round:
    """The classes over one set of keys before anything is suppressed.

    Parameters
    ----------
    classes : FormedClasses
    forced : ndarray of int64, shape (classes,)
        How many records of each must go at every specialization.
    failing : ndarray of bool, shape (classes,)
    in_part : bool
        Whether some failing class may lose less than all its records at a specialization.
    """

    classes: FormedClasses = field(repr=False)
    forced: NDArray[np.int64] = field(repr=False)
    failing: NDArray[np.bool_] = field(repr=False)
    in_part: bool

    @property
    def numbers(self) -> NDArray[np.int32]:
        """Class of each combination, shape (t,)."""
        return self.classes.numbers

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Records of each class."""
        return self.classes.sizes

    @cached_property
    def must_go(self) -> int:
        """Records that must go at every specialization."""
        return int(self.forced.sum())


@dataclass(frozen=True)
class CheckedNode:
    """A node's outcome.

    Parameters
    ----------
    levels : tuple of int
    suppressed : int
        Records that must go (those with an unknown value included); -1: no amount suffices.
    must_go : int
        Records that must go at every specialization too.
    rounds : mapping of keys to Round
        How the classes of each set of keys fared; empty where records are not what is counted.
    gone : ndarray of bool, shape (t,), optional
        Distinct combinations that are suppressed; default: those of the failing classes of the only round.
    """

    levels: tuple[int, ...]
    suppressed: int
    must_go: int
    rounds: dict[Keys, Round] = field(default_factory=dict, repr=False)
    gone: NDArray[np.bool_] | None = field(default=None, repr=False)

    @property
    def by_class(self) -> bool:
        """Whether `rows` are those of the failing classes of the only round."""
        return self.gone is None

    @cached_property
    def rows(self) -> NDArray[np.bool_]:
        """Distinct combinations that are suppressed, shape (t,)."""
        if self.gone is not None:
            return self.gone
        (one,) = self.rounds.values()
        return one.classes.spread(one.failing)

    def forced(self, columns: Sequence[str] | None = None) -> Forced | None:
        """What the first round says of all specializations; None where it says nothing.

        Parameters
        ----------
        columns : sequence of str, optional
            The generalized columns: where they are all keys of a class, one of its combinations shows all its labels.
        """
        if not self.rounds:
            return None
        keys, strongest = max(self.rounds.items(), key=lambda each: each[1].must_go)
        if not strongest.in_part:
            return Forced(self.levels, self.rows if self.by_class else strongest.classes.spread(strongest.failing))
        whole = strongest.forced == strongest.sizes
        every = self.by_class and np.array_equal(whole, strongest.failing)
        gone = self.rows if every else strongest.classes.spread(whole)
        part = np.flatnonzero((strongest.forced > 0) & ~whole)
        rows = strongest.classes.rows
        part = part[np.lexsort((rows[part], -strongest.forced[part]))[:MOST_PARTIAL]]
        sure = strongest.forced[part].tolist()
        if columns is not None and set(columns) <= set(keys):
            groups = list(rows[part, None].astype(np.int64))
        else:
            groups = [np.flatnonzero(strongest.numbers == number) for number in part]
        return Forced(self.levels, gone, list(zip(groups, sure, strict=True)))


class NodeCheck:
    """Checks nodes of one table under the guarantees of one policy.

    Where each guarantee judges classes by themselves, all over one set of keys, one pass over the packed table and
    the models' own verdicts on the classes that are large enough decide; everything else goes by the rule that the
    stages suppress by.
    """

    def __init__(self, table: EncodedTable, context: StageContext, loss: QualityModel) -> None:
        self.table = table
        self.context = context
        self.loss = loss
        self.sets = judged_sets(context, serves=EVERY_WAY)
        self.packed = PackedTable(table)
        self.counts_records = self.sets.plain
        self.single = self.counts_records and len(self.sets.keys) == 1 and not self.sets.size_models
        self._memory: dict[int, float] = {}
        self._codes = {column: codes.astype(np.int32) for column, codes in table.rows.sensitive.items()}
        self._values = {column: int(codes.max(initial=-1)) + 1 for column, codes in self._codes.items()}

    def __call__(self, levels: tuple[int, ...]) -> CheckedNode:
        """Judge a node: class-based models in rounds over their key sets, then sample-based ones."""
        rounds = self.rounds(levels)
        if self.single:
            (one,) = rounds.values()
            rows, must_go = None, one.must_go
            gone = int(one.sizes[one.failing].sum()) if one.in_part else must_go
            hopeless = bool(one.failing.all())
        else:
            rows, met, must_go = self._by_rule(levels, rounds)
            gone = int(self.table.rows.counts[rows].sum())
            hopeless = not met or bool(rows.all())
        unknown = self.table.unknown
        return CheckedNode(levels, -1 if hopeless else gone + unknown, must_go + unknown, rounds, rows)

    def whole(self, levels: tuple[int, ...]) -> CheckedNode:
        """As a call, where nothing may be suppressed: `suppressed` is -1 as soon as something would have to be.

        How much must go for a rule over all class sizes takes many looks at the sizes; whether anything, one.
        """
        if not self.counts_records or self.single:
            return self(levels)
        rounds = self.rounds(levels)
        rows = np.zeros(len(self.table), dtype=np.bool_)
        failing = any(bool(each.failing.any()) for each in rounds.values())
        met = not failing and not self.table.unknown and all(self._met(*rule, levels) for rule in self.sets.size_models)
        must_go = max([0, *(each.must_go for each in rounds.values())]) + self.table.unknown
        return CheckedNode(levels, 0 if met else -1, must_go, rounds, rows)

    def _met(self, keys: Keys, model: SizeModel, levels: tuple[int, ...]) -> bool:
        distinct, classes = np.unique(self.packed.classes(keys, levels).sizes, return_counts=True)
        return model.met_by(distinct, classes.astype(np.int64), self.context.base)

    def rounds(self, levels: tuple[int, ...]) -> dict[Keys, Round]:
        """The classes over each set of keys that class-based models judge."""
        if not self.counts_records:
            return {}
        return {keys: self._round(keys, models, levels) for keys, models in self.sets.class_models.items()}

    def block(self, classes: FormedClasses, kept: NDArray[np.intp], models: Sequence[ClassModel]) -> ClassBlock:
        """The class table of the classes at `kept`, with the cells these models read."""
        columns = dict.fromkeys(column for model in models for column in model.sensitive_columns())
        return ClassBlock(classes.sizes[kept], {column: self._cells(column, classes, kept) for column in columns})

    def _cells(self, column: str, classes: FormedClasses, kept: NDArray[np.intp]) -> Cells:
        codes, values, counts = self._codes[column], self._values[column], self.table.rows.counts
        if len(classes) * values <= FEW_CELLS * len(self.table) + SPARE:
            return Cells(*tallied_cells(classes.tallies(column, codes, counts, values), kept))
        if len(kept) * values <= MANY_CELLS * len(self.table) + SPARE:
            places = np.full(len(classes), -1, dtype=np.int32)
            places[kept] = np.arange(len(kept), dtype=np.int32)
            return Cells(*cells_of(classes.numbers, places, len(kept), codes, counts, values))
        order, own = self.table.rows.by_code[column], self.table.rows.sensitive[column]
        every = Cells(*class_cells(classes.numbers.astype(np.int64), len(classes), order, own, counts))
        chosen = np.zeros(len(classes), dtype=np.bool_)
        chosen[kept] = True
        return every.take(chosen)

    def kept_classes(self, node: CheckedNode) -> int:
        """Classes that are kept, over the first guarantee's quasi-identifiers, else the generalized columns."""
        return len(self.kept_sizes(node))

    def kept_sizes(self, node: CheckedNode) -> NDArray[np.int64]:
        """Records of each class that is kept, over the keys of `kept_classes`."""
        keys = next(iter(self.sets.keys), self.table.columns)
        numbers = self.packed.classes(keys, node.levels).numbers
        kept = np.where(node.rows, 0, self.table.rows.counts)
        totals = np.bincount(numbers, weights=kept.astype(np.float64)).astype(np.int64)
        return totals[totals > 0]

    def uninformative(self, node: CheckedNode) -> int:
        """Kept records whose every quasi-identifier is at the root of its hierarchy."""
        hierarchies = zip(node.levels, self.table.hierarchies, strict=True)
        if self.table.fixed or any(level < hierarchy.height or not level for level, hierarchy in hierarchies):
            return 0
        return int(self.table.rows.counts[~node.rows].sum())

    def _round(self, keys: Keys, models: Sequence[ClassModel], levels: tuple[int, ...]) -> Round:
        classes = self.packed.classes(keys, levels)
        sizes, in_part = classes.sizes, False
        failing = sizes < max(model.least_size() for model in models)  # too small, hence in all their parts too
        forced = np.where(failing, sizes, 0)
        others = [model for model in models if type(model) is not KAnonymity]
        if others and not failing.all():
            kept = np.flatnonzero(~failing)
            block = self.block(classes, kept, others)
            for model in others:
                fails = ~model.passing(block, self.context.base)
                if not fails.any():
                    continue
                lost = (
                    block.sizes
                    if self.sets.hereditary(model)
                    else forced_records(model, block, self.context.base, self._memory)
                )
                failing[kept[fails]] = True
                forced[kept[fails]] = np.maximum(forced[kept[fails]], lost[fails])
                in_part = in_part or not self.sets.hereditary(model)
        return Round(classes, forced, failing, in_part)

    def _by_rule(self, levels: tuple[int, ...], rounds: dict[Keys, Round]) -> tuple[NDArray[np.bool_], bool, int]:
        """Combinations that go, whether what is left meets everything, and what must go at finer levels too."""
        table = self.table
        formed = {
            keys: rounds[keys].classes if keys in rounds else self.packed.classes(keys, levels)
            for keys in self.sets.keys
        }
        classes = {keys: Classes(each.numbers.astype(np.int64), len(each)) for keys, each in formed.items()}
        for keys in () if self.counts_records else self.sets.keys:
            compared, labels = keys in self.sets.compared, keys in self.sets.labels
            classes[keys] = table.classes(keys, levels, compared=compared, labels=labels)

        def ties(keys: Keys, at: NDArray[np.int64]) -> list[NDArray[np.float64] | NDArray[np.int64]]:
            own: list[NDArray[np.float64] | NDArray[np.int64]] = list(self.loss.own(keys, levels, at).T)
            return [*own, *(table.key_ranks(key, levels, at) for key in keys), at]

        found = failing_rows(self.sets, table.rows, classes, self.context.base, ties)
        return found.rows, found.met, max([found.hereditary, *(each.must_go for each in rounds.values())])

"""The check of one vector of levels: failing records and the records suppressed with them; checks ahead of the search
on other cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, SizeModel
from privpipe.blocks.arrays import Bools, Codes, Floats, Ints
from privpipe.kernels.lattice.node_cells import cells_of, tallied_cells
from privpipe.kernels.lattice.node_classes import class_cells
from privpipe.kernels.quality import Forced, QualityModel
from privpipe.models import KAnonymity
from privpipe.tolerance import slack
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.encoded_table import EncodedTable
from privpipe.transforms.recoding.formed_classes import FormedClasses, PackedTable
from privpipe.transforms.suppression.class_failures import Classes, failing_rows
from privpipe.transforms.suppression.judged_sets import EVERY_WAY, judged_sets

__all__ = ["Ahead", "CheckedNode", "NodeCheck", "Round", "checking_ahead", "forced_records"]


Memory = dict[int, float]
ROUNDING = 1e-6


def forced_records(model: ClassModel, block: ClassBlock, facts: Facts, memory: Memory | None = None) -> Ints:
    """Records of each class that must go at every refinement of it, shape (n_classes,).

    A sound lower bound for classes that fail; 0 where nothing is known. Exact for a class that cannot have a passing
    part at all, because it has too few records or values.

    Parameters
    ----------
    model : ClassModel
    block : ClassBlock
        The classes, with the cells the model reads.
    facts : Facts
        Base distributions.
    memory : dict, optional
        Keeps what is equal for all classes while model and facts do not change.

    Examples
    --------
    >>> from privpipe.models import EntropyLDiversity
    >>> cells = Cells(np.array([0, 2]), np.array([0, 1]), np.array([9, 1]))
    >>> block = ClassBlock(np.array([10]), {"illness": cells})
    >>> forced_records(EntropyLDiversity(column="illness", l=2), block, Facts()).tolist()
    [6]
    """
    forced = np.zeros(len(block), dtype=np.float64)
    if not len(block):
        return forced.astype(np.int64)
    rule = RULES.get(model.name())
    if rule is not None:
        forced = np.maximum(forced, rule(model, block, facts, {} if memory is None else memory))
    whole = np.ceil(np.minimum(forced, block.sizes) - ROUNDING).astype(np.int64)
    hopeless = block.sizes < model.least_size()
    for column in model.sensitive_columns():
        hopeless = hopeless | (np.diff(block.cells[column].offsets) < model.least_values())
    found: Ints = np.where(hopeless, block.sizes, np.maximum(whole, 0))
    return found


def _t_closeness(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    """n (D - t)/(Dmax - t), Dmax the greatest distance of a single value: a convex function is greatest there."""
    farthest = memory[id(model)] if id(model) in memory else memory.setdefault(id(model), _farthest(model, facts))
    t = model.t + float(slack(model.t))
    if farthest <= t:
        return np.zeros(len(block))
    found: Floats = block.sizes * (model.scores(block, facts) - t) / (farthest - t)
    return found


def _farthest(model: Any, facts: Facts) -> float:
    """The distance of the value that is farthest from the base."""
    values = len(facts.histograms[model.column])
    cells = Cells(np.arange(values + 1), np.arange(values), np.ones(values, dtype=np.int64))
    alone = ClassBlock(np.ones(values, dtype=np.int64), {model.column: cells})
    return float(model.scores(alone, facts).max(initial=0.0))


def _entropy_l_diversity(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    """n (1 - H/ln l): entropy is concave, and at least 0."""
    l = model.l - float(slack(model.l))
    if model.estimator != "shannon" or l <= 1:
        return np.zeros(len(block))
    found: Floats = block.sizes * (1.0 - np.log(model.scores(block, facts)) / np.log(l))
    return found


def _recursive_cl_diversity(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    """r_1 - c tail: what survives of the most frequent value is below c times what is outside the first l - 1."""
    from privpipe.kernels.classes.cells import recursive_tail_by_class

    cells = block.cells[model.column]
    most = int(np.diff(cells.offsets).max(initial=0))
    largest, tail = recursive_tail_by_class(cells.offsets, cells.counts, min(model.l, most + 1))
    found: Floats = np.where(tail == 0, block.sizes, largest - model.c * tail)
    return found


def _basic_beta_likeness(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    p = facts.base(model.column)
    return _capped(block, model.column, p * (1.0 + model.beta + float(slack(model.beta))))


def _enhanced_beta_likeness(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    p = facts.base(model.column)
    nats = np.where(p > 0, -np.log(np.where(p > 0, p, 1.0)), 0.0)
    loosened = np.minimum(model.beta + float(slack(model.beta)), nats + slack(nats))
    return _capped(block, model.column, p * (1.0 + loosened))


def _delta_disclosure(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    """Only the upper side: q <= p 2^delta is necessary for a part to pass."""
    p = facts.base(model.column)
    return _capped(block, model.column, p * 2.0 ** (model.delta + float(slack(model.delta))))


def _alpha_k_anonymity(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Floats:
    alpha = model.alpha + float(slack(model.alpha))
    forced = np.zeros(len(block))
    if model.values is None:
        for column in model.sensitive_columns():
            most = 1 + int(block.cells[column].codes.max(initial=0))
            forced = np.maximum(forced, _capped(block, column, np.full(most, alpha)))
    return forced


def _capped(block: ClassBlock, column: str, caps: Floats) -> Floats:
    """max over values of (n_s - U_s n)/(1 - U_s): of a value with share at most U_s in each surviving part."""
    cells = block.cells[column]
    cap = caps[cells.codes] + 1e-12
    size = np.repeat(block.sizes, np.diff(cells.offsets))
    room = np.where(cap < 1, 1.0 - cap, 1.0)
    forced = np.where(cap < 1, (cells.counts - cap * size) / room, 0.0)
    found: Floats = np.maximum.reduceat(forced, cells.offsets[:-1])
    return found


RULES: dict[str, Callable[[Any, ClassBlock, Facts, Memory], Floats]] = {
    "alpha_k_anonymity": _alpha_k_anonymity,
    "basic_beta_likeness": _basic_beta_likeness,
    "delta_disclosure": _delta_disclosure,
    "enhanced_beta_likeness": _enhanced_beta_likeness,
    "entropy_l_diversity": _entropy_l_diversity,
    "recursive_cl_diversity": _recursive_cl_diversity,
    "t_closeness": _t_closeness,
}
"""What a class that fails a model must lose, by the model's name; a hereditary model takes the whole class."""


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
    forced: Ints = field(repr=False)
    failing: Bools = field(repr=False)
    in_part: bool

    @property
    def numbers(self) -> Codes:
        """Class of each combination, shape (t,)."""
        return self.classes.numbers

    @property
    def sizes(self) -> Ints:
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
        The outcome of the classes of each set of keys; empty where records are not counted.
    gone : ndarray of bool, shape (t,), optional
        Distinct combinations that are suppressed; default: those of the failing classes of the only round.
    """

    levels: tuple[int, ...]
    suppressed: int
    must_go: int
    rounds: dict[Keys, Round] = field(default_factory=dict, repr=False)
    gone: Bools | None = field(default=None, repr=False)

    @property
    def by_class(self) -> bool:
        """Whether `rows` are those of the failing classes of the only round."""
        return self.gone is None

    @cached_property
    def rows(self) -> Bools:
        """Distinct combinations that are suppressed, shape (t,)."""
        if self.gone is not None:
            return self.gone
        (one,) = self.rounds.values()
        return one.classes.spread(one.failing)

    def forced(self, columns: Sequence[str] | None = None) -> Forced | None:
        """What the first round states about all specializations; None where it shows nothing.

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

    def kept_sizes(self, node: CheckedNode) -> Ints:
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

    def _by_rule(self, levels: tuple[int, ...], rounds: dict[Keys, Round]) -> tuple[Bools, bool, int]:
        """Combinations to be removed, whether the rest meets everything, and those removed at finer levels too."""
        table = self.table
        formed = {
            keys: rounds[keys].classes if keys in rounds else self.packed.classes(keys, levels)
            for keys in self.sets.keys
        }
        classes = {keys: Classes(each.numbers.astype(np.int64), len(each)) for keys, each in formed.items()}
        for keys in () if self.counts_records else self.sets.keys:
            compared, labels = keys in self.sets.compared, keys in self.sets.labels
            classes[keys] = table.classes(keys, levels, compared=compared, labels=labels)

        def ties(keys: Keys, at: Ints) -> list[Floats | Ints]:
            own: list[Floats | Ints] = list(self.loss.own(keys, levels, at).T)
            return [*own, *(table.key_ranks(key, levels, at) for key in keys), at]

        found = failing_rows(self.sets, table.rows, classes, self.context.base, ties)
        return found.rows, found.met, max([found.hereditary, *(each.must_go for each in rounds.values())])


Levels = tuple[int, ...]
SMALLEST = 200_000
"""Codes looked up by a check; with fewer, handing it over takes as long as doing it."""
EACH = 2
"""Checks under way a worker: more of them are more often in vain."""


class Ahead:
    """Checks that are under way.

    The result of a check does not depend on the others, so a search finds the same with and without them; checks made
    in vain are discarded and not counted.

    Parameters
    ----------
    check : NodeCheck
    workers : int
        Threads in addition to the one that searches; 0: nothing is checked ahead.
    """

    def __init__(self, check: NodeCheck, workers: int) -> None:
        self._check = check
        self._room = EACH * workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="privpipe-search") if workers else None
        self._asked: dict[Levels, Future[CheckedNode]] = {}

    @property
    def is_on(self) -> bool:
        """Whether anything is checked ahead."""
        return self._pool is not None

    def ask(self, likely: Iterable[Levels]) -> None:
        """Begin with some vectors, the likeliest first, as far as there is room."""
        if self._pool is None:
            return
        wanted = list(likely)
        for levels in wanted:
            if levels in self._asked:
                continue
            if len(self._asked) >= self._room and not self._dropped(wanted):
                return
            self._asked[levels] = self._pool.submit(self._check, levels)

    def take(self, levels: Levels, likely: Iterable[Levels] = ()) -> CheckedNode:
        """The check of a vector, made now unless it was requested before, and meanwhile those likely to come next."""
        under_way = self._asked.pop(levels, None)
        self.ask(likely)
        return self._check(levels) if under_way is None or under_way.cancel() else under_way.result()

    def close(self) -> None:
        """Discard the pending checks."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _dropped(self, wanted: Sequence[Levels]) -> bool:
        """Make room by discarding a superfluous check that is done or has not begun."""
        for levels, under_way in self._asked.items():
            if levels not in wanted and (under_way.done() or under_way.cancel()):
                del self._asked[levels]
                return True
        return False


@contextmanager
def checking_ahead(check: NodeCheck) -> Iterator[Ahead]:
    """Checks ahead on all cores but one, where the table is large enough for that to pay."""
    codes = len(check.table) * len(check.packed.codes)
    ahead = Ahead(check, min(3, (os.cpu_count() or 1) - 1) if codes >= SMALLEST else 0)
    try:
        yield ahead
    finally:
        ahead.close()

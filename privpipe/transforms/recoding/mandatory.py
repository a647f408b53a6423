"""How many records of a failing class are suppressed at every finer vector of levels, at the least.

Let R of the n records of a class survive in passing parts. For a rule by a convex figure of the shares the whole's
figure is at most the mean of the parts' and of the removed records', which bounds R; for a bound on the share of
one value, adding up over the surviving parts does. Thresholds are loosened by the tolerance of their comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts
from privpipe.tolerance import slack

__all__ = ["forced_records"]

Figures = NDArray[np.float64]
Memory = dict[int, float]
ROUNDING = 1e-6


def forced_records(
    model: ClassModel, block: ClassBlock, facts: Facts, memory: Memory | None = None
) -> NDArray[np.int64]:
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
        Keeps what is the same for all classes, as long as model and facts are.

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
    found: NDArray[np.int64] = np.where(hopeless, block.sizes, np.maximum(whole, 0))
    return found


def _t_closeness(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    """n (D - t)/(Dmax - t), Dmax the greatest distance of a single value: a convex function is greatest there."""
    farthest = memory[id(model)] if id(model) in memory else memory.setdefault(id(model), _farthest(model, facts))
    t = model.t + float(slack(model.t))
    if farthest <= t:
        return np.zeros(len(block))
    found: Figures = block.sizes * (model.scores(block, facts) - t) / (farthest - t)
    return found


def _farthest(model: Any, facts: Facts) -> float:
    """The distance of the value that is farthest from the base."""
    values = len(facts.histograms[model.column])
    cells = Cells(np.arange(values + 1), np.arange(values), np.ones(values, dtype=np.int64))
    alone = ClassBlock(np.ones(values, dtype=np.int64), {model.column: cells})
    return float(model.scores(alone, facts).max(initial=0.0))


def _entropy_l_diversity(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    """n (1 - H/ln l): entropy is concave, and at least 0."""
    l = model.l - float(slack(model.l))
    if model.estimator != "shannon" or l <= 1:
        return np.zeros(len(block))
    found: Figures = block.sizes * (1.0 - np.log(model.scores(block, facts)) / np.log(l))
    return found


def _recursive_cl_diversity(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    """r_1 - c tail: what survives of the most frequent value is below c times what lies outside the first l - 1."""
    from privpipe.kernels.classes.recursive import recursive_tail_by_class

    cells = block.cells[model.column]
    most = int(np.diff(cells.offsets).max(initial=0))
    largest, tail = recursive_tail_by_class(cells.offsets, cells.counts, min(model.l, most + 1))
    found: Figures = np.where(tail == 0, block.sizes, largest - model.c * tail)
    return found


def _basic_beta_likeness(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    p = facts.base(model.column)
    return _capped(block, model.column, p * (1.0 + model.beta + float(slack(model.beta))))


def _enhanced_beta_likeness(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    p = facts.base(model.column)
    nats = np.where(p > 0, -np.log(np.where(p > 0, p, 1.0)), 0.0)
    loosened = np.minimum(model.beta + float(slack(model.beta)), nats + slack(nats))
    return _capped(block, model.column, p * (1.0 + loosened))


def _delta_disclosure(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    """The upper side alone: q <= p 2^delta is necessary for a part to pass."""
    p = facts.base(model.column)
    return _capped(block, model.column, p * 2.0 ** (model.delta + float(slack(model.delta))))


def _alpha_k_anonymity(model: Any, block: ClassBlock, facts: Facts, memory: Memory) -> Figures:
    alpha = model.alpha + float(slack(model.alpha))
    forced = np.zeros(len(block))
    if model.values is None:
        for column in model.sensitive_columns():
            most = 1 + int(block.cells[column].codes.max(initial=0))
            forced = np.maximum(forced, _capped(block, column, np.full(most, alpha)))
    return forced


def _capped(block: ClassBlock, column: str, caps: Figures) -> Figures:
    """max over values of (n_s - U_s n)/(1 - U_s): of a value with share at most U_s in each surviving part."""
    cells = block.cells[column]
    cap = caps[cells.codes] + 1e-12
    size = np.repeat(block.sizes, np.diff(cells.offsets))
    room = np.where(cap < 1, 1.0 - cap, 1.0)
    forced = np.where(cap < 1, (cells.counts - cap * size) / room, 0.0)
    found: Figures = np.maximum.reduceat(forced, cells.offsets[:-1])
    return found


RULES: dict[str, Callable[[Any, ClassBlock, Facts, Memory], Figures]] = {
    "alpha_k_anonymity": _alpha_k_anonymity,
    "basic_beta_likeness": _basic_beta_likeness,
    "delta_disclosure": _delta_disclosure,
    "enhanced_beta_likeness": _enhanced_beta_likeness,
    "entropy_l_diversity": _entropy_l_diversity,
    "recursive_cl_diversity": _recursive_cl_diversity,
    "t_closeness": _t_closeness,
}
"""What a class that fails a model must lose, by the model's name; a hereditary model takes the whole class."""

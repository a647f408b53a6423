"""What a policy says of when two values agree, and the columns that follow from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FilePair
from privpipe.blocks.require import require_number
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.measures.risk.linkage.linkable_files import coded_texts
from privpipe.tolerance import floor_share

if TYPE_CHECKING:
    from privpipe.kernels.linkage.agreement import Agreement, CodeColumn, NumberColumn

__all__ = ["agreement_of", "checked_rules"]

KINDS = ("absolute", "relative", "rank")
Numbers = NDArray[np.float64]


def checked_rules(owner: str, rules: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """The rules as they are kept: ``equal``, or a kind with a tolerance or a tuple of ascending ones.

    Raises
    ------
    UsageError
        No such rule; tolerances that do not ascend from 0; a rule for a column that is not compared.
    """
    if not isinstance(rules, Mapping):
        raise UsageError(f"{owner}: agreement is a mapping of column to rule, got {type(rules).__name__}")
    return {column: _checked(owner, column, rule, columns) for column, rule in rules.items()}


def _checked(owner: str, column: str, rule: Any, columns: Sequence[str] | None) -> Any:
    place = f"agreement.{column}"
    if columns is not None and column not in columns:
        raise UsageError(f"{owner}: {place}: not among columns{did_you_mean(column, list(columns))}")
    if rule == "equal":
        return rule
    if not isinstance(rule, Mapping) or len(rule) != 1 or next(iter(rule)) not in KINDS:
        raise UsageError(f"{owner}: {place}: must be equal, {{absolute: d}}, {{relative: d}} or {{rank: share}}")
    ((kind, within),) = rule.items()
    steps = tuple(within) if isinstance(within, list | tuple) else (within,)
    for step in steps:
        require_number(owner, f"{place}.{kind}", step, least=0, most=1 if kind == "rank" else math.inf)
    if not steps or any(later <= step for step, later in itertools.pairwise(steps)):
        raise UsageError(f"{owner}: {place}.{kind}: levels of agreement are tolerances in ascending order")
    return {kind: steps if isinstance(within, list | tuple) else within}


def agreement_of(files: FilePair, columns: Sequence[str], rules: Mapping[str, Any]) -> Agreement:
    """The columns of both files as patterns of agreement compare them.

    Raises
    ------
    UsageError
        A column of numbers without a rule: the rule decides the result, and nobody else can know it.
    DataError
        A tolerance for a column that is no number.
    """
    from privpipe.kernels.linkage.agreement import Agreement

    return Agreement([_column(files, name, rules.get(name)) for name in columns])


def _column(files: FilePair, name: str, rule: Any) -> NumberColumn | CodeColumn:
    from privpipe.kernels.linkage.agreement import CodeColumn, NumberColumn

    before, after = files.numbers("original", name), files.numbers("released", name)
    if before is None or after is None:
        if rule not in (None, "equal"):
            raise DataError(f"probabilistic_linkage: column {name!r} is not a number in both tables; let it be equal")
        return CodeColumn(*coded_texts(files, name))
    if rule is None:
        raise UsageError(
            f"probabilistic_linkage: column {name!r} holds numbers, and when two of them agree decides the result; "
            f"write agreement: {{{name}: {{relative: 0.02}}}}, or absolute, rank or equal"
        )
    if rule == "equal":
        _, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
        return CodeColumn(codes[: len(before)].astype(np.int64), codes[len(before) :].astype(np.int64))
    ((kind, within),) = rule.items()
    steps = tuple(float(step) for step in (within if isinstance(within, tuple) else (within,)))
    if kind == "rank":
        known = int((~np.isnan(before)).sum())
        steps = tuple(float(floor_share(step, known)) for step in steps)
        return NumberColumn(_mean_ranks(before), _mean_ranks(after), steps)
    files.finite_numbers(name, "probabilistic_linkage")  # two infinite values are no distance apart, and none within it
    return NumberColumn(before, after, steps, relative=kind == "relative")


def _mean_ranks(values: Numbers) -> Numbers:
    """Rank of each value, that of equal ones the mean of theirs; NaN stays."""
    known = ~np.isnan(values)
    _, places, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = np.full(len(values), np.nan)
    ranks[known] = (last - (counts - 1) / 2.0)[places]
    return ranks

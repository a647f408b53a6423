"""Combinations that synthetic records do not have: by rules of the policy, or because no record has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError, UsageError

if TYPE_CHECKING:
    from privpipe.transforms.synthesis.codebooks import Codebook

__all__ = ["SynthesisRule", "allowed_codes", "found_zeros", "rule_codes"]

Ints = NDArray[np.int64]
EXPECTED = 10
"""Records that chance would give a combination which nobody has, for it to count as impossible."""


@dataclass(frozen=True, kw_only=True)
class SynthesisRule:
    """Records with one of these values in each column of `when` have one of these in each column of `then`.

    Parameters
    ----------
    when, then : mapping of column to tuple of str or None
        Values as text; None is a missing one. Numbers only if enough records hold them.
    """

    when: dict[str, tuple[str | None, ...]]
    then: dict[str, tuple[str | None, ...]]

    def __post_init__(self) -> None:
        for side in ("when", "then"):
            given = getattr(self, side)
            if not given or not all(given.values()):
                raise UsageError(f"Synthesize: rules: `{side}` must name a column with its values")
            object.__setattr__(self, side, {name: tuple(values) for name, values in given.items()})
        both = sorted(set(self.when) & set(self.then))
        if both:
            raise UsageError(f"Synthesize: rules: {', '.join(map(repr, both))} stands in both `when` and `then`")


def rule_codes(rule: SynthesisRule, books: Mapping[str, Codebook], place: str) -> dict[str, Any]:
    """The rule over codes.

    Raises
    ------
    DataError
        Of the values of a column in `then` none is ever released.
    """
    found: dict[str, Any] = {}
    for side, given in (("when", rule.when), ("then", rule.then)):
        coded = {name: [books[name].code(value) for value in values] for name, values in given.items()}
        found[side] = {name: sorted(code for code in codes if code is not None) for name, codes in coded.items()}
    for name, codes in found["then"].items():
        if not codes:
            raise DataError(
                f"{place}: rules: none of the {len(rule.then[name])} values that `then` gives for {name!r} is held by "
                "enough records to be released"
            )
    return found


def found_zeros(columns: Mapping[str, Ints], target: str, sizes: Mapping[str, int]) -> dict[str, list[list[int]]]:
    """By predictor, pairs (its code, the target's) that no record has and chance would give at least ten.

    Examples
    --------
    >>> sex, ill = np.repeat([1, 2], 100), np.repeat([1, 2, 1], [50, 50, 100])
    >>> found_zeros({"sex": sex, "ill": ill}, "ill", {"sex": 3, "ill": 3})
    {'sex': [[2, 2]]}
    """
    n = len(columns[target])
    if not n:
        return {}
    found = {}
    theirs = np.bincount(columns[target], minlength=sizes[target])
    for name, codes in columns.items():
        if name == target:
            continue
        codes = np.maximum(codes, 0)
        counts = np.bincount(codes * sizes[target] + columns[target], minlength=sizes[name] * sizes[target])
        ours = np.bincount(codes, minlength=sizes[name])
        empty = (counts.reshape(sizes[name], sizes[target]) == 0) & (np.outer(ours, theirs) >= EXPECTED * n)
        pairs = np.argwhere(empty).tolist()
        if pairs:
            found[name] = pairs
    return found


def allowed_codes(
    name: str, size: int, drawn: Mapping[str, Ints], model: Mapping[str, Any], n: int
) -> NDArray[np.bool_] | None:
    """Which codes of a column each record may have, shape (n, size); None: all. Rules go before what was found."""
    rules, zeros = [rule for rule in model["rules"] if name in rule["then"]], model["zeros"].get(name, {})
    if not rules and not zeros:
        return None
    ruled = np.ones((n, size), np.bool_)
    for rule in rules:
        here = np.ones(n, np.bool_)
        for column, codes in rule["when"].items():
            here &= np.isin(drawn[column], codes)
        within = np.zeros(size, np.bool_)
        within[rule["then"][name]] = True
        ruled[here] &= within
    found = ruled.copy()
    for column, pairs in zeros.items():
        first, second = np.array(pairs, np.int64).T
        table = np.ones((int(max(first.max(), drawn[column].max(initial=0))) + 1, size), np.bool_)
        table[first, second] = False
        found &= table[np.maximum(drawn[column], 0)]
    none_left = ~found.any(axis=1)
    found[none_left] = ruled[none_left]
    return found

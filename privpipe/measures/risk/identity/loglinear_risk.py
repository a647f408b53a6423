"""Risk of sample uniques by a log-linear model of the cells' population counts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import Facts, Guarantee, Tally, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LargestShare, OptionalNumber, PositiveNumber, Stricter, Weight
from privpipe.blocks.way import DISTINCT
from privpipe.errors import UsageError

__all__ = ["LoglinearRisk", "terms_of", "variables_of"]


TOKEN = re.compile(r"\s*(`[^`]*`|[^\s+*:~`][^+*:~`]*|[+*:~])")


def terms_of(formula: str) -> tuple[tuple[str, ...], ...]:
    """Columns of each term.

    Terms are separated by ``+``; ``a*b`` and ``a:b`` both fit the joint counts of a and b, and hence the counts of
    either column. A name that contains an operator is written in backquotes; a leading ``~`` is allowed.

    Raises
    ------
    UsageError
        A term without a name, or a sign where none can be.

    Examples
    --------
    >>> terms_of("~ sex + age*zip + `a+b`")
    (('sex',), ('age', 'zip'), ('a+b',))
    """
    text = formula.strip().removeprefix("~")
    terms: list[list[str]] = [[]]
    at, wanted = 0, True
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            raise UsageError("formula: a backquote is not closed")
        token, at = found.group(1).strip(), found.end()
        if (token in "+*:~") == wanted or token == "~":
            raise UsageError(
                f"formula: {'a column name' if wanted else 'one of + * :'} is expected instead of {token!r}; "
                "terms are parted by +, columns of a term by *"
            )
        if token == "+":
            terms.append([])
        elif token not in "*:":
            terms[-1].append(token.strip("`"))
        wanted = not wanted
    if wanted or any(not name for term in terms for name in term):
        raise UsageError("formula: a column name is missing; write for example a + b + a*c")
    return tuple(tuple(dict.fromkeys(term)) for term in terms)


def variables_of(formula: str) -> tuple[str, ...]:
    """Columns of a formula, each once.

    Examples
    --------
    >>> variables_of("a + b + a*c")
    ('a', 'b', 'c')
    """
    return tuple(dict.fromkeys(name for term in terms_of(formula) for name in term))


Figure = Literal["tau1", "tau2"]
Method = Literal["default", "ce", "pml"]
EMPTY = 0.1
"""What Clogg and Eliason's variant adds to the sampled share of each cell, so that empty ones have an offset."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LoglinearRisk(Guarantee):
    """Share of the sample uniques that are unique in the population, or matched correctly, by a log-linear model.

    Parameters
    ----------
    weight : str
        Column of sampling weights; 1 / weight is the chance that a person is in the sample.
    formula : str
        Terms of the model, like ``a + b + a*c``: the columns form the cells, and the counts of each term's columns are
        kept unchanged.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"tau1", "tau2"}
        Expected population uniques among the sample uniques, or expected correct matches (1/F) of these.
    method : {"default", "ce", "pml"}
        default: counts of the sample; ce (Clogg, Eliason): with the logarithm of each cell's count over its sum of
        weights, plus 0.1, as an offset; pml (pseudo maximum likelihood): sums of weights instead of counts, scaled to
        the sample and rounded. Both express what records of unequal weights reveal about the population.
    bound : int, optional
        Most records of a cell that counts in `per_cell`.
    max_cells : int
        Largest grid to fit by iteration, as ce always does; else terms that make a product of margins need none.
    if_no_uniques : {"error", "pass"}
        The outcome where no record is alone in its cell, and the share undefined.
    quasi_identifiers : tuple of str, optional
        Those of the formula.

    Notes
    -----
    With pi the chance of a sample unique to be sampled (at most 1), lambda the fitted mean of its cell and v = max((1 -
    pi) lambda, 0): tau1 = sum exp(-v), tau2 = sum (1 - exp(-v)) / v. `share` is tau over the sample uniques, `per_cell`
    tau over the cells with a record. A missing value is a level.

    Examples
    --------
    >>> from privpipe.blocks import DistinctBlock
    >>> codes, weights = np.array([[0, 0], [0, 1], [1, 0]]), np.array([2.0, 4.0, 4.0])
    >>> block = DistinctBlock(("a", "b"), codes, np.array([2, 1, 1]), weights=weights)
    >>> measure = LoglinearRisk(weight="w", formula="a + b", at_most=0.2)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> verdict.outcome, round(verdict.observed["share"], 4)
    ('fail', 0.5698)
    """

    way = DISTINCT
    threshold_field = "at_most"
    trusts_values = True
    observes = dict[str, Any]
    source = (
        "Skinner, Shlomo, JASA 103, 2008; Elamir, Skinner, J. Official Statistics 22, 2006; Clogg, Eliason, "
        "Sociological Methods & Research 16, 1987 (ce)"
    )
    threat = "An intruder matches a record that is alone in its cell with the only such person there is."
    choose = (
        "0.1 or less. Start with main effects; add the pairs of columns that go together (age*marital): a model that "
        "fits too little overstates lambda of rare cells and so hides risk."
    )

    weight: Annotated[
        str, Weight(), Stricter("equal"), Doc("column of sampling weights: how many people a record represents")
    ]
    formula: Annotated[  # type: ignore[misc]
        str, Stricter("equal"), Doc("terms of the model, like a + b + a*c; its columns form the cells")
    ] = field()
    at_most: Annotated[LargestShare, Doc("largest share of the sample uniques")] = None
    figure: Annotated[Figure, Stricter("equal"), Doc("tau1 (unique in the population) or tau2 (matched rightly)")] = (
        "tau1"
    )
    method: Annotated[
        Method, Stricter("equal"), Doc("default (counts), ce (offset by sampled shares) or pml (weighted counts)")
    ] = "default"
    bound: Annotated[OptionalNumber, Doc("most records of a cell that counts in the reported `per_cell`")] = None
    max_cells: Annotated[PositiveNumber, Doc("largest grid to fit by iteration")] = 5_000_000
    if_no_uniques: Annotated[
        Literal["error", "pass"],
        Stricter("equal"),
        Doc("the outcome where no record is alone in its cell: error or pass"),
    ] = "error"

    quasi_identifiers: Annotated[KeyColumns, Doc("the columns of the formula; leave it out")] = None

    def __post_init__(self) -> None:
        owner = "LoglinearRisk"
        if not isinstance(self.formula, str):
            raise UsageError(f"{owner}: formula must be a text like 'a + b + a*c'")
        own = variables_of(self.formula)
        if self.quasi_identifiers is not None and set(self.quasi_identifiers) != set(own):
            raise UsageError(f"{owner}: quasi_identifiers and formula name different columns; give only the formula")
        if self.weight in own:
            raise UsageError(f"{owner}: {self.weight!r} cannot be weight and in the formula at once")
        object.__setattr__(self, "quasi_identifiers", own)
        super().__post_init__()

    def own_columns(self) -> tuple[str, ...]:
        """Columns that form the cells, of any role."""
        return variables_of(self.formula)

    def measure(self, block: Any, facts: Facts) -> Tally:
        """The figures of a `DistinctBlock` with weights."""
        from privpipe.kernels.uniqueness.frequency_models import NotSettled, TooManyCells

        codes, places = np.unique(block.codes, axis=0, return_inverse=True)
        counts = np.zeros(len(codes), np.int64)
        np.add.at(counts, places.ravel(), block.counts)
        if not len(codes):
            return Tally()
        # Levels in use, numbered from 0.
        levels = np.column_stack([np.unique(column, return_inverse=True)[1].ravel() for column in codes.T])
        terms = [tuple(variables_of(self.formula).index(name) for name in term) for term in terms_of(self.formula)]
        weights = np.zeros(len(codes))
        np.add.at(weights, places.ravel(), block.weights * block.counts)  # of a sample unique: its record's own
        try:
            means = self._means(levels, counts, weights, terms)
        except TooManyCells as error:
            return Tally(records=block.records, sums={"refused": self._too_many(error.cells)})
        except NotSettled:
            return Tally(
                records=block.records, sums={"refused": "iterative fitting did not settle; simplify `formula`"}
            )
        alone = counts == 1
        chance = np.minimum(1.0 / weights[alone], 1.0)
        unique, matched = taus(means[alone], chance)
        cells = int((counts <= self.bound).sum()) if self.bound is not None else len(codes)
        return Tally(
            observed={"tau1": unique, "tau2": matched, "sample_uniques": int(alone.sum()), "cells": cells},
            records=block.records,
        )

    def _means(
        self,
        levels: Ints,
        counts: Ints,
        weights: Floats,
        terms: list[tuple[int, ...]],
    ) -> Floats:
        """Fitted means of the cells, by the variant."""
        from privpipe.kernels.uniqueness.frequency_models import NotSettled, fitted_means, fitted_with_offset

        if self.method == "ce":
            return fitted_with_offset(levels, counts, terms, self.max_cells, (counts / weights + EMPTY, EMPTY))
        if self.method == "pml":
            counts = np.rint(weights * (counts.sum() / weights.sum())).astype(np.int64)
            if not counts.any():
                raise NotSettled("every weighted count rounds to 0")
        return fitted_means(levels, counts, terms, self.max_cells)

    def _too_many(self, cells: int) -> str:
        return (
            f"the terms make no product of margins, and their grid has {cells:,} cells, more than max_cells = "
            f"{self.max_cells:,}; use fewer or coarser columns in `formula`, or raise max_cells"
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        if "refused" in observed.sums or not observed.records:
            return self.not_judged(observed.sums.get("refused", "no record to judge"))
        figures = dict(observed.observed)
        tau, uniques, cells = figures[self.figure], figures["sample_uniques"], figures["cells"]
        figures = {"share": tau / uniques if uniques else None, "per_cell": tau / cells if cells else None, **figures}
        if not uniques:
            reason = "no record is alone in its cell: the share is undefined."
            return Verdict(self, figures, self.if_no_uniques, self.demanded(), reason=reason)
        share = tau / uniques
        what = {"tau1": "unique in the population", "tau2": "matched rightly"}[self.figure]
        return self.judged(
            share,
            figures,
            reason=(
                f"estimated share of sample uniques {what} {short(share)}{self.asked}; {tau:,.6g} of {uniques:,} among "
                f"{observed.records:,} records."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(weight="weight", formula="age + zip"),
            cls(weight="weight", formula="age*zip", at_most=0.3, figure="tau2"),
            cls(weight="weight", formula="age + zip", at_most=0.5, bound=5, if_no_uniques="pass"),
            cls(weight="weight", formula="age + zip", at_most=0.5, method="pml"),
        ]


# Read of the class, by `explain`; an entry's own is its model.
LoglinearRisk.formula = "sum over sample uniques of exp(-(1 - pi) lambda), over their number"


def taus(means: Floats, chances: Floats) -> tuple[float, float]:
    """Expected population uniques, and expected right matches, among sample uniques.

    Parameters
    ----------
    means : ndarray of float64, shape (u,)
        lambda of their cells.
    chances : ndarray of float64, shape (u,)
        pi, in [0, 1].

    Examples
    --------
    >>> [round(tau, 4) for tau in taus(np.array([2.0, 5.0]), np.array([0.5, 1.0]))]
    [1.3679, 1.6321]
    """
    rest = np.maximum((1.0 - chances) * means, 0.0)
    matched = np.ones_like(rest)
    np.divide(-np.expm1(-rest), rest, out=matched, where=rest > 0)
    return math.fsum(np.exp(-rest)), math.fsum(matched)

"""Full-domain generalization, with the search that plans it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpipe.blocks import Primitives
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.recoding.planner import plan
from privpipe.transforms.recoding.population_recoding import generalize_population
from privpipe.transforms.recoding.stage import GeneralizeStage

__all__ = ["Generalize"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Generalize(GeneralizeStage):
    """Replace each column's values by their labels at one level of its hierarchy, the best vector of levels.

    With `search`, the vector of least loss under which suppressing all failing classes stays within the
    budget, proved optimal. With `levels`, that vector; records are then suppressed only when
    `suppress_at_most` is given, those of values that a hierarchy lacks (`unknown: suppress`) among them.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy.
    search : {"optimal", "minimal", "datafly", "bottom_up", "top_down", "genetic"}, optional
        Optimal when no `levels` are given. Minimal: valid vectors with no valid one below (k-minimal). The others
        are heuristics, for teaching and for comparison; their plans claim no optimum.
    levels : mapping of column to int, optional
        0 keeps the raw value.
    loss : LossSpec
    suppress_at_most : float, optional
        Share of the stage's input, in [0, 1]; a search's default is 0.
    criteria : tuple of str, optional
        Of `search: minimal`: criteria of preference among minimal vectors, the first decides.
    minimal : {"one", "all"}
        Of `search: minimal`: whether the plan lists them all; the preferred one is applied.
    mark : bool
        Whether a suppressed record stays as a row of the policy's mark: its quasi-identifiers become text, other
        text columns carry the mark too, and the rest of its cells are missing. So does a record whose value a
        hierarchy lacks (`unknown: suppress`). No later stage sees such rows.
    roots_only : bool
        Whether each column is either raw or at its root.
    approach : str, optional
        A cell of the matrix of approaches that this stage serves, as a short form: AG_TS (the default), AG_ and
        AG_AS (nothing is suppressed), AG_CS (cells are blanked in place of records), _AS (columns stay or go),
        _TS (values stay raw and failing classes go).
    budget : SearchBudget

    Notes
    -----
    Source: Samarati, IEEE TKDE 13(6), 2001; Iyengar, KDD 2002 (loss); Bayardo, Agrawal, ICDE 2005.

    Examples
    --------
    >>> Generalize(levels={"age": 2}).is_search, Generalize(suppress_at_most=0.05).is_search
    (False, True)
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)

    def not_followed(self) -> str:
        return ""

    def population_after(
        self, engine: Primitives, table: Any, population: Any, plan: StagePlan, context: StageContext
    ) -> Any:
        return generalize_population(engine, table, population, self, plan, context)

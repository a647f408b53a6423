"""Local suppression, with the search that plans it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpipe.blocks import Primitives
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_suppression.planner import plan
from privpipe.transforms.local_suppression.stage import SuppressCellsStage

__all__ = ["SuppressCells"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressCells(SuppressCellsStage):
    """Blank single cells until every record matches at least k records, itself included.

    A blank is a missing value. Under the policy's `nulls: wildcard` it matches anything, on either side; otherwise
    it is a value of its own, and the records of each class agree in their blanks too, which is stricter: what holds
    so holds under wildcards as well. The plan says how many records fail under each reading.

    Parameters
    ----------
    columns : tuple of str, optional
        Columns whose cells may be blanked, at most 20; default: all quasi-identifiers. Others stay and must match.
    k : int, optional
        Default: the largest least class size among the guarantees; a `k` given here may only be stricter.
    method : {"greedy", "optimal"}
        optimal starts from greedy and solves small problems exactly; the plan says `optimal: true` only where the
        bound closed. It minimises what is asked: under wildcards a few records that show one column match many, as
        far as `alone_at_most` allows; greedy blanks no combination beyond what it needs by itself.
    weights : mapping of column to float
        Cost of a blank, above 0; 1 where a column is not named.
    order : tuple of str, optional
        Instead of weights: all columns, first the one to be kept longest.
    by : tuple of str
        Strata: columns whose values part the table; each stratum meets k by itself.
    combinations : tuple of Combination
        Subsets of the columns with a `k` of their own: all of a size, or one that is named. Then `k` over all columns
        is asked for only where it is given, or a guarantee asks for it.
    by_risk : ByRisk, optional
        Records whose individual risk (of `individual_risk`; one over the records alike without a weight) exceeds a
        threshold have some columns blanked, before anything else. A missing value is a value of its own there.
    alone_at_most : float
        Under `nulls: wildcard`, largest share of the records that may stay complete and equal no other complete
        record, hidden by the blanks of others alone; in [0, 1]. A guarantee that asks for less decides. 1 sets no
        limit.
    along : mapping of column to tuple of str
        Columns outside the keys that are blanked wherever the stage blanks a cell; in a policy also `with`.
    suppress_at_most : float
        Share of the records that may be suppressed where no blanks help; own_value only.
    budget : CellBudget

    Notes
    -----
    A text that the policy's `wildcard:` names is a value to this stage, so that it may blank more than it must.
    The stage does not aim at guarantees on sensitive values: the release is judged by them afterwards. Blanks show
    that a record was rare (minimality).

    Source: Templ, Kowarik, Meindl, J. Statistical Software 67(4), 2015; Meyerson, Williams, PODS 2004 (NP-hardness).

    Examples
    --------
    >>> SuppressCells(k=3, weights={"age": 2.0}, method="optimal")
    SuppressCells(k=3, method='optimal', weights={'age': 2.0})
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)

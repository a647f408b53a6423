"""Microaggregation: groups of near records, their refinement, and the neighbours they are made of.

Start with `blocks`, which groups many records, block by block (`kd_tree` cuts them), by `mdav` (MDAV and V-MDAV);
`univariate` groups one column or a path through several, and `gower` mixed types. `refine` makes groups tighter by
`descent`, `neighbourhood_search` and `neighbourhood_descent`. `nearest` and `neighbours` find near records for all of
them; `groups` has the conditions on a group in addition to its size. `lower_bound` proves how good groups could be,
from `group_pool`. `fuzzy_membership` draws one of the groups around a record.
"""

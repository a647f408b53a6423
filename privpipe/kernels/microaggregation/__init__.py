"""Microaggregation: groups of near records, their refinement, and the neighbours they are made of.

Where to begin: `blocks` groups many records, block by block (`kd_tree` cuts them), by `mdav` or `v_mdav`; `univariate`
groups one column and `gower` mixed types. `refine` makes groups tighter by `path_groups`, `descent` and
`neighbourhood_search`. `nearest` and `neighbours` find near records for all of them; `group_condition` is what a group
must meet besides its size. `fuzzy_membership` draws one of the groups around a record.
"""

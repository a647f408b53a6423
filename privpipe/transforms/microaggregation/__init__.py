"""Microaggregation: the stages, and what they learn and apply on an engine.

Where to begin: `microaggregate` is the stage; `parameters` has its parameters and what a group releases. It learns a
`group_plan` for each list of columns (`group_learning`: strata, scales, trees of blocks) and applies it block by block
(`record_groups`), where `privpipe.kernels.microaggregation` groups the records.
"""

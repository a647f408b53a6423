"""The officer's report: one page of a run, by which a release is approved and defended later."""

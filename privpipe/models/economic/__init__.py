"""Economic models: whether an attack pays, and whether a release does."""

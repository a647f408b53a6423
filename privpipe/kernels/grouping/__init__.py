"""Which rows are equal, and in which order: hashing and sorting side by side."""

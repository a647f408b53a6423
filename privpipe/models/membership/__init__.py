"""Models against membership disclosure."""

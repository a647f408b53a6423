"""Models against attribute disclosure."""

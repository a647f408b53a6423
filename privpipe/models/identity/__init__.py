"""Models against identity disclosure."""

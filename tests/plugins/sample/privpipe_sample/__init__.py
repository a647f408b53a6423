"""A sample of what a distribution can add to privpipe."""

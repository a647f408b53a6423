"""Rank swapping: which rank gives its value to which."""

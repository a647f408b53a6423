"""Noise on numbers and categories, and what averaging it away leaves."""

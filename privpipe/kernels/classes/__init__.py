"""Equivalence classes: the class table, and the figures of each class."""

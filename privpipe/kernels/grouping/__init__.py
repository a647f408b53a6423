"""Equality and order of rows: hashing and sorting."""

"""Ids of records and persons, and draws bound to values: keyed hashes that are the same on every engine."""

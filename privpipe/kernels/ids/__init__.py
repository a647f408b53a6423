"""Ids of records and persons, and draws bound to values: keyed hashes, the same on every engine."""

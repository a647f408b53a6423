"""Attacks that tell whether a record was in the source."""

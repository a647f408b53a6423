"""Attribute disclosure: what a release reveals about a value even if the record is not found."""

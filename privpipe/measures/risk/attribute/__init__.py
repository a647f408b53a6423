"""Attribute disclosure: what a release shows of a value although the record is not found."""

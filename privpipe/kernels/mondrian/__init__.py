"""Mondrian: where a segment may be cut, and the tree of all cuts."""

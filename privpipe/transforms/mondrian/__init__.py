"""Mondrian: the stage and the growing of its tree."""

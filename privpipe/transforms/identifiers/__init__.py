"""Identifiers: removed, or replaced by keyed pseudonyms."""

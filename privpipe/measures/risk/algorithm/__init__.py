"""Attacks that use knowledge of the anonymisation algorithm, such as when it stops."""

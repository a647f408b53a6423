"""Membership disclosure: attacks that infer whether a record was in the source."""

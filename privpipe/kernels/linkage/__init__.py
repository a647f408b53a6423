"""Attacks that compare records: linkage by distance or agreement, intervals, membership."""

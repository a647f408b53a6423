"""Sums that do not depend on the order of the additions."""

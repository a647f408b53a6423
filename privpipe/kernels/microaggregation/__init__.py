"""Microaggregation: groups of near records, their refinement, and the neighbours they are made of."""

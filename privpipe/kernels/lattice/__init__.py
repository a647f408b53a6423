"""Vectors of levels: the classes, costs and witnesses of a node of the generalization lattice."""

"""Marginals, ranks and correlations of a Gaussian copula."""

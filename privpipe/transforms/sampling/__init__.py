"""Sampling, by itself and as a part of differential privacy."""

"""Noise on numbers, and post-randomisation of categories."""

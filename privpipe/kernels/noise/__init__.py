"""Noise on numbers and categories, and the noise that remains after averaging."""

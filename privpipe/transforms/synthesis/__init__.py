"""Shuffling and synthetic records."""

"""Measures of what an attacker can learn."""

"""Attacks on what an algorithm that knows when to stop gives away."""

"""Exact arithmetic behind what is proved of a process."""

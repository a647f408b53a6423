"""Rank swapping: the stage, and its ways over tables that do not fit in memory."""

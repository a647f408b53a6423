"""Exact arithmetic for proofs about a process."""

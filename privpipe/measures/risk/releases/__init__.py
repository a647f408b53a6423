"""Attacks on several releases together."""

"""Microaggregation: the stages, and what they learn and apply on an engine."""

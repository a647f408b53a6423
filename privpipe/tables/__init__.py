"""Aggregated tables: cells that may leave, and the audit that shows that no suppressed cell can be worked out."""

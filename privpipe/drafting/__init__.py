"""Drafts of a policy for a table: roles, hierarchies, thresholds and a method, each with its reason."""

from __future__ import annotations

__all__: list[str] = []

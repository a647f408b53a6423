"""Entries as checks of data frames."""

from __future__ import annotations

__all__: list[str] = []

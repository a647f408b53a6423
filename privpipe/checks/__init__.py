"""Entries as checks of data frames: one count for all of them, and no document."""

from __future__ import annotations

from privpipe.checks.frame_checks import assess, check, checked, judged_alone

__all__ = ["assess", "check", "checked", "judged_alone"]

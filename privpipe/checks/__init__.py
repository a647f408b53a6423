"""Entries as checks of data frames: one count for all of them, and no document."""

from __future__ import annotations

from privpipe.checks.frame_checks import Check, assess, check, checked, judge_frame, judged_alone

__all__ = ["Check", "assess", "check", "checked", "judge_frame", "judged_alone"]

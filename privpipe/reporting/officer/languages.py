"""Languages of the report and the version of its document."""

from __future__ import annotations

from typing import Literal

__all__ = ["LANGUAGES", "REPORT_VERSION", "Language"]

Language = Literal["en", "de", "fr", "es"]
LANGUAGES: tuple[Language, ...] = ("en", "de", "fr", "es")
REPORT_VERSION = 1
"""Of `report.json` in a private record, and of `ReportData`."""

"""Languages of the report and the version of its document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from privpipe.errors import UsageError

__all__ = ["LANGUAGES", "REPORT_VERSION", "Language", "language_of"]

Language = Literal["en", "de", "fr", "es"]
LANGUAGES: tuple[Language, ...] = ("en", "de", "fr", "es")
REPORT_VERSION = 1
"""Of `report.json` in a private record, and of `ReportData`."""


def language_of(asked: str | None, policy: Mapping[str, Any]) -> Language:
    """The language that is asked for, else the one that a policy's document names for its reports, else English.

    Raises
    ------
    UsageError
        Another language is asked for.

    Examples
    --------
    >>> language_of(None, {"report": {"lang": "de"}}), language_of("fr", {})
    ('de', 'fr')
    """
    if asked is not None and asked not in LANGUAGES:
        raise UsageError(f"lang must be one of {', '.join(get_args(Language))}, not {asked!r}")
    report = policy.get("report")
    named = report.get("lang") if isinstance(report, Mapping) else None
    return next((lang for lang in LANGUAGES if lang == (asked or named)), "en")

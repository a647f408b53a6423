"""A finished run in the formats of other tools: JUnit XML, GitHub-flavoured Markdown, Prometheus text, OpenLineage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from privpipe.errors import UsageError, did_you_mean
from privpipe.reporting.export_formats import junit, markdown, openlineage, prometheus
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["FORMATS", "exported"]

FORMATS: Mapping[str, Callable[[RunDocuments], str]] = {
    "junit": junit,
    "markdown": markdown,
    "openlineage": openlineage,
    "prometheus": prometheus,
}


def exported(run: str, format: str) -> str:
    """The text of a run in one of `FORMATS`.

    Parameters
    ----------
    run : str
        A released folder, the folder of a private record, or a verdict file.

    Raises
    ------
    UsageError
        No such format, or no finished run.
    """
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise UsageError(f"--format must be one of {known}, not {format!r}{did_you_mean(format, FORMATS)}")
    return FORMATS[format](RunDocuments.read(run))

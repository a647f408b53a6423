"""`report`: a report of a finished run as text; ``privpipe report`` is the same."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, Literal

from privpipe.errors import SinkError, UsageError
from privpipe.reporting.release_report import ReportFormat, release_report
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["report"]


def report(
    run: Any, out: str | os.PathLike[str] | None = None, *, format: Literal["markdown", "html"] | None = None
) -> str:
    """A report of a finished run, from its documents alone, never from the data.

    Parameters
    ----------
    run : path or ReleaseResult
        A released folder, the folder of a private record, or a verdict file. A result stands for its released folder.
    out : path, optional
        Write the report here too.
    format : {"markdown", "html"}, optional
        Default: by the name of `out`, else markdown.

    Returns
    -------
    str
        What rests on fewer than 5 records is shown as such.

    Raises
    ------
    UsageError
        Nothing of the kind is there, or another format.
    SinkError
        `out` cannot be written.

    Examples
    --------
    >>> report("nowhere")
    Traceback (most recent call last):
    privpipe.errors.UsageError: 'nowhere' is no finished run: ...
    """
    form = _form(format, out)
    path = run if isinstance(run, str | os.PathLike) else getattr(run, "path", None)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(
            f"report: give the path of a finished run, or the result of a release, no {type(run).__name__}"
        )
    text = release_report(RunDocuments.read(os.fspath(path)), form)
    if out is not None:
        try:
            with open(out, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise SinkError(f"cannot write {os.fspath(out)!r}: {error.strerror}") from None
    return text


def _form(format: str | None, out: str | os.PathLike[str] | None) -> ReportFormat:
    if format not in (None, "markdown", "html"):
        raise UsageError(f"format must be markdown or html, not {format!r}")
    by_name = out is not None and PurePath(out).suffix.lower() in (".html", ".htm")
    return "html" if format == "html" or (format is None and by_name) else "markdown"

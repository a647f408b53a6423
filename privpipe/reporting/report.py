"""`report`: the report of a finished run, as text or as a page; ``privpipe report`` is the same."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from privpipe.border import bordered
from privpipe.errors import SinkError, UsageError
from privpipe.reporting.document_shapes import TRIED, misshapen
from privpipe.reporting.officer.languages import Language, language_of
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.printing import write_pdf
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.release_report import ReportFormat, release_report
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["report"]


@bordered
def report(
    run: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    format: Literal["markdown", "html"] | None = None,
    lang: Language | None = None,
    pdf: str | os.PathLike[str] | None = None,
    tried: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    sign_off: Mapping[str, Any] | None = None,
) -> str:
    """A report of a finished run, from its documents alone, never from the data.

    HTML is the officer's report: one page without scripts, in the edition of the documents. Markdown is a short text.

    Parameters
    ----------
    run : path or ReleaseResult
        A released folder, the folder of a private record or of a run that waits, or a verdict file. A result stands for
        its released folder.
    out : path, optional
        Write the report here too.
    format : {"markdown", "html"}, optional
        Default: by the name of `out`, else markdown.
    lang : {"en", "de", "fr", "es"}, optional
        Of the page. Default: the policy's, else English.
    pdf : path, optional
        Print the page here, by a browser or a library that is installed.
    tried : mapping or path, optional
        What ``privpipe compare POLICY --grid FILE --json`` printed: settings to show in the internal edition.
    sign_off : mapping, optional
        See `ReportData`; left out, what the documents say.

    Returns
    -------
    str
        What rests on few records is shown as such.

    Raises
    ------
    UsageError
        Nothing of the kind is there, another format or language, or nothing that prints is installed.
    SinkError
        `out` cannot be written.

    Examples
    --------
    >>> report("nowhere")
    Traceback (most recent call last):
    privpipe.errors.UsageError: 'nowhere' is no finished run: ...
    """
    form = _form(format, out)
    language_of(lang, {})
    path = run if isinstance(run, str | os.PathLike) else getattr(run, "path", None)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(
            f"report: give the path of a finished run, or the result of a release, no {type(run).__name__}"
        )
    documents = RunDocuments.read(os.fspath(path))
    data = ReportData.of(documents, sign_off=sign_off, tried=_tried(tried))
    language = language_of(lang, documents.policy)
    text = report_page(data, language) if form == "html" else release_report(documents)
    if pdf is not None:
        write_pdf(report_page(data, language), pdf)
    if out is not None:
        try:
            with open(out, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise SinkError(f"cannot write {os.fspath(out)!r}: {error.strerror}") from None
    return text


def _tried(given: Mapping[str, Any] | str | os.PathLike[str] | None) -> Mapping[str, Any] | None:
    """A risk-utility map as a document."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        found: Any = given
    else:
        try:
            found = json.loads(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"the map {os.fspath(given)!r} cannot be read ({type(error).__name__})") from None
    wrong = misshapen(found, TRIED)
    if wrong:
        raise UsageError(f"the map is not what `privpipe compare POLICY --grid FILE --json` prints: {wrong}")
    checked: Mapping[str, Any] = found
    return checked


def _form(format: str | None, out: str | os.PathLike[str] | None) -> ReportFormat:
    if format not in (None, "markdown", "html"):
        raise UsageError(f"format must be markdown or html, not {format!r}")
    by_name = out is not None and PurePath(out).suffix.lower() in (".html", ".htm")
    return "html" if format == "html" or (format is None and by_name) else "markdown"

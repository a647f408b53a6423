"""The report of a finished run as text, as an HTML page or as PDF; ``privpipe report`` is the same call."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from privpipe.border import bordered
from privpipe.errors import SinkError, UsageError
from privpipe.reporting.officer.languages import Language, language_of
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.release_report import ReportFormat, release_report
from privpipe.reporting.run_documents import TRIED, RunDocuments, misshapen

__all__ = ["BROWSERS", "browser", "report", "write_pdf"]


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
BROWSER_VARIABLE = "PRIVPIPE_BROWSER"
"""Names another browser of the kind."""
SECONDS = 120
OFFLINE = (
    "--headless",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--proxy-server=http://127.0.0.1:9",  # where nothing listens: a page that is printed reaches no network
)
NOT_INSTALLED = (
    "a PDF is printed by a browser (chromium, chrome) or by the library weasyprint, and neither is installed here: "
    f"pip install 'privpipe[report]', name a browser in {BROWSER_VARIABLE}, or print the HTML report from any browser"
)


def browser() -> str | None:
    """The browser that prints: the one that is named, else the first that is installed.

    Examples
    --------
    >>> found = browser()
    >>> found is None or isinstance(found, str)
    True
    """
    named = os.environ.get(BROWSER_VARIABLE)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def write_pdf(page: str, out: str | os.PathLike[str]) -> None:
    """Print a report on A4.

    Parameters
    ----------
    page : str
        From `report_page`.
    out : path

    Raises
    ------
    UsageError
        Nothing that prints is installed.
    SinkError
        It printed nothing, or the file cannot be written.
    """
    found = browser()
    if found is None and importlib.util.find_spec("weasyprint") is None:
        raise UsageError(NOT_INSTALLED)
    # The page may be an internal one: it is in a private folder while it is printed.
    with tempfile.TemporaryDirectory(prefix="privpipe-") as folder:
        source, made = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, encoding="utf-8")
        if found is not None:
            _by_browser(found, source, made, folder)
        else:
            _by_library(source, made)
        if not made.is_file() or not made.read_bytes().startswith(b"%PDF"):
            raise SinkError("the report was not printed; print the HTML report from a browser instead")
        try:
            Path(out).write_bytes(made.read_bytes())
        except OSError as error:
            raise SinkError(f"cannot write {os.fspath(out)!r}: {error.strerror}") from None


def _by_browser(found: str, source: Path, made: Path, folder: str) -> None:
    options = [*OFFLINE, f"--user-data-dir={folder}/profile", "--no-pdf-header-footer"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # it refuses to sandbox for the superuser
        options.append("--no-sandbox")
    try:
        subprocess.run(
            [found, *options, f"--print-to-pdf={made}", source.as_uri()],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SinkError(f"the browser could not print the report ({type(error).__name__})") from None


def _by_library(source: Path, made: Path) -> None:
    import weasyprint

    weasyprint.HTML(filename=str(source)).write_pdf(str(made))


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
        A released folder, the folder of a private record or of a run that waits, or a verdict file. A result represents
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

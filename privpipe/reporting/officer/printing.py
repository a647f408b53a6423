"""A report as PDF, by a browser or a library that is installed; nothing is fetched."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from privpipe.errors import SinkError, UsageError

__all__ = ["BROWSERS", "browser", "write_pdf"]

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
    "--proxy-server=http://127.0.0.1:9",  # where nobody listens: a page that is printed reaches no network
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
    # The page may be an internal one: it lies in a private folder while it is printed.
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

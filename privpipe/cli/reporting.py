"""``privpipe report``: a report of a release, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from privpipe.cli.console import put, say, write_text
from privpipe.errors import UsageError

__all__ = ["report"]


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A released folder, the folder of a private record, or a verdict file.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it here instead of stdout.", show_default=False),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="markdown or html; left out, taken from --out, else markdown.", show_default=False
        ),
    ] = None,
) -> None:
    """Report on a finished run.

    From its documents alone, never from the data; the report says whether they are the public or the private edition.
    What rests on fewer than 5 records is shown as such.
    """
    from privpipe.report.release_report import release_report
    from privpipe.report.run_documents import RunDocuments

    text = release_report(RunDocuments.read(run), _form(format, out))
    if out is None:
        put(text, end="")
        return
    write_text(out, text)
    say(f"REPORTED: {out}")


def _form(format: str | None, out: Path | None) -> Literal["markdown", "html"]:
    if format not in (None, "markdown", "html"):
        raise UsageError(f"--format must be markdown or html, not {format!r}")
    by_name = out is not None and out.suffix.lower() in (".html", ".htm")
    return "html" if format == "html" or (format is None and by_name) else "markdown"

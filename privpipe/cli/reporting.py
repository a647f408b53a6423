"""``privpipe report``: a report of a release, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from privpipe.cli import completing
from privpipe.cli.console import put, say
from privpipe.errors import UsageError

__all__ = ["report"]

Lang = Literal["en", "de", "fr", "es"]


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A released folder, the folder of a private record or of a run that waits, or a verdict file.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it here instead of stdout.", show_default=False),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="markdown or html; left out, taken from --out, else markdown.",
            show_default=False,
            autocompletion=completing.report_formats,
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            "--lang",
            metavar="L",
            help="Language of the page: en, de, fr or es; left out, the policy's.",
            show_default=False,
            autocompletion=completing.report_languages,
        ),
    ] = None,
    pdf: Annotated[
        Path | None,
        typer.Option(
            "--pdf",
            metavar="FILE",
            help="Print the page here, by a browser or a library that is installed.",
            show_default=False,
        ),
    ] = None,
    tried: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="What `compare POLICY --grid FILE --json` printed: settings tried, for the internal edition.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Report on a finished run.

    From its documents alone, never from the data; the report says whether they are the public or the private edition.
    HTML is the officer's report, by which a release is approved; Markdown is a short text. What rests on few records is
    shown as such.
    """
    from privpipe.reporting.report import report as write

    if format not in (None, "markdown", "html"):
        raise UsageError(f"--format must be markdown or html, not {format!r}")
    text = write(
        run,
        out,
        format=cast(Literal["markdown", "html"] | None, format),
        lang=cast(Lang | None, lang),
        pdf=pdf,
        tried=tried,
    )
    if out is None and pdf is None:
        put(text, end="")
    for made in (out, pdf):
        if made is not None:
            say(f"REPORTED: {made}")

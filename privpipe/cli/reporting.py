"""``privpipe report``: a report of a release, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from privpipe.cli import completing
from privpipe.cli.console import put, say
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
            "--format",
            help="markdown or html; left out, taken from --out, else markdown.",
            show_default=False,
            autocompletion=completing.report_formats,
        ),
    ] = None,
) -> None:
    """Report on a finished run.

    From its documents alone, never from the data; the report says whether they are the public or the private edition.
    What rests on fewer than 5 records is shown as such.
    """
    from privpipe.reporting.report import report as write

    if format not in (None, "markdown", "html"):
        raise UsageError(f"--format must be markdown or html, not {format!r}")
    text = write(run, out, format=cast(Literal["markdown", "html"] | None, format))
    if out is None:
        put(text, end="")
    else:
        say(f"REPORTED: {out}")

"""``privpipe export``: a finished run in the formats of other tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.console import put, say, write_text

__all__ = ["export"]


def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A released folder, the folder of a private record, or a verdict file.")
    ],
    format: Annotated[str, typer.Option("--format", metavar="F", help="junit, markdown, openlineage or prometheus.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write it here, in one move, instead of stdout.", show_default=False
        ),
    ] = None,
) -> None:
    """Export a finished run for other tools.

    From its documents alone, never from the data.
    JUnit XML and GitHub-flavoured Markdown of the verdict, Prometheus' text format, or an OpenLineage event with the
    verdict and the lineage of columns. Of a private record it shows private figures: export the release for readers.
    """
    from privpipe.reporting.exports import exported

    text = exported(run, format)
    if out is None:
        put(text, end="")
        return
    new = out.with_name(f".{out.name}.new")  # a collector never reads a half
    write_text(new, text)
    os.replace(new, out)
    say(f"EXPORTED: {out}")

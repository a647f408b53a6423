"""``privpipe fetch``: the published release of a sink, in a folder of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.arguments import JsonOption
from privpipe.cli.console import print_json, put

__all__ = ["fetch"]


def fetch(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A sink: s3://, gs://, abfs:// or a folder.", show_default=False)
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Where it is read then; absent, or fetched before.")
    ],
    json: JsonOption = False,
) -> None:
    """Copy the published release of a sink to a folder.

    It is found by the pointer or link of the sink, and each file must have the SHA-256 that the public manifest lists:
    else nothing is changed, and the exit code is 3. The folder is switched in one step; fetching again replaces it.
    """
    from privpipe.running.fetching import fetch as fetched

    found = fetched(url, to)
    if json:
        print_json(found.to_dict())
        return
    put(f"{found.path}: release {found.run_id}, {len(found.files):,} files{'' if found.changed else ', as before'}")

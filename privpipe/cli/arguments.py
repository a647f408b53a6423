"""Arguments and options that several commands share, and how a policy is loaded for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli import completing
from privpipe.cli.console import warn_all

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["EngineOption", "JsonOption", "PolicyArgument", "ProgressOption", "loaded"]

PolicyArgument = Annotated[
    Path,
    typer.Argument(
        metavar="POLICY", help="The policy file (YAML).", show_default=False, autocompletion=completing.policies
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="E",
        help="embedded, dask, spark or a plug-in's, instead of the policy's.",
        show_default=False,
        autocompletion=completing.engines,
    ),
]
ProgressOption = Annotated[
    bool,
    typer.Option(
        "--progress", help="Print how far the run is as lines on stderr, for logs; a terminal shows a bar without it."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a document for machines on stdout, and nothing else.")]


def loaded(path: Path) -> Policy:
    """The policy of a file; its warnings go to stderr."""
    from privpipe.policy import Policy

    policy: Policy = Policy.load(path)
    warn_all(policy.warnings)
    return policy

"""All commands, and what holds for every one of them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import privpipe
from privpipe.cli import (
    compare,
    doctor,
    drafts,
    explain,
    explore,
    finished_runs,
    gate,
    gx_contexts,
    hierarchy,
    keys,
    ledger,
    plan,
    release,
    share,
    tables,
    warm,
)
from privpipe.cli import drafts as demo
from privpipe.cli import explain as plugin_list
from privpipe.cli import explain as schema
from privpipe.cli.collector import none_at_the_end, seldom
from privpipe.cli.console import (
    ended_by_signal,
    guarded,
    handle_signals,
    ignore_signals,
    interrupted,
    prepare_streams,
    settle,
)

__all__ = ["app", "main"]

HELP = """Transform tables about people, and publish only those that meet their guarantees.

A policy declares the columns of a table, its transformations and its guarantees. See `privpipe explain` for every
guarantee, transformer and measure, and `privpipe init` for a first policy.
"""
EPILOG = (
    "Exit codes: 0 passed or published, 1 a crash (a bug in privpipe), 2 usage or policy, 3 data or hierarchy, "
    "4 engine or I/O, 5 refused: a guarantee does not hold, 6 no solution within the limits, 7 a signature is missing; "
    "129, 130, 143: ended by SIGHUP, Ctrl-C, SIGTERM."
)

app = typer.Typer(
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"privpipe {privpipe.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each step to stderr.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="After a crash, print the traceback: files and lines, never values.")
    ] = False,
) -> None:
    """Settings of every command."""
    settle(verbose=verbose or debug, debug=debug)


for name, command in (
    ("demo", demo.demo),
    ("doctor", doctor.doctor),
    ("init", drafts.init),
    ("assess", gate.assess),
    ("plan", plan.plan),
    ("transform", plan.transform),
    ("release", release.release),
    ("validate", gate.validate),
    ("fetch", finished_runs.fetch),
    ("report", finished_runs.report),
    ("export", finished_runs.export),
    ("verify", finished_runs.verify),
    ("history", finished_runs.history),
    ("sign", keys.sign),
    ("compare", compare.compare),
    ("explore", explore.explore),
    ("explain", explain.explain),
    ("schema", schema.schema),
    ("plugins", plugin_list.plugins),
    ("seed", keys.seed),
    ("warm", warm.warm),
):
    app.command(name)(guarded(command))
app.add_typer(hierarchy.commands, name="hierarchy")
app.add_typer(ledger.commands, name="ledger")
app.add_typer(tables.commands, name="tables")
app.add_typer(share.commands, name="share")
app.add_typer(keys.commands, name="key")
app.add_typer(gx_contexts.commands, name="gx")


def main() -> None:
    """Entry point of the ``privpipe`` script."""
    prepare_streams()
    handle_signals()
    none_at_the_end()
    try:
        with seldom():
            app(prog_name="privpipe")
    except KeyboardInterrupt:
        sys.exit(interrupted())
    except SystemExit as ending:
        ignore_signals()  # the command has ended, with a code that no signal changes now
        if ended_by_signal(ending.code):
            sys.exit(interrupted())
        raise

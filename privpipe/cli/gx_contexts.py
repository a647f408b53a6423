"""``privpipe gx``: data contexts of Great Expectations that cannot pass a table unjudged."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from privpipe.cli.console import guarded, print_json, put, say
from privpipe.errors import DataError, UsageError

__all__ = ["commands"]


commands = typer.Typer(help="Great Expectations: find and prevent suites that judge nothing.", no_args_is_help=True)

Context = Annotated[
    Path, typer.Argument(metavar="CONTEXT", help="The folder of the context, or of its project.", show_default=False)
]


def check(
    context: Context,
    json_: Annotated[bool, typer.Option("--json", help="The findings as JSON on stdout.")] = False,
) -> None:
    """Find suites and checkpoints that judge or stop nothing.

    Suites that lost privacy expectations, and checkpoints that raise nothing. Reads the files of the context and runs
    nothing. Ends with exit code 3 where anything is found.
    """
    found = _room().check(context)
    if json_:
        print_json({"findings": [vars(finding) for finding in found]})
    else:
        for finding in found:
            put(f"{finding.kind.upper()}: {finding}")
    if found:
        raise DataError(f"{len(found)} finding(s): the context may report success for a table that was not judged")
    say("FOUND: nothing. Each privacy suite is whole, and each of its checkpoints raises an error when it fails.")


def _room() -> Any:
    if importlib.util.find_spec("great_expectations") is None:
        raise UsageError("Great Expectations is not installed: pip install 'privpipe[gx]'")
    return importlib.import_module("privpipe.gx")


def protect(context: Context) -> None:
    """Make every process that opens a context load privacy expectations.

    Adds one line to its configuration: the module of the store of suites. A process without privpipe then cannot open
    the context, and a suite that has lost an expectation cannot be read.
    """
    changed = _room().protect(context)
    say(f"PROTECTED: {context}" if changed else f"PROTECTED before, nothing changed: {context}")


def init(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A policy file, or the name of a template.", show_default=False)
    ],
    context: Annotated[
        Path, typer.Argument(metavar="PROJECT", help="The folder of the project; made where there is none.")
    ] = Path(),
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter; columns with commas between them.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the suite.", show_default=False)
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a suite of that name.")] = False,
) -> None:
    """Write a suite into a project of Great Expectations.

    From a policy or from a template: k_anonymity, research_file or safe_harbor. Protects the project as
    `privpipe gx protect` does.
    """
    room = _room()
    made = room.init(source, context, name=name, replace=replace, **_parameters(given or []))
    for entry, reason in made.left_out.items():
        say(f"LEFT OUT: {entry} is not available as an expectation: {reason}")
    named = f"suite {made.suite!r}" if not made.others else f"suites {', '.join(map(repr, (made.suite, *made.others)))}"
    say(f"WROTE: {named} with {made.expectations} expectation(s) into {made.root}")
    if made.awaited:
        say(f"GIVE with each run, as expectation_parameters: {', '.join(made.awaited)}")
    several = "with a validation of each table and its suite" if made.others else "of the suite"
    say(f'NEXT: a checkpoint {several}, with actions=[privpipe.gx.RaiseOnFailure(name="gate")]')


def _parameters(given: list[str]) -> dict[str, Any]:
    """Values of ``--set``: lists of columns, whole numbers, and texts."""
    lists = importlib.import_module("privpipe.gx.suites").COLUMN_PARAMETERS
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or name in found:
            raise UsageError(f"--set {name}: must be NAME=VALUE, once for each name")
        if name in lists:
            found[name] = [column for column in text.split(",") if column]
        else:
            found[name] = int(text) if text.isdecimal() and name != "column" else text
    return found


for name, command in (("check", check), ("protect", protect), ("init", init)):
    commands.command(name)(guarded(command))

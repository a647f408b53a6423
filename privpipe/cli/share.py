"""``privpipe share``: the tables of several holders added up, without any of them seeing another's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.arguments import EngineOption, JsonOption
from privpipe.cli.console import guarded, say
from privpipe.cli.keys import KeyOption, private_key
from privpipe.errors import UsageError

__all__ = ["commands"]

commands = typer.Typer(help="Add up tables of several holders by shares.", no_args_is_help=True)
DocumentArgument = Annotated[
    Path, typer.Argument(metavar="RUN.yaml", help="The run document, the same at every holder.", show_default=False)
]
HolderOption = Annotated[str, typer.Option("--holder", metavar="NAME", help="Who you are, as the run document has it.")]
WorkOption = Annotated[
    Path, typer.Option("--work", metavar="DIR", help="Your private folder; it remembers which runs there were.")
]


def split(
    document: DocumentArgument,
    holder: HolderOption,
    data: Annotated[str, typer.Option("--data", metavar="PATH", help="Your records; they do not leave you.")],
    work: WorkOption,
    key: KeyOption = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="DIR", help="With epsilon: where spends are kept.", show_default=False),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option("--limit", metavar="EPSILON", help="With epsilon: of all runs together.", show_default=False),
    ] = None,
    engine: EngineOption = None,
) -> None:
    """Count your table and send each other holder a share.

    Every cell is split into shares that look random; each is encrypted to one holder. Repeated after a kill, it sends
    the same shares.
    """
    from privpipe.sharing import Budget, Participant, RunDocument
    from privpipe.tables.aggregates import rational

    if (ledger is None) != (limit is None):
        raise UsageError("--ledger and --limit belong together")
    budget = None if ledger is None or limit is None else Budget(ledger, rational(limit, "--limit"))
    found = RunDocument.load(document)
    own = Participant(document=found, name=holder, key=private_key(key), work=work)
    sent = own.split(data, engine=engine, budget=budget)
    say(f"SENT: {sent} shares to {found.folder}; {len(found.holders) - 1 - sent} were there already")


def add_up(document: DocumentArgument, holder: HolderOption, work: WorkOption, key: KeyOption = None) -> None:
    """Add up what you received, and publish the sum.

    All shares must be there. With guarantees the sum is encrypted to the writer.
    """
    from privpipe.sharing import Participant, RunDocument

    found = RunDocument.load(document)
    new = Participant(document=found, name=holder, key=private_key(key), work=work).add_up()
    say(f"{'SENT' if new else 'THERE ALREADY'}: the partial sum of {holder} in {found.folder}")


def combine(
    document: DocumentArgument,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Where the joint table is published.")],
    work: WorkOption,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Add up all partial sums, judge the joint table, publish it.

    With guarantees the writer does it, with the writer's key. Exit code 5 when a guarantee does not hold: nothing is
    published. A run that was published is not published again.
    """
    from privpipe.cli.release import released
    from privpipe.running.run_context import Course
    from privpipe.sharing import RunDocument, joint_policy

    found = RunDocument.load(document)
    policy = joint_policy(found, work, to, key=None if found.writer is None else private_key(key))
    code = released(policy, engine=None, target=None, course=Course(batch=found.nonce), json=json)
    raise typer.Exit(code)


for name, command in (("split", split), ("sum", add_up), ("combine", combine)):
    commands.command(name)(guarded(command))

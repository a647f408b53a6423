"""``privpipe ledger``: check, show and repair ledgers of releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.arguments import JsonOption, loaded
from privpipe.cli.console import guarded, print_json, print_table, say
from privpipe.errors import DataError, UsageError

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["commands"]

commands = typer.Typer(help="Check, show and repair ledgers of releases.", no_args_is_help=True)
SourceArgument = Annotated[
    Path,
    typer.Argument(metavar="PATH|POLICY", help="A ledger's folder, or a policy that names one.", show_default=False),
]
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", metavar="NAME", help="Variable with the ledger's key, where no policy names it."),
]
KeyFile = Annotated[
    str | None,
    typer.Option("--key-file", metavar="FILE", help="File with the ledger's key, where no policy names it."),
]


@dataclass(frozen=True)
class _Asked:
    """The ledger a command is about."""

    path: Path
    key: Mapping[str, str] | None
    normalise: tuple[str, ...] = ()
    policy: Policy | None = None

    @contextmanager
    def sink(self, *, held: bool = False) -> Iterator[tuple[str, Any] | None]:
        """The policy's sink as a witness; `held`: no run can write it meanwhile."""
        from privpipe.running.places import folder_of
        from privpipe.sinks.remote import RemoteTarget

        if self.policy is None or self.policy.sink is None or not self.policy.sink.is_folder:
            yield None  # a table cannot be a witness of a ledger, and no policy names both
            return
        place: Any = folder_of(self.policy, None)
        name = place.name
        if held:
            with place:
                yield name, place
            return
        try:
            yield name, place
        finally:
            if isinstance(place, RemoteTarget):
                place.__exit__(None, None, None)


def check(source: SourceArgument, key_env: KeyEnv = None, key_file: KeyFile = None, json: JsonOption = False) -> None:
    """Prove the chain of a ledger, and compare it with its sinks.

    Exit code 3 when anything is missing, changed or older than a sink knows it. Nothing is changed.
    """
    from privpipe.ledger.repair import examined

    asked = _asked(source, key_env, key_file)
    _require_key(asked)
    with asked.sink() as sink:
        found = examined(asked.path, asked.key, sink)
    document = found.to_dict()
    if json:
        print_json(document)
    else:
        pending = f", {document['pending']} pending" if document["pending"] else ""
        print(f"{document['entries']:,} entries{pending}; {document['follows']} are followed")
        print(f"proved by {document['proved_by']}")
        for view in document["sinks"]:
            knows = "knows nothing of it" if view["entry"] is None else f"knows it up to entry {view['entry']:,}"
            print(f"sink {view['sink']}: {knows}")
        for loss in document["losses"]:
            print(f"history was declared lost on {loss['time']}; {loss['kept']:,} entries were kept")
    if found.problems:
        raise DataError("the ledger is not sound: " + "; ".join(found.problems) + ". See `privpipe ledger repair`")
    say("SOUND: the chain is whole, and every existing sink agrees with it.")


def show(source: SourceArgument, key_env: KeyEnv = None, key_file: KeyFile = None, json: JsonOption = False) -> None:
    """List releases of a ledger: when, where to, of how many.

    Without the key nothing is proved of them, and the list says so. No key and no hash is shown.
    """
    from privpipe.ledger.repair import entry_rows

    asked = _asked(source, key_env, key_file)
    proved = asked.key is not None or not _follows_persons(asked.path)
    chain, rows = entry_rows(asked.path, asked.key, proved=proved)
    if json:
        document = {"ledger": str(asked.path), "proved": proved and not chain.problems, "entries": rows}
        print_json({**document, "pending": len(chain.pending), "problems": list(chain.problems)})
    else:
        _print_rows(rows, "persons" if chain.head.persons else "combinations")
    if chain.problems:
        raise DataError("the ledger is not sound: " + "; ".join(chain.problems) + ". See `privpipe ledger repair`")
    if not proved:
        say("not proved: give the ledger's key (--key-env, --key-file, or a policy that names it)")


def repair(
    source: SourceArgument,
    key_env: KeyEnv = None,
    key_file: KeyFile = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Where history is lost: begin a new ledger with what still proves itself; every verdict states it.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Repair a ledger as far as its entries prove themselves.

    Drops torn pending entries, seals a ledger of version 1, rebuilds a lost ledger.json from the entries, and a
    damaged record of the policy's sink from the ledger. Exit code 3, and no change, when it cannot be repaired.
    """
    from privpipe.ledger.repair import repair as mend

    asked = _asked(source, key_env, key_file)
    if asked.path.is_dir():
        _require_key(asked)
    with asked.sink(held=True) as sink:
        done = mend(asked.path, asked.key, normalise=asked.normalise, place=sink, accept_loss=accept_loss)
    if json:
        print_json({"ledger": str(asked.path), "done": done})
        return
    for line in done:
        print(line)
    say(f"REPAIRED: {asked.path}" if done else "nothing was wrong, and nothing was changed")


for name, command in (("check", check), ("show", show), ("repair", repair)):
    commands.command(name)(guarded(command))


def _asked(source: Path, key_env: str | None, key_file: str | None) -> _Asked:
    from privpipe.ledger import named_ledger

    if key_env is not None and key_file is not None:
        raise UsageError("give --key-env or --key-file, one of the two")
    given = {"from_env": key_env} if key_env is not None else {"from_file": key_file} if key_file is not None else None
    if not source.is_file():
        return _Asked(source, given)
    policy = loaded(source)
    named = named_ledger(policy.entries, policy.tables)
    if named is None:
        raise UsageError(
            "the policy names no ledger: an entry such as `complementary_release: {k: 5, ledger: FOLDER, key: ...}` "
            "(of tables: `table_audit: {ledger: FOLDER, key: ...}`) has one; `privpipe explain complementary_release` "
            "shows its keys"
        )
    return _Asked(Path(named.path), given or named.key, named.normalise, policy)


def _require_key(asked: _Asked) -> None:
    """Without its key nothing of a ledger can be proved."""
    if asked.key is None and _follows_persons(asked.path):
        raise UsageError(
            "the ledger follows persons, by a key; give it by --key-env or --key-file, or name the policy instead"
        )


def _follows_persons(path: Path) -> bool:
    """Whether a ledger declares that it needs a key; one that declares nothing is left to what comes next."""
    from privpipe.ledger.chain import read_bytes
    from privpipe.ledger.folder import HEAD, read_document

    if not (path / HEAD).is_file():
        return False
    try:
        return read_document(read_bytes(path / HEAD), HEAD).get("persons") is True
    except DataError:
        return False


def _print_rows(rows: list[dict[str, Any]], units: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in ("number", "run", "time", "sink", "records", units):
        table.add_column(name, justify="right" if name in ("number", "records", units) else "left")
    for row in rows:
        figures = (
            f"{row['number']:,}",
            row["run_id"],
            row["time"],
            row["sink"],
            f"{row['records']:,}",
            f"{row[units]:,}",
        )
        table.add_row(*map(Text, figures))
    print_table(table)

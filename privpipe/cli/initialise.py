"""``privpipe init``: a first policy for a table, with the reason of every guess."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli.console import say, write_text
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.drafting.draft import Method

__all__ = ["init"]


def init(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file or a folder of files.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write here instead of stdout.", show_default=False)
    ] = None,
    suggest: Annotated[
        bool,
        typer.Option("--suggest/--bare", help="Suggest hierarchies, a method and guarantees, or write roles alone."),
    ] = True,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Between the fields of a CSV file; left out, detected.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="A table of a DuckDB or SQLite file.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
) -> None:
    """Draft a commented policy for a table.

    Guesses the role and type of each column by its name, its values and its relations to the others, tries on a
    sample which method keeps most, and says why. The guesses are a start, not a decision: read every line. No value
    of the table is printed.
    """
    from privpipe.drafting.draft import draft_policy
    from privpipe.drafting.profiling import profile_table
    from privpipe.drafting.trying import chosen_method

    if out is not None and out.exists() and not force:
        raise UsageError(f"{str(out)!r} exists already; --force overwrites it")
    seen = profile_table(data, delimiter, table)
    home = Path(os.path.abspath(out)).parent if out is not None else Path.cwd()

    def draft(method: Method | None) -> str:
        return draft_policy(
            seen.source,
            seen.profiles,
            home=home,
            suggest=suggest,
            unsure=seen.unsure,
            relations=seen.relations,
            method=method,
        )

    text = draft(chosen_method(draft, home) if suggest else None)
    _require_sound(text, home)
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        say(f"WRITTEN: {out}. Read it line by line: the roles are guesses.")


def _require_sound(text: str, home: Path) -> None:
    """A draft that does not load would be our mistake, raised at once."""
    from privpipe.policy.plain_values import from_yaml
    from privpipe.policy.reader import read_mapping

    document, report = from_yaml(text, "draft")
    report.raise_if_wrong()
    read_mapping(document, home)

"""``privpipe tables``: finished tables of cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.console import guarded, say, write_text
from privpipe.errors import UsageError

__all__ = ["commands"]

commands = typer.Typer(help="Finished tables of cells.", no_args_is_help=True)


def draft(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A finished table, long or wide: .csv or .parquet.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the policy here instead of stdout.", show_default=False),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="C", help="Between the fields of a CSV file.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
) -> None:
    """Draft the policy of a finished table.

    Guesses its dimensions, the label of the total, trees of labels and responses from relations that hold in every row.
    Read every line, then judge the table by `privpipe validate FILE POLICY`.
    """
    from privpipe.drafting.finished_tables import finished_policy
    from privpipe.running.table_frames import finished_rows, labels_in_order

    if out is not None and out.exists() and not force:
        raise UsageError(f"{str(out)!r} exists already; --force overwrites it")
    said = {} if delimiter is None else {"delimiter": delimiter}
    order = labels_in_order(file, delimiter or ",")
    text = finished_policy(finished_rows(file, "tables draft", **said), Path(file).stem or "table", order)
    if out is None:
        print(text, end="")
        return
    write_text(out, text)
    say(f"WRITTEN: {out}. Read it line by line: dimensions and trees are guesses.")


commands.command("draft")(guarded(draft))
